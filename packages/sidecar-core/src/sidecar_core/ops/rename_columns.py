"""The op that gives columns other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import Field, field_validator

from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar_core.dataset import Dataset


@register_op("rename_columns")
class RenameColumns(BaseOp):
    """Gives columns other names, all at once, so that two may swap theirs.

        operations:
          - type: rename_columns
            columns: {caption: caption_original}     # old name: new name

    A main column that is renamed becomes a column of the output.
    """

    class Params(OpParams):
        columns: dict[str, str] = Field(min_length=1, description="new name by old name")

        @field_validator("columns")
        @classmethod
        def _distinct(cls, columns: dict[str, str]) -> dict[str, str]:
            new = list(columns.values())
            for name in new:
                if not name:
                    raise ValueError("a new name is empty")
                if new.count(name) > 1:
                    raise ValueError(f"two columns would be named {name!r}")
            return columns

    params: Params

    def validate(self, dataset: Dataset) -> None:
        for old, new in self.params.columns.items():
            if old == dataset.key_column:
                raise ValueError(f"the key column {old!r} cannot be renamed")
            if new == dataset.key_column:
                raise ValueError(f"column {old!r} cannot take the name of the key column, {new!r}")

    def input_columns(self, dataset: Dataset) -> list[str]:
        return list(self.params.columns)

    def updates(self) -> Collection[str]:
        return [new for new in self.params.columns.values() if new in self.params.columns]

    def source_columns(self, column: str, dataset: Dataset) -> Collection[str]:
        return [old for old, new in self.params.columns.items() if new == column]

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        return {"columns": {old: new for old, new in self.params.columns.items() if new in columns}}

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        kept = {name for name in schema.names if name not in self.params.columns}
        for new in self.params.columns.values():
            if new in kept:
                raise ValueError(f"there is a column {new!r} already")
        fields = [field.with_name(self.params.columns.get(field.name, field.name)) for field in schema]
        return pa.schema(fields).with_metadata(schema.metadata)

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        return table.rename_columns([self.params.columns.get(name, name) for name in table.schema.names])
