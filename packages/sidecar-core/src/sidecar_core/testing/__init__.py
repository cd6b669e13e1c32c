"""What tests of ops, runtimes and other packages build on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_core.testing import conformance, datasets, example_dataset

__all__ = [
    "conformance",
    "datasets",
    "example_dataset",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "conformance": [],
        "datasets": [],
        "example_dataset": [],
    },
)
