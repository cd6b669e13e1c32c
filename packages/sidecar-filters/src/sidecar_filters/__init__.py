"""Image measures, each computed in an isolated child process, for sidecars and for any other project.

from sidecar_filters import score

score(image_bytes, filters=["luma", "clarity"])

`__all__` is what others may import, and so is that of the modules that it names; names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_filters import testing
    from sidecar_filters.api import filter_names, score, struct_type
    from sidecar_filters.base import Filter, Measures, Need, Picture, UnreadableError
    from sidecar_filters.header import Header
    from sidecar_filters.registry import register_filter

    __version__: str

__all__ = [
    "Filter",
    "Header",
    "Measures",
    "Need",
    "Picture",
    "UnreadableError",
    "__version__",
    "filter_names",
    "register_filter",
    "score",
    "struct_type",
    "testing",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "api": ["filter_names", "score", "struct_type"],
        "base": ["Filter", "Measures", "Need", "Picture", "UnreadableError"],
        "header": ["Header"],
        "registry": ["register_filter"],
        "testing": [],
    },
)
