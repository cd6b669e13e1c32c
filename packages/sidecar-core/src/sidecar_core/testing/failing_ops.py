"""An op whose rows fail as long as a file says so, for tests of retries: name this module under `plugins`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.op import BaseOp, OpContext, OpParams, set_columns
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    from sidecar_core.dataset import Dataset

_STATUS = pa.struct(
    [
        ("status", pa.string()),
        ("failed", pa.list_(pa.struct([("filter", pa.string()), ("reason", pa.string())]))),
    ]
)


@register_op("fail_listed")
class FailListed(BaseOp):
    """Adds `score`, `picture` and `status`, each with reasons, and tells what it was called with.

    `<folder>/failing.json` holds the failing rows: per key, a reason by column; for `status`, the reasons of
    filters `a` and `b`, of which one alone makes the row `partial`. `<folder>/generation` is a number that
    ends up in every value. Each call adds `[rel_path, first_row, rows]` to `<folder>/calls.jsonl`.
    """

    class Params(OpParams):
        """Parameters of `fail_listed`."""

        folder: str

    params: Params

    def input_columns(self, dataset: Dataset) -> list[str]:
        """Returns the image column."""
        return [dataset.require_image_column()]

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        """Returns the columns."""
        del dataset
        return [
            pa.field("score", pa.int64()),
            pa.field("score_reason", pa.string()),
            pa.field("picture", pa.binary()),
            pa.field("picture_reason", pa.string()),
            pa.field("status", _STATUS),
        ]

    def reason_columns(self) -> dict[str, str]:
        """Returns where the reasons stand."""
        return {"score": "score_reason", "picture": "picture_reason", "status": "status.status"}

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Adds the values of this generation."""
        folder = Path(self.params.folder)
        failing: dict[str, dict[str, Any]] = json.loads((folder / "failing.json").read_text())
        generation = int((folder / "generation").read_text())
        with (folder / "calls.jsonl").open("a") as calls:
            calls.write(json.dumps([ctx.rel_path, ctx.first_row, table.num_rows]) + "\n")
        keys = [str(key) for key in table.column(ctx.dataset.key_column).to_pylist()]
        rows = [failing.get(key, {}) for key in keys]
        columns = {
            "score": [None if "score" in row else generation for row in rows],
            "score_reason": [row.get("score") for row in rows],
            "picture": [
                None if "picture" in row else f"{key} {generation}".encode()
                for key, row in zip(keys, rows, strict=True)
            ],
            "picture_reason": [row.get("picture") for row in rows],
            "status": [_status(row.get("status", {})) for row in rows],
        }
        schema = pa.schema(self.output_fields(ctx.dataset))
        arrays = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
        return set_columns(table, arrays, schema)


def _status(failed: dict[str, str]) -> dict[str, object]:
    status = "ok" if not failed else "partial" if len(failed) == 1 else failed["a"]
    return {"status": status, "failed": [{"filter": name, "reason": reason} for name, reason in failed.items()]}
