"""Side inputs: what an op needs in every worker, declared as data and loaded once a process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from sidecar_core.errors import OpError, RefusedError, SidecarError
from sidecar_core.inputs import is_as_planned
from sidecar_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar_core.dataset import Dataset
    from sidecar_core.op import BaseOp
    from sidecar_core.plan import RunPlan


@dataclass(frozen=True)
class SideInputSpec:
    """What to load, as data that can be sent to any worker.

    Attributes:
        loader: name of a registered loader, such as `parquet_index`.
        params: the loader's arguments, JSON values only.
        sources: the Parquet files and prefixes that it is made from, absolute. The plan fixes their versions: a run
            ends when one changes before it is loaded, and shards made from another version are stale.
    """

    loader: str
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class SiblingSpec:
    """A sidecar whose shard at the same rel_path an op reads beside the main shard.

    Attributes:
        prefix: where it is, normalised.
        required: whether each main shard must have one there; else its absence is part of what a shard is made from.
    """

    prefix: str
    required: bool = True


class SideInputLoader(Protocol):
    """Makes the object that ops find in `ctx.side_inputs`; called once a process, before its first shard."""

    def __call__(self, params: Mapping[str, object], dataset: Dataset, /) -> object:
        """Returns the object, which threads share: nobody may change it.

        Args:
            params: those of the `SideInputSpec`.
            dataset: the dataset that the pipeline runs on; its `storage` says how to reach an object store.

        Raises:
            SidecarError: shown as it is. Whatever is raised ends the run, and no shard is tried.
        """
        ...


LoaderT = TypeVar("LoaderT", bound=SideInputLoader)

LOADERS: Registry[SideInputLoader] = Registry("sidecar.side_input_loaders", "side-input loader")


def register_side_input_loader(name: str) -> Callable[[LoaderT], LoaderT]:
    """Returns the decorator that registers a function as the loader of a name, for `SideInputSpec.loader`.

    Packages offer loaders through the entry-point group `sidecar.side_input_loaders`, whose values name the functions.

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


def read_besides(op: BaseOp, dataset: Dataset) -> list[str]:
    """Returns the prefixes and files that an op reads besides the main dataset."""
    sources = [source for spec in op.declare_side_inputs(dataset).values() for source in spec.sources]
    return [*(spec.prefix for spec in op.declare_siblings(dataset)), *sources]


def load_side_inputs(plan: RunPlan) -> dict[int, dict[str, object]]:
    """Loads the side inputs of all ops of a plan, and checks that they are made from what the plan saw.

    Returns:
        What was loaded, by the op's position and the op's name for it.

    Raises:
        OpError: one did not load; the run cannot go on.
        SidecarError: so says its loader, or a source changed since the run was planned.
    """
    loaded: dict[int, dict[str, object]] = {}
    for index, op in enumerate(plan.operations):
        for name, spec in op.declare_side_inputs(plan.dataset).items():
            try:
                value = side_input_loader(spec.loader)(spec.params, plan.dataset)
            except SidecarError:
                raise
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                message = f"operations[{index}] {op.type_name!r}: side input {name!r} did not load: {said}"
                raise OpError(message) from error
            loaded.setdefault(index, {})[name] = value
    _check_sources(plan)
    return loaded


def _check_sources(plan: RunPlan) -> None:
    """Raises RefusedError when a source is no longer the version that the footers would name."""
    for version in dict.fromkeys(version for output in plan.outputs for version in output.sources):
        if not is_as_planned(version, plan.dataset.storage):
            raise RefusedError(
                f"{version.uri} changed since the run was planned",
                f"the {version.size_bytes:,} bytes that were there then",
                "start the run again",
            )
