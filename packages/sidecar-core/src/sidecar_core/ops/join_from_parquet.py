"""The op that joins columns of a Parquet file by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field

from sidecar_core.foreign_types import plain_type
from sidecar_core.joined_columns import (
    column_before,
    filled_before,
    fit_joined,
    kept_type,
    read_source_schema,
    replace_rows,
)
from sidecar_core.locations import Location
from sidecar_core.nulls import null_rows
from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext, open_field, set_columns, with_column
from sidecar_core.parquet_index import parquet_index_spec
from sidecar_core.parquet_index.stored_types import stored_type
from sidecar_core.registry import register_op
from sidecar_core.safe_cast import check_castable

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar_core.dataset import Dataset
    from sidecar_core.parquet_index import ParquetIndex
    from sidecar_core.side_inputs import SideInputSpec

_compute: Any = pc  # the stubs know few of the types that these functions take
_INDEX = "index"


def _by_new_name(columns: object) -> object:
    """Turns a list of columns into a mapping of each to itself."""
    if isinstance(columns, dict):
        return cast("dict[object, object]", columns)
    names: list[object] = list(columns) if isinstance(columns, (list, tuple)) else []
    if not isinstance(columns, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"found {columns!r}, not a list of names, nor the source's names by new name")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"column {twice[0]!r} is named twice")
    return {name: name for name in names}


@register_op("join_from_parquet")
class JoinFromParquet(BaseOp):
    """Looks up columns by key in a Parquet file, or in all Parquet files below a prefix.

        operations:
          - type: extract_scaffold
          - type: join_from_parquet
            source: s3://bucket/tables/scores.parquet
            columns: [aesthetic, nsfw]       # or {new name: column of the source, …}
            source_key_column: id            # default: the dataset's key column
            mode: overwrite_all              # default; update_if_null: only where the row has no value
            duplicates: error                # default; first, last: which row of the source wins

    Rows stay as many and as they are, in their order; one whose key is null or not in the source keeps the values
    it has, and has null in new columns. With `update_if_null`, so does each row that has a value: a struct counts as
    null when every leaf is null. A column that the main dataset has is read from there, updated, and becomes a column
    of the output. `overwrite_all` takes what the source says, also null.

    The source is a side input: each machine builds an index of it once, which all workers share. Types come from
    the source, unless the column is declared or there already; then its values are cast, and one that does not fit
    is an error that names it.
    """

    class Params(OpParams):
        source: Location = Field(description="a Parquet file, or a prefix with Parquet files; relative to this file")
        columns: Annotated[
            dict[str, str], BeforeValidator(_by_new_name, json_schema_input_type=list[str] | dict[str, str])
        ] = Field(min_length=1, description="the columns to take: a list, or the source's column by new name")
        source_key_column: str | None = Field(
            None, min_length=1, description="the source's column of keys; default the dataset's key column"
        )
        mode: Literal["overwrite_all", "update_if_null"] = Field(
            "overwrite_all", description="which rows take the source's value, of those whose key it has"
        )
        duplicates: Literal["error", "first", "last"] = Field(
            "error", description="what a key is that the source has twice; first and last in file, then row order"
        )

    params: Params

    def validate(self, dataset: Dataset) -> None:
        if dataset.key_column in self.params.columns:
            raise ValueError(f"the key column {dataset.key_column!r} is always the main dataset's")
        if "" in self.params.columns or "" in self.params.columns.values():
            raise ValueError("a column has no name")

    def optional_input_columns(self, dataset: Dataset) -> list[str]:
        return list(self.params.columns)

    def source_columns(self, column: str, dataset: Dataset) -> Collection[str]:
        return [dataset.key_column]

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        everything = super().fingerprint_params(columns)
        return {**everything, "columns": {new: old for new, old in self.params.columns.items() if new in columns}}

    def declare_side_inputs(self, dataset: Dataset) -> dict[str, SideInputSpec]:
        spec = parquet_index_spec(
            self.params.source,
            key_column=self._key_column(dataset),
            columns=list(dict.fromkeys(self.params.columns.values())),
            duplicates=self.params.duplicates,
        )
        return {_INDEX: spec}

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        found = read_source_schema(
            ctx,
            self.params.source,
            key_column=self._key_column(ctx.dataset),
            columns=list(self.params.columns.values()),
            main_key=schema.field(ctx.dataset.key_column),
        )
        for name, column in self.params.columns.items():
            dtype = kept_type(name, schema, ctx.dataset)
            if found is not None and dtype is None:
                dtype = plain_type(stored_type(found.field(column).type))
            elif found is not None and dtype is not None:
                try:
                    check_castable(found.field(column).type, dtype)
                except ValueError as error:
                    raise ValueError(f"column {column!r} of {self.params.source}, for {name!r}: {error}") from error
            schema = with_column(schema, open_field(name) if dtype is None else pa.field(name, dtype))
        return schema

    def replaced_columns(self, schema: pa.Schema, ctx: PlanContext) -> Collection[str]:
        return filled_before(self.params.columns, schema)

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        index = cast("ParquetIndex", ctx.side_inputs[_INDEX])
        keys = table.column(ctx.dataset.key_column)
        rows = index.lookup(keys)
        joined: dict[str, pa.ChunkedArray] = {}
        for name, column in self.params.columns.items():
            dtype = ctx.planned.field(name).type
            before = column_before(table, name, dtype)
            takes = _compute.is_valid(rows)
            if self.params.mode == "update_if_null":
                takes = _compute.and_(takes, null_rows(before))
            taken = index.take(_compute.if_else(takes, rows, pa.scalar(None, pa.int64())), [column]).column(column)
            what = f"column {column!r} of {self.params.source}"
            joined[name] = replace_rows(before, fit_joined(taken, dtype, keys, ctx, what), takes)
        return set_columns(table, joined, ctx.planned)

    def _key_column(self, dataset: Dataset) -> str:
        return self.params.source_key_column or dataset.key_column
