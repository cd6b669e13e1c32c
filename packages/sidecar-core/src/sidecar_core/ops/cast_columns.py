"""The op that gives columns other types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sidecar_core.config import ProblemCollector
from sidecar_core.errors import ShardError
from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext, is_open
from sidecar_core.registry import register_op
from sidecar_core.safe_cast import CastError, cast_or_null, check_castable, safe_cast

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from sidecar_core.dataset import Dataset


@register_op("cast_columns")
class CastColumns(BaseOp):
    """Gives columns other types; a value that does not fit is an error, or becomes null when so told.

        operations:
          - type: cast_columns
            columns: {width: int32, tags: list<string>}
            on_error: set_null          # default: fail

    Nothing is lost in silence: 1.5 is no int32, 2 is no bool, 300 is no int8. A float64 is rounded to the
    nearest float32. A main column that is cast becomes a column of the output.
    """

    class Params(OpParams):
        columns: dict[str, str] = Field(min_length=1, description="type by column: a primitive, a struct, or list<T>")
        on_error: Literal["fail", "set_null"] = Field("fail", description="what a value becomes that does not fit")

    params: Params

    def validate(self, dataset: Dataset) -> None:
        if dataset.key_column in self.params.columns:
            raise ValueError(f"the key column {dataset.key_column!r} cannot be cast")
        problems = ProblemCollector()
        for text in self.params.columns.values():
            with problems.collecting():
                dataset.struct_types.parse(text)
        problems.raise_any()

    def input_columns(self, dataset: Dataset) -> list[str]:
        return list(self.params.columns)

    def updates(self) -> Collection[str]:
        return self.params.columns

    def source_columns(self, column: str, dataset: Dataset) -> Collection[str]:
        return [column]

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        kept = {name: text for name, text in self.params.columns.items() if name in columns}
        return {"columns": kept, "on_error": self.params.on_error}

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        for name, text in self.params.columns.items():
            index = schema.get_field_index(name)
            before, dtype = schema.field(index), ctx.dataset.struct_types.parse(text)
            if not is_open(before):
                try:
                    check_castable(before.type, dtype)
                except ValueError as error:
                    raise ValueError(f"column {name!r}: {error}") from error
            schema = schema.set(index, before.with_type(dtype).remove_metadata())
        return schema

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        for name, text in self.params.columns.items():
            index = table.schema.get_field_index(name)
            field = table.schema.field(index)
            dtype = ctx.dataset.struct_types.parse(text)
            values = table.column(index)
            try:
                if self.params.on_error == "set_null":
                    new = cast_or_null(values, dtype)
                else:
                    new = safe_cast(values, dtype, round_floats=True)
            except CastError as error:
                where = f"{ctx.rel_path} row {ctx.first_row + error.row}"
                message = f"{where}: column {name!r}: {error.message}"
                raise ShardError(message, None, "on_error: set_null makes such values null") from error
            table = table.set_column(index, field.with_type(dtype).remove_metadata(), new)
        return table
