"""Ops without a purpose, for tests of plans: name this module under `plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.nulls import null_column
from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext, set_columns, with_open_names
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar_core.dataset import Dataset


@register_op("toy_make")
class ToyMake(BaseOp):
    """Makes null columns of given types from given columns; each depends on its own parameter only."""

    class Params(OpParams):
        """Type by column to make; columns to read; existing columns that it replaces on purpose."""

        columns: dict[str, str]
        reads: tuple[str, ...] = ()
        replaces: tuple[str, ...] = ()

    params: Params

    def input_columns(self, dataset: Dataset) -> list[str]:
        return list(self.params.reads)

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        return [pa.field(name, dataset.struct_types.parse(text)) for name, text in self.params.columns.items()]

    def updates(self) -> Collection[str]:
        return self.params.replaces

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        return {"columns": {name: text for name, text in self.params.columns.items() if name in columns}}

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        schema = pa.schema(self.output_fields(ctx.dataset))
        return set_columns(table, {each.name: null_column(each.type, table.num_rows) for each in schema}, schema)


@register_op("toy_merge")
class ToyMerge(BaseOp):
    """Adds every column of a sibling, whose names only storage knows, that the table lacks."""

    class Params(OpParams):
        """Where the sibling is."""

        source_prefix: str

    params: Params

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        if ctx.source_schema is None:
            return with_open_names(schema)
        for field in ctx.source_schema(self.params.source_prefix):
            if field.name not in schema.names:
                schema = schema.append(field)
        return schema

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        raise NotImplementedError


@register_op("toy_break")
class ToyBreak(BaseOp):
    """Breaks a rule of planning in the way that it is told to."""

    class Params(OpParams):
        """What to break: a method's name, or `key`, `retype`, `twice`."""

        how: str

    params: Params

    def validate(self, dataset: Dataset) -> None:
        if self.params.how == "validate":
            raise ValueError("validate is broken on purpose")

    def input_columns(self, dataset: Dataset) -> list[str]:
        if self.params.how == "input_columns":
            raise KeyError("inputs")
        return []

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        match self.params.how:
            case "output_schema":
                raise RuntimeError("output_schema is broken on purpose")
            case "key":
                return schema.remove(0)
            case "change_key":
                return schema.set(0, pa.field(schema.names[0], pa.int8()))
            case "retype":
                return schema.set(len(schema) - 1, pa.field(schema.names[-1], pa.float16()))
            case "twice":
                return schema.append(pa.field("x", pa.int8())).append(pa.field("x", pa.int8()))
            case _:
                return schema

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        raise NotImplementedError
