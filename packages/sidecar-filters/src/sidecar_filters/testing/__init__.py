"""For tests of filters: a conformance class, drawn pictures, and filters that misbehave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_filters.testing import conformance

__all__ = [
    "conformance",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "conformance": [],
    },
)
