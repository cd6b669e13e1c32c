"""Names for ops and loaders: those registered in this process, and those that installed packages offer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeVar

from sidecar_core.errors import ConfigError, UsageError
from sidecar_core.offers import offered_by_packages
from sidecar_core.op import BaseOp, OpParams
from sidecar_core.plugin_faults import log_traceback, words_of
from sidecar_core.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
OpT = TypeVar("OpT", bound=type[BaseOp])

PACKAGE_OF_OP: Mapping[str, str] = {
    "compute_filters": "sidecar-filters",
    "crop_structured_description": "sidecar-resize",
    "resize_image": "sidecar-resize",
}


class Registry(Generic[T]):
    """Objects by name; an entry point is loaded only when its name is asked for.

    Args:
        group: the entry-point group in which packages offer such objects.
        kind: what the objects are, for messages.
        packages: names that exist, and the package to install for each.
    """

    def __init__(self, group: str, kind: str, packages: Mapping[str, str] | None = None) -> None:
        self._group = group
        self._kind = kind
        self._packages = dict(packages or {})
        self._objects: dict[str, T] = {}

    def add(self, name: str, item: T) -> None:
        """Registers `item`; the same class or function, imported again, replaces itself.

        Raises:
            UsageError: another one has that name.
        """
        other = self._objects.get(name)
        if other is not None and _place(other) != _place(item):
            raise self._duplicate(name, _place(other), _place(item))
        self._objects[name] = item

    def get(self, name: str) -> T:
        """Returns the object of that name.

        Raises:
            UsageError: unknown, offered twice, or its package cannot be imported.
        """
        offered = self._offered(name)
        registered = self._objects.get(name)
        places = list(offered)
        if registered is not None and not any(_is_at(place, registered) for place in offered):
            places.append(_place(registered))
        different = list(dict.fromkeys(places))
        if len(different) > 1:
            raise self._duplicate(name, *different[:2])
        if registered is not None:
            return registered
        if not offered:
            raise self._unknown(name)
        place, load = next(iter(offered.items()))
        try:
            item = load()
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            log_traceback(error)
            message = (
                f"{self._kind} {name!r} ({place}) cannot be imported: {words_of(error, of=place.partition(':')[0])}"
            )
            raise UsageError(message, None, "reinstall the package that offers it") from error
        # Importing registers under the name in the decorator; that must be the name of the entry point.
        if self._objects.get(name) is not item:
            message = f"{self._kind} {name!r}: {place} is not registered under that name"
            raise UsageError(message, f"@register_…({name!r}) on {place}")
        return item

    def installed(self) -> dict[str, str]:
        """Returns every name with `module:Name`, sorted; imports nothing."""
        found = {point.name: point.value for point in offered_by_packages(self._group)}
        found.update({name: _place(item) for name, item in self._objects.items()})
        return dict(sorted(found.items()))

    def _offered(self, name: str) -> dict[str, Callable[[], T]]:
        """Returns what packages offer under the name, by place; a package found twice counts once."""
        points = offered_by_packages(self._group)
        return {point.value: point.load for point in points if point.name == name}

    def _unknown(self, name: str) -> UsageError:
        package = self._packages.get(name)
        if package is not None:
            message = f"{self._kind} {name!r} comes with the package {package!r}, which is not installed"
            return UsageError(message, None, f"uv add {package}")
        known = self.installed()
        nearest = did_you_mean(name, [*known, *self._packages])
        return UsageError(f"unknown {self._kind} {name!r}{nearest}", ", ".join(known) or None)

    def _duplicate(self, name: str, first: str, second: str) -> UsageError:
        message = f"{self._kind} {name!r} is registered twice: by {first} and by {second}"
        return UsageError(message, None, "rename one of them, or uninstall its package")


def _is_at(place: str, item: object) -> bool:
    """Returns whether `module:Name` is the item; a package may offer what a module inside it defines."""
    module, _, names = place.partition(":")
    found: object = sys.modules.get(module)
    for name in names.split("."):
        found = getattr(found, name, None)
    return found is item


OPS: Registry[type[BaseOp]] = Registry("sidecar.ops", "operation", PACKAGE_OF_OP)


def register_op(name: str) -> Callable[[OpT], OpT]:
    """Returns the decorator that registers an op class under the name that pipelines use as its `type`.

    Packages offer ops through the entry-point group `sidecar.ops`, whose values name the classes
    (`my_package.ops:CaptionLength`); a pipeline's `plugins` names other modules, which it imports.

    Args:
        name: a verb phrase, such as `drop_columns`; parts may be separated by dots.

    Raises:
        UsageError: the name is none, the class is no op or lacks `apply`, its `Params` or `version` are not what they
            must be, or another op has that name; names both.
    """

    def register(cls: OpT) -> OpT:
        _check_op_class(name, cls)
        OPS.add(name, cls)
        cls.type_name = name
        return cls

    return register


def op_class(name: str) -> type[BaseOp]:
    """Returns the op of that name, importing its package when nobody has yet.

    Raises:
        UsageError: unknown, with the nearest name or the package to install; offered by two packages; or
            its package cannot be imported.
    """
    return OPS.get(name)


def installed_ops() -> dict[str, str]:
    """Returns the names of all ops with `module:Class`, sorted; imports none of them."""
    return OPS.installed()


def _check_op_class(name: str, cls: type[BaseOp]) -> None:
    """Raises UsageError for a class that a plugin's author has not finished."""
    place = _place(cls)
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{place}: {name!r} is no name for an op", "a verb phrase such as drop_columns")
    if not (isinstance(cls, type) and issubclass(cls, BaseOp)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"op {name!r}: {place} does not derive from BaseOp")
    if cls.apply is BaseOp.apply:
        raise UsageError(f"op {name!r}: {place} has no apply()")
    if not (isinstance(cls.Params, type) and issubclass(cls.Params, OpParams)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"op {name!r}: Params of {place} does not derive from OpParams")
    if isinstance(cls.version, bool) or not isinstance(cls.version, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"op {name!r}: version of {place} is {cls.version!r}", "a whole number")


def _place(item: object) -> str:
    """Returns `module:Name`, as entry points write it."""
    return f"{getattr(item, '__module__', '?')}:{getattr(item, '__qualname__', type(item).__qualname__)}"
