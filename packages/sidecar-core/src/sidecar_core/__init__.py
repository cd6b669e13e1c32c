"""Row-aligned Parquet sidecars: registries, YAML models, storage, the streaming shard engine and isolation.

What users of the package need is re-exported here and imported on first use, so that `import sidecar_core`
costs nothing: isolated children and `--help` do it too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar_core.align import assert_alignment
    from sidecar_core.dataset import Dataset, load_dataset
    from sidecar_core.errors import ConfigError, SidecarError, WorkerCallFailed
    from sidecar_core.isolation import submit_call
    from sidecar_core.nulls import null_column, null_rows, null_scalar_for
    from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext
    from sidecar_core.pipeline import Pipeline, build_pipeline, load_pipeline
    from sidecar_core.reader import open_aligned
    from sidecar_core.registry import register_op
    from sidecar_core.schema_export import json_schema
    from sidecar_core.side_inputs import SideInputSpec, register_side_input_loader

    __version__: str

_MODULES = {
    "BaseOp": "op",
    "ConfigError": "errors",
    "Dataset": "dataset",
    "OpContext": "op",
    "OpParams": "op",
    "Pipeline": "pipeline",
    "PlanContext": "op",
    "SideInputSpec": "side_inputs",
    "SidecarError": "errors",
    "WorkerCallFailed": "errors",
    "assert_alignment": "align",
    "build_pipeline": "pipeline",
    "json_schema": "schema_export",
    "load_dataset": "dataset",
    "load_pipeline": "pipeline",
    "null_column": "nulls",
    "null_rows": "nulls",
    "null_scalar_for": "nulls",
    "open_aligned": "reader",
    "register_op": "registry",
    "register_side_input_loader": "side_inputs",
    "submit_call": "isolation",
}

__all__ = [
    "BaseOp",
    "ConfigError",
    "Dataset",
    "OpContext",
    "OpParams",
    "Pipeline",
    "PlanContext",
    "SideInputSpec",
    "SidecarError",
    "WorkerCallFailed",
    "__version__",
    "assert_alignment",
    "build_pipeline",
    "json_schema",
    "load_dataset",
    "load_pipeline",
    "null_column",
    "null_rows",
    "null_scalar_for",
    "open_aligned",
    "register_op",
    "register_side_input_loader",
    "submit_call",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("sidecar-core")
    elif name in _MODULES:
        value = getattr(import_module(f"sidecar_core.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module 'sidecar_core' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
