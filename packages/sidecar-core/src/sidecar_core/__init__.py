"""Row-aligned Parquet sidecars: registries, YAML models, storage, the streaming shard engine and isolation.

`__all__` is what others may import, and so is that of the modules that it names; anything else may change in any
release. Names are loaded on first use, so that `import sidecar_core` costs nothing: isolated children and `--help`
do it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_core import errors, testing
    from sidecar_core.align import assert_alignment
    from sidecar_core.dataset import Dataset, StorageOptions, load_dataset
    from sidecar_core.errors import ConfigError, SidecarError, WorkerCallFailed
    from sidecar_core.inputs import find_file
    from sidecar_core.isolation import (
        IsolationOptions,
        IsolationPool,
        PoolCounters,
        native_stderr,
        shared_pool,
        submit_call,
    )
    from sidecar_core.locations import Location, Prefix
    from sidecar_core.nulls import null_column, null_rows, null_scalar_for
    from sidecar_core.op import (
        BaseOp,
        OpContext,
        OpParams,
        PlanContext,
        is_open,
        is_placeholder,
        open_field,
        set_columns,
        with_column,
    )
    from sidecar_core.outcome import ShardReport
    from sidecar_core.output_checks import OutputCheck
    from sidecar_core.overrides import Override, parse_overrides
    from sidecar_core.pipeline import OutputSpec, Pipeline, build_pipeline, load_pipeline
    from sidecar_core.plan import PlannedShard
    from sidecar_core.problems import Problem
    from sidecar_core.reader import open_aligned
    from sidecar_core.reasons import Reason
    from sidecar_core.registry import register_op
    from sidecar_core.schema_export import json_schema
    from sidecar_core.shard_reader import open_parquet
    from sidecar_core.sibling import SiblingReader
    from sidecar_core.side_inputs import SiblingSpec, SideInputLoader, SideInputSpec, register_side_input_loader
    from sidecar_core.storage import ObjectInfo, Storage, open_storage
    from sidecar_core.types import StructTypes

    __version__: str

__all__ = [
    "BaseOp",
    "ConfigError",
    "Dataset",
    "IsolationOptions",
    "IsolationPool",
    "Location",
    "ObjectInfo",
    "OpContext",
    "OpParams",
    "OutputCheck",
    "OutputSpec",
    "Override",
    "Pipeline",
    "PlanContext",
    "PlannedShard",
    "PoolCounters",
    "Prefix",
    "Problem",
    "Reason",
    "ShardReport",
    "SiblingReader",
    "SiblingSpec",
    "SideInputLoader",
    "SideInputSpec",
    "SidecarError",
    "Storage",
    "StorageOptions",
    "StructTypes",
    "WorkerCallFailed",
    "__version__",
    "assert_alignment",
    "build_pipeline",
    "errors",
    "find_file",
    "is_open",
    "is_placeholder",
    "json_schema",
    "load_dataset",
    "load_pipeline",
    "native_stderr",
    "null_column",
    "null_rows",
    "null_scalar_for",
    "open_aligned",
    "open_field",
    "open_parquet",
    "open_storage",
    "parse_overrides",
    "register_op",
    "register_side_input_loader",
    "set_columns",
    "shared_pool",
    "submit_call",
    "testing",
    "with_column",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "align": ["assert_alignment"],
        "dataset": ["Dataset", "StorageOptions", "load_dataset"],
        "errors": ["ConfigError", "SidecarError", "WorkerCallFailed", "errors"],
        "inputs": ["find_file"],
        "isolation": [
            "IsolationOptions",
            "IsolationPool",
            "PoolCounters",
            "native_stderr",
            "shared_pool",
            "submit_call",
        ],
        "locations": ["Location", "Prefix"],
        "nulls": ["null_column", "null_rows", "null_scalar_for"],
        "op": [
            "BaseOp",
            "OpContext",
            "OpParams",
            "PlanContext",
            "is_open",
            "is_placeholder",
            "open_field",
            "set_columns",
            "with_column",
        ],
        "outcome": ["ShardReport"],
        "output_checks": ["OutputCheck"],
        "overrides": ["Override", "parse_overrides"],
        "pipeline": ["OutputSpec", "Pipeline", "build_pipeline", "load_pipeline"],
        "plan": ["PlannedShard"],
        "problems": ["Problem"],
        "reader": ["open_aligned"],
        "reasons": ["Reason"],
        "registry": ["register_op"],
        "schema_export": ["json_schema"],
        "shard_reader": ["open_parquet"],
        "sibling": ["SiblingReader"],
        "side_inputs": ["SiblingSpec", "SideInputLoader", "SideInputSpec", "register_side_input_loader"],
        "storage": ["ObjectInfo", "Storage", "open_storage"],
        "testing": [],
        "types": ["StructTypes"],
    },
)
