"""The op that lays out the declared columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.nulls import null_column
from sidecar_core.op import BaseOp, OpContext, placeholder_field
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    import pyarrow as pa

    from sidecar_core.dataset import Dataset


@register_op("extract_scaffold")
class ExtractScaffold(BaseOp):
    """Adds one null column per declared schema extension; any later op may fill it, keeping its type.

    Put it first:

        operations:
          - type: extract_scaffold
          - type: compute_filters
            filters: [clarity]
    """

    adds_placeholders = True

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        return list(dataset.extension_fields)

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        for field in ctx.dataset.extension_fields:
            table = table.append_column(placeholder_field(field), null_column(field.type, table.num_rows))
        return table
