"""A dataset and rows of it, made in code, for tests that need no files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.dataset import make_dataset
from sidecar_core.types import StructTypes
from sidecar_core.yaml_document import YamlDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.dataset import Dataset

__all__ = ["example_dataset", "example_table"]

_TYPES: Mapping[str, object] = {
    "score_v1": {
        "fields": [
            {"name": "mean", "type": "float32"},
            {"name": "inner", "type_ref": "inner_v1"},
        ]
    },
    "inner_v1": {"fields": [{"name": "labels", "type": "list<string>"}]},
}


def example_dataset(**changes: Any) -> Dataset:  # noqa: ANN401 - any key of a dataset's YAML
    """Returns a dataset that declares `score` (a struct) and `caption`.

    Args:
        changes: keys of the dataset's YAML to set instead.
    """
    data: dict[str, object] = {
        "name": "example",
        "main_prefix": "/data/example/main",
        "sidecar_prefix": "/data/example/sidecar",
        "key_column": "image_key",
        "image_column": "image",
        "schema_extensions": [
            {"name": "score", "type_ref": "score_v1"},
            {"name": "caption", "type": "string"},
        ],
        **changes,
    }
    return make_dataset(YamlDocument(data), StructTypes.from_json(_TYPES))


def example_table(rows: int = 10) -> pa.Table:
    """Returns main rows: the key, an image, `title`, `width` and a nested `extra`; each third is null."""
    present = [row % 3 != 2 for row in range(rows)]
    return pa.table(
        {
            "image_key": pa.array([f"key-{row}" for row in range(rows)], pa.string()),
            "image": pa.array([b"bytes %d" % row if here else None for row, here in enumerate(present)], pa.binary()),
            "title": pa.array([f"title {row}" if here else None for row, here in enumerate(present)], pa.string()),
            "width": pa.array([row * 100 if here else None for row, here in enumerate(present)], pa.int64()),
            "extra": pa.array(
                [{"tags": ["a"] * (row % 4), "size": float(row)} if here else None for row, here in enumerate(present)],
                pa.struct([("tags", pa.list_(pa.string())), ("size", pa.float64())]),
            ),
        }
    )
