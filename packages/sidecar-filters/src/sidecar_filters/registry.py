"""Filters by name: our own, those of installed packages, and those that plugins register.

Children import this module with every filter, so it does without the core's registry, which brings pyarrow.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sidecar_core.errors import UsageError
from sidecar_core.offers import offered_by_packages
from sidecar_core.plugin_faults import log_traceback, words_of
from sidecar_core.problems import did_you_mean

from sidecar_filters.base import Need

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

    from sidecar_filters.base import Filter

FILTERS_GROUP = "sidecar.filters"
_STATUS = "status"  # filter_status is the column of sidecar_filters.status, which children do not load

_registered: dict[str, Filter] = {}


def register_filter(new: Filter) -> Filter:
    """Registers a filter, for use by name in `compute_filters` and `score`, and returns it.

    Packages offer filters through the entry-point group `sidecar.filters`, whose values name the measuring
    functions (`my_package.sharpness:measure_sharpness`) of modules that call this; other modules are named
    in a pipeline's `plugins`, or imported before `score` is called.

    Raises:
        UsageError: another filter has that name, its name, needs or version are none, or its function cannot be sent
            to a child process.
    """
    if not new.name.isidentifier():
        raise UsageError(f"{new.place}: {new.name!r} is no name for a filter", "a noun such as sharpness")
    if new.name == _STATUS:
        message = f"filter {new.name!r}: its column would be filter_status, which says what became of each row"
        raise UsageError(message, None, "another name")
    if not isinstance(new.needs, Need):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller without types
        raise UsageError(f"filter {new.name!r}: needs is {new.needs!r}", "values of Need, such as Need.BYTES")
    if not new.measure.__qualname__.isidentifier() or new.measure.__module__ == "__main__":
        message = f"filter {new.name!r}: a child process cannot import {new.place}"
        raise UsageError(message, "a function at the top level of a module that is not the program itself")
    if isinstance(new.version, bool) or not isinstance(new.version, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"filter {new.name!r}: its version is {new.version!r}", "a whole number")
    other = _registered.get(new.name)
    if other is not None and other.place != new.place:
        raise _duplicate(new.name, other.place, new.place)
    _registered[new.name] = new
    return new


def find_filter(name: str) -> Filter:
    """Returns the filter of that name, importing its package when nobody has yet.

    Raises:
        UsageError: unknown, with the nearest name; offered by two packages; or its package cannot be imported.
    """
    offered = {point.value: point for point in _offered() if point.name == name}
    found = _registered.get(name)
    places = list(offered) if found is None or found.place in offered else [*offered, found.place]
    if not places:
        known = filter_names()
        raise UsageError(f"unknown filter {name!r}{did_you_mean(name, known)}", ", ".join(known))
    if len(places) > 1:
        raise _duplicate(name, *places[:2])
    if found is None:
        try:
            offered[places[0]].load()
        except (Exception, SystemExit) as error:
            log_traceback(error)
            words = words_of(error, of=places[0].partition(":")[0])
            message = f"filter {name!r} ({places[0]}) cannot be imported: {words}"
            raise UsageError(message, None, "reinstall the package that offers it") from error
        found = _registered.get(name)
        if found is None or found.place != places[0]:
            message = f"filter {name!r}: importing {places[0]} registers no filter of that name with that function"
            raise UsageError(message, f"register_filter(Filter({name!r}, …)) in that module")
    return found


def find_filters(names: Iterable[str]) -> tuple[Filter, ...]:
    """Returns the filters of these names, in this order.

    Raises:
        UsageError: as `find_filter`, or a name is there twice, or the names are one string.
    """
    if isinstance(names, str):
        raise UsageError(f"filters is {names!r}", "a list of names", "put it in brackets")
    found: dict[str, Filter] = {}
    for name in names:
        if name in found:
            raise UsageError(f"filter {name!r} is named twice")
        found[name] = find_filter(name)
    return tuple(found.values())


def filter_names() -> list[str]:
    """Returns the names of all filters that are installed or registered, sorted; imports none of them."""
    return sorted({*(point.name for point in _offered()), *_registered})


@cache
def _offered() -> tuple[EntryPoint, ...]:
    """Returns what installed packages offer; looking takes milliseconds, and `score` asks for every picture."""
    return offered_by_packages(FILTERS_GROUP)


def _duplicate(name: str, first: str, second: str) -> UsageError:
    message = f"filter {name!r} is registered twice: by {first} and by {second}"
    return UsageError(message, None, "rename one of them, or uninstall its package")
