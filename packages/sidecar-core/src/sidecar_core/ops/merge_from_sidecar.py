"""The op that takes columns of another sidecar, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
from pydantic import Field

from sidecar_core.errors import ConfigError, ShardError, StorageNotFoundError, UsageError
from sidecar_core.foreign_types import plain_type, same_values
from sidecar_core.joined_columns import filled_before
from sidecar_core.locations import Prefix
from sidecar_core.nulls import null_column
from sidecar_core.op import (
    BaseOp,
    OpContext,
    OpParams,
    PlanContext,
    is_open,
    is_placeholder,
    open_field,
    set_columns,
    with_column,
    with_open_names,
)
from sidecar_core.problems import Problem, did_you_mean
from sidecar_core.registry import register_op
from sidecar_core.safe_cast import CastError, check_castable, safe_cast
from sidecar_core.sibling import SiblingReader
from sidecar_core.side_inputs import SiblingSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sidecar_core.dataset import Dataset


@register_op("merge_from_sidecar")
class MergeFromSidecar(BaseOp):
    """Takes columns of another sidecar of the same main dataset, from its shard at the same path.

        operations:
          - type: extract_scaffold
          - type: merge_from_sidecar
            source_prefix: s3://bucket/photos_filters/
            mode: fill_missing          # default: only columns that the table lacks
            columns: [filter_clarity]   # default: every column but the key
            required: true              # false: a shard that is not there gives nulls

    Rows are never joined: the shard must have the main shard's keys, row by row, and the first other key ends
    the shard with an error that names both. A scaffolded column that no op has filled counts as lacking. With
    `mode: prefer_sidecar` the sidecar's columns replace those of the table, except the key and the image column,
    which are always the main dataset's.

    Columns and their types come from the sidecar's first readable shard when a run is planned. Other shards are
    cast where that loses nothing, and no float is rounded: struct fields may come in another order, and one that is
    missing is null. A struct field that the first shard lacks is an error.
    """

    class Params(OpParams):
        source_prefix: Prefix = Field(description="the sidecar; relative to this file")
        mode: Literal["fill_missing", "prefer_sidecar"] = Field(
            "fill_missing", description="who wins where the table and the sidecar both have a column"
        )
        columns: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
            None, description="the columns to take; default all but the key"
        )
        required: bool = Field(True, description="whether each main shard must have one in the sidecar")

    params: Params

    def validate(self, dataset: Dataset) -> None:
        columns = self.params.columns or ()
        for name, role in ((dataset.key_column, "key"), (dataset.image_column, "image")):
            if name in columns:
                raise ValueError(f"the {role} column {name!r} is always the main dataset's")
        twice = sorted({name for name in columns if columns.count(name) > 1})
        if twice:
            raise ValueError(f"column {twice[0]!r} is named twice")

    def declare_siblings(self, dataset: Dataset) -> Sequence[SiblingSpec]:
        return [SiblingSpec(self.params.source_prefix, required=self.params.required)]

    def source_columns(self, column: str, dataset: Dataset) -> Collection[str]:
        return ()

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        chosen = self.params.columns
        kept = None if chosen is None else [name for name in chosen if name in columns]
        return {"mode": self.params.mode, "columns": kept, "required": self.params.required}

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        offered = self._offered(ctx)
        for field in offered:
            if self._takes(field.name, schema):
                planned = _as_declared(field, ctx.dataset)
                if not self.params.required:
                    _check_kept(schema, planned)
                schema = with_column(schema, planned)
        return with_open_names(schema) if ctx.source_schema is None and self.params.columns is None else schema

    def replaced_columns(self, schema: pa.Schema, ctx: PlanContext) -> Collection[str]:
        if self.params.mode == "fill_missing":
            return ()
        return filled_before([field.name for field in self._offered(ctx)], schema)

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        wanted = ctx.planned
        if not wanted.names:
            return table
        reader = SiblingReader.of_shard(ctx, self.params.source_prefix, wanted, required=self.params.required)
        if reader is None:
            return _without_sibling(table, wanted, ctx)
        taken = reader.rows(ctx.first_row, table.column(ctx.dataset.key_column))
        return set_columns(table, {name: taken.column(name) for name in wanted.names}, wanted)

    def _takes(self, name: str, schema: pa.Schema) -> bool:
        """Returns whether a column of the sidecar becomes one of the table."""
        index = schema.get_field_index(name)
        return index < 0 or self.params.mode == "prefer_sidecar" or is_placeholder(schema.field(index))

    def _offered(self, ctx: PlanContext) -> list[pa.Field]:
        """Returns the columns of the sidecar that may be taken, in order, with open types where none is known.

        Raises:
            ConfigError: the sidecar lacks the key column or one that is to be taken, or has it twice.
        """
        chosen = self.params.columns
        if ctx.source_schema is None:
            return [_declared_or_open(name, ctx.dataset) for name in chosen or ()]
        try:
            found = ctx.source_schema(self.params.source_prefix)
        except (StorageNotFoundError, UsageError) as error:
            fields = [_declared_or_open(name, ctx.dataset) for name in chosen or ()]
            if self.params.required or not fields or any(is_open(field) for field in fields):
                if self.params.required and isinstance(error, StorageNotFoundError):
                    message = f"source_prefix {self.params.source_prefix} is not there: {error.message}"
                    raise UsageError(message, "a sidecar of the main dataset", "check source_prefix") from error
                if self.params.required:
                    raise
                fix = "declare the columns in schema_extensions, and name them in columns"
                raise UsageError(f"no types are known for what is taken: {error.message}", None, fix) from error
            return fields
        key, image = ctx.dataset.key_column, ctx.dataset.image_column
        names = [name for name in found.names if name not in (key, image)] if chosen is None else list(chosen)
        where = f"the sidecar at {self.params.source_prefix}"
        problems: list[Problem] = []
        for name in dict.fromkeys([key, *names]):
            count = found.names.count(name)
            if count == 0:
                what = f"has no {'key ' if name == key else ''}column {name!r}{did_you_mean(name, found.names)}"
                problems.append(Problem(f"{where} {what}", expected=", ".join(found.names)))
            elif count > 1:
                problems.append(Problem(f"{where} has {count} columns {name!r}"))
        if problems:
            raise ConfigError(problems)
        return [pa.field(name, plain_type(found.field(name).type)) for name in names]


def _declared_or_open(name: str, dataset: Dataset) -> pa.Field:
    declared = next((field for field in dataset.extension_fields if field.name == name), None)
    return open_field(name) if declared is None else pa.field(name, declared.type)


def _as_declared(field: pa.Field, dataset: Dataset) -> pa.Field:
    """Returns the field with its declared type where that holds the same values; else the plan says what differs."""
    declared = _declared_or_open(field.name, dataset)
    return declared if not is_open(declared) and same_values(field.type, declared.type) else field


def _check_kept(schema: pa.Schema, planned: pa.Field) -> None:
    """Raises ValueError when a column cannot stay as it is for shards that the sidecar lacks."""
    index = schema.get_field_index(planned.name)
    if index >= 0 and not is_open(schema.field(index)) and not is_open(planned):
        try:
            check_castable(schema.field(index).type, planned.type)
        except ValueError as error:
            message = f"column {planned.name!r} has the sidecar's type, also where the sidecar has no shard: {error}"
            raise ValueError(message) from error


def _without_sibling(table: pa.Table, wanted: pa.Schema, ctx: OpContext) -> pa.Table:
    """Returns the batch of a shard that the sidecar lacks: what is there stays, and the rest is null."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for field in wanted:
        if field.name not in table.schema.names:
            columns[field.name] = null_column(field.type, table.num_rows)
            continue
        try:
            columns[field.name] = safe_cast(table.column(field.name), field.type)
        except CastError as error:
            where = f"{ctx.rel_path} row {ctx.first_row + error.row}"
            message = (
                f"{where}: column {field.name!r} stays as it is, for the sidecar has no such shard: {error.message}"
            )
            raise ShardError(f"{message}, its type in the sidecar") from error
    return set_columns(table, columns, wanted)
