"""Small ops for tests of engines and runtimes: name this module under `plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.locations import Location, Prefix
from sidecar_core.op import BaseOp, OpContext, OpParams, set_columns
from sidecar_core.reasons import Reason
from sidecar_core.registry import register_op
from sidecar_core.shard_reader import open_parquet
from sidecar_core.side_inputs import SiblingSpec, SideInputSpec, register_side_input_loader
from sidecar_core.testing.measured_rows import measure_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        """Returns all but the delay, which decides no value."""
        return {name: value for name, value in super().fingerprint_params(columns).items() if name != "delay_s"}

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


@register_op("copy_from_sibling")
class CopyFromSibling(BaseOp):
    """Copies the column `value` of a sibling's shard; null where the sibling has none."""

    class Params(OpParams):
        """Parameters of `copy_from_sibling`."""

        source_prefix: Prefix
        required: bool = True

    params: Params

    def declare_siblings(self, dataset: Dataset) -> tuple[SiblingSpec, ...]:
        del dataset
        return (SiblingSpec(self.params.source_prefix, self.params.required),)

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        del dataset
        return [pa.field("value", pa.int64())]

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        storage = ctx.open_storage(self.params.source_prefix)
        if storage.stat(ctx.rel_path) is None:
            values = pa.nulls(table.num_rows, pa.int64())
        else:
            with open_parquet(storage, ctx.rel_path) as file:
                held = file.read(columns=["value"]).column(0)
            assert len(held) == ctx.shard_rows
            values = held.slice(ctx.first_row, table.num_rows)
        return set_columns(table, {"value": values}, pa.schema(self.output_fields(ctx.dataset)))


@register_op("count_source")
class CountSource(BaseOp):
    """Writes the number of rows of a Parquet file or prefix, from a side input, into every row."""

    class Params(OpParams):
        """Parameters of `count_source`."""

        source: Location

    params: Params

    def declare_side_inputs(self, dataset: Dataset) -> dict[str, SideInputSpec]:
        del dataset
        return {"count": SideInputSpec("count_rows", {"source": self.params.source}, (self.params.source,))}

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        del dataset
        return [pa.field("source_rows", pa.int64())]

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        values = pa.repeat(pa.scalar(ctx.side_inputs["count"], pa.int64()), table.num_rows)
        return set_columns(table, {"source_rows": values}, pa.schema(self.output_fields(ctx.dataset)))


@register_side_input_loader("count_rows")
def count_rows(params: Mapping[str, object], dataset: Dataset) -> int:
    """Returns the rows of a source."""
    del dataset
    return pq.read_table(cast("str", params["source"])).num_rows
