"""Small ops for tests of engines and runtimes: name this module under `plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.op import BaseOp, OpContext, OpParams, set_columns
from sidecar_core.reasons import Reason
from sidecar_core.registry import register_op
from sidecar_core.testing.measured_rows import measure_bytes

if TYPE_CHECKING:
    from sidecar_core.dataset import Dataset


@register_op("measure_bytes")
class MeasureBytes(BaseOp):
    """Adds `byte_length` and `byte_length_reason`, computed in isolated child processes."""

    class Params(OpParams):
        """Parameters of `measure_bytes`."""

        row_timeout_s: float = 5.0
        delay_s: float = 0.0

    params: Params
    reasons_at: ClassVar[str] = "byte_length_reason"

    def input_columns(self, dataset: Dataset) -> list[str]:
        """Returns the image column."""
        assert dataset.image_column is not None
        return [dataset.image_column]

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        """Returns the length and the reason."""
        del dataset
        return [pa.field("byte_length", pa.int64()), pa.field(self.reasons_at, pa.string())]

    def reason_columns(self) -> dict[str, str]:
        """Returns where the reason stands."""
        return {"byte_length": self.reasons_at}

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Measures each image in a child process."""
        assert ctx.dataset.image_column is not None
        images = table.column(ctx.dataset.image_column).to_pylist()
        found = ctx.isolation.map_rows(
            measure_bytes, images, common=self.params.delay_s, timeout_s=self.params.row_timeout_s
        )
        lengths = [None if isinstance(value, WorkerCallFailed) else value for value in found]
        reasons = [
            value.cause if isinstance(value, WorkerCallFailed) else Reason.MISSING if image is None else None
            for image, value in zip(images, found, strict=True)
        ]
        schema = pa.schema(self.output_fields(ctx.dataset))
        return set_columns(
            table,
            {"byte_length": pa.array(lengths, pa.int64()), self.reasons_at: pa.array(reasons, pa.string())},
            schema,
        )


@register_op("break_contract")
class BreakContract(BaseOp):
    """Breaks the contract of an op in the way that it is told to."""

    class Params(OpParams):
        """Parameters of `break_contract`."""

        how: Literal["drop_row", "reorder", "change_key", "drop_key", "wrong_type", "raise", "not_a_table"]
        only_shard: str | None = None

    params: Params

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        """Returns one column, which `wrong_type` fills with another type."""
        del dataset
        return [pa.field("broken", pa.int32())]

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Returns a table that the engine must refuse."""
        schema = pa.schema(self.output_fields(ctx.dataset))
        good = set_columns(table, {"broken": pa.array([1] * table.num_rows, pa.int32())}, schema)
        if self.params.only_shard not in (None, ctx.rel_path):
            return good
        key = ctx.dataset.key_column
        match self.params.how:
            case "drop_row":
                return good.slice(1)
            case "reorder":
                return good.take(list(reversed(range(good.num_rows))))
            case "change_key":
                keys = pa.array(["other", *good.column(key).to_pylist()[1:]])
                return good.set_column(good.schema.get_field_index(key), key, keys)
            case "drop_key":
                return good.drop_columns([key])
            case "wrong_type":
                return table.append_column("broken", pa.array(["x"] * table.num_rows))
            case "not_a_table":
                return None  # type: ignore[return-value]
            case "raise":
                raise KeyError("thrown on purpose")
