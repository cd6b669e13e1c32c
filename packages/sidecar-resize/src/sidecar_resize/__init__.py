"""Resized image datasets aligned with their main dataset: geometry, codec, audit columns, verifier.

`__all__` is what others may import; anything else may change in any release. Names are loaded on first use, because
isolated children import the package too, and must start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_resize.audit import Audit
    from sidecar_resize.boxes import LabelledBox, find_boxes
    from sidecar_resize.geometry import TargetSize, target_size
    from sidecar_resize.presets import ResizedTarget, resized_pipeline
    from sidecar_resize.row import resize_row
    from sidecar_resize.row_checks import ResizeRules
    from sidecar_resize.shard_checks import InvalidExample, ResizedColumns, ResizedProblem, Sample
    from sidecar_resize.spec import PixelSpec, ResizeSpec
    from sidecar_resize.verify import VerifyResizedReport, verify_resized

    __version__: str

__all__ = [
    "Audit",
    "InvalidExample",
    "LabelledBox",
    "PixelSpec",
    "ResizeRules",
    "ResizeSpec",
    "ResizedColumns",
    "ResizedProblem",
    "ResizedTarget",
    "Sample",
    "TargetSize",
    "VerifyResizedReport",
    "__version__",
    "find_boxes",
    "resize_row",
    "resized_pipeline",
    "target_size",
    "verify_resized",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "audit": ["Audit"],
        "boxes": ["LabelledBox", "find_boxes"],
        "geometry": ["TargetSize", "target_size"],
        "presets": ["ResizedTarget", "resized_pipeline"],
        "row": ["resize_row"],
        "row_checks": ["ResizeRules"],
        "shard_checks": ["InvalidExample", "ResizedColumns", "ResizedProblem", "Sample"],
        "spec": ["PixelSpec", "ResizeSpec"],
        "verify": ["VerifyResizedReport", "verify_resized"],
    },
)
