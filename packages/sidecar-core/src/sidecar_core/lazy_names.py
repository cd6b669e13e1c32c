"""Names that a package offers and loads when they are first asked for, so that importing the package costs nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package (PEP 562).

    `__version__` is among the names of a package that is a distribution of its own.

    Args:
        package: the package's `__name__`.
        homes: names by the module that defines them, relative to the package; a module without names is offered
            itself.
    """
    modules = {name: module for module, names in homes.items() for name in names or (module,)}

    def load(name: str) -> object:
        if name == "__version__" and "." not in package:
            from importlib.metadata import version

            value: object = version(package.replace("_", "-"))
        elif name in modules:
            module = import_module(f"{package}.{modules[name]}")
            value = module if name == modules[name] else getattr(module, name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return load, names
