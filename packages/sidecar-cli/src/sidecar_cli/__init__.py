"""The command line of sidecar.

`__all__` is what others may import: the program, as a function in `main`. What the commands do is offered to Python
by the other packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_cli import main

    __version__: str

__all__ = [
    "__version__",
    "main",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "main": [],
    },
)
