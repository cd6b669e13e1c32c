"""Side inputs: what an op needs in every worker, declared as data and loaded once a process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from sidecar_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar_core.dataset import Dataset


@dataclass(frozen=True)
class SideInputSpec:
    """What to load, as data that can be sent to any worker.

    Attributes:
        loader: name of a registered loader, such as `parquet_index`.
        params: the loader's arguments, JSON values only.
    """

    loader: str
    params: Mapping[str, object] = field(default_factory=dict[str, object])


class SideInputLoader(Protocol):
    """Makes the object that ops find in `ctx.side_inputs`; called once a process, before its first shard."""

    def __call__(self, params: Mapping[str, object], dataset: Dataset, /) -> object: ...


LoaderT = TypeVar("LoaderT", bound=SideInputLoader)

LOADERS: Registry[SideInputLoader] = Registry("sidecar.side_input_loaders", "side-input loader")


def register_side_input_loader(name: str) -> Callable[[LoaderT], LoaderT]:
    """Registers a loader under a name.

    Raises:
        UsageError: another loader has that name; names both.
    """

    def register(loader: LoaderT) -> LoaderT:
        LOADERS.add(name, loader)
        return loader

    return register


def side_input_loader(name: str) -> SideInputLoader:
    """Returns the loader of that name, importing its package when nobody has yet.

    Raises:
        UsageError: unknown, with the nearest name; or its package cannot be imported.
    """
    return LOADERS.get(name)


def installed_side_input_loaders() -> dict[str, str]:
    """Returns the names of all loaders with the place of their code, importing none."""
    return LOADERS.installed()
