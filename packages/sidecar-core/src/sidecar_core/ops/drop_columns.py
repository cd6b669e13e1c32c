"""The op that takes columns away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from sidecar_core.errors import ConfigError
from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext
from sidecar_core.problems import Problem, did_you_mean
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    import pyarrow as pa

    from sidecar_core.dataset import Dataset


@register_op("drop_columns")
class DropColumns(BaseOp):
    """Takes columns away that earlier ops made and the output need not have.

        operations:
          - type: compute_filters
            filters: [luma]
          - type: drop_columns
            columns: [filter_status]

    A main column is in the output only when it is carried or changed by an op, so none needs dropping.
    """

    class Params(OpParams):
        columns: tuple[str, ...] = Field(min_length=1, description="the columns to take away")

    params: Params

    def validate(self, dataset: Dataset) -> None:
        if dataset.key_column in self.params.columns:
            raise ValueError(f"the key column {dataset.key_column!r} cannot be dropped")

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        missing = [name for name in self.params.columns if name not in schema.names]
        if missing and not ctx.open_names:
            known = [name for name in schema.names if name != ctx.dataset.key_column]
            raise ConfigError(
                Problem(f"there is no column {name!r} to drop{did_you_mean(name, known)}", expected=", ".join(known))
                for name in missing
            )
        for name in self.params.columns:
            index = schema.get_field_index(name)
            schema = schema.remove(index) if index >= 0 else schema
        return schema

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        return table.drop_columns([name for name in self.params.columns if name in table.schema.names])
