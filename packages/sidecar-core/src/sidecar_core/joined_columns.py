"""Columns that are looked up by key in other data: which type they take, and how they get into the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_core.align import check_comparable, describe_key
from sidecar_core.errors import AlignmentError, ConfigError, ShardError, StorageNotFoundError, UsageError
from sidecar_core.nulls import null_column
from sidecar_core.op import OpContext, PlanContext, is_open, is_placeholder
from sidecar_core.problems import Problem, did_you_mean
from sidecar_core.safe_cast import CastError, safe_cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sidecar_core.dataset import Dataset

_compute: Any = pc  # the stubs know few of the types that these functions take
_PIECE_BYTES = 2**30  # two pieces together stay below what 32-bit offsets reach


def read_source_schema(
    ctx: PlanContext, source: str, *, key_column: str, columns: Sequence[str], main_key: pa.Field
) -> pa.Schema | None:
    """Returns a source's schema while a run is planned, checked for what is to be read; None offline.

    Args:
        ctx: the plan's context.
        source: a Parquet file or a prefix.
        key_column: the source's key column.
        columns: the columns to take from it.
        main_key: the key column of the table.

    Raises:
        ConfigError: the source lacks a column or has it twice, or its keys can equal none of the main dataset's.
        UsageError: it is not there, or a prefix without shards.
        ShardError: it is no Parquet file.
    """
    if ctx.source_schema is None:
        return None
    try:
        found = ctx.source_schema(source)
    except StorageNotFoundError as error:  # which the YAML says, unlike storage that fails
        message = f"source {source} is not there: {error.message}"
        raise UsageError(message, "a Parquet file, or a prefix with *.parquet files below", "check source") from error
    problems: list[Problem] = []
    for name in dict.fromkeys([key_column, *columns]):
        count = found.names.count(name)
        if count == 0:
            role = "key column" if name == key_column else "column"
            message = f"{source} has no {role} {name!r}{did_you_mean(name, found.names)}"
            problems.append(Problem(message, expected=", ".join(found.names)))
        elif count > 1:
            problems.append(Problem(f"{source} has {count} columns {name!r}"))
    if problems:
        raise ConfigError(problems)
    if not is_open(main_key):
        try:
            check_comparable(main_key.type, found.field(key_column).type)
        except AlignmentError as error:
            message = f"{source}: column {key_column!r} holds no keys of the main dataset: {error.message}"
            raise ConfigError([Problem(message)]) from error
    return found


def kept_type(name: str, schema: pa.Schema, dataset: Dataset) -> pa.DataType | None:
    """Returns the type that a column must have whatever is joined: that of the table, else the declared one."""
    index = schema.get_field_index(name)
    if index >= 0 and not is_open(schema.field(index)):
        return schema.field(index).type
    return next((field.type for field in dataset.extension_fields if field.name == name), None)


def filled_before(names: Iterable[str], schema: pa.Schema) -> list[str]:
    """Returns those of the columns that have values already: there, and not only scaffolded."""
    return [name for name in names if name in schema.names and not is_placeholder(schema.field(name))]


def column_before(table: pa.Table, name: str, dtype: pa.DataType) -> pa.ChunkedArray:
    """Returns a column as it is before anything is joined: null rows when the table lacks it."""
    if name in table.schema.names:
        return table.column(name)
    return _chunked([null_column(dtype, table.num_rows)], dtype)


def fit_joined(
    values: pa.ChunkedArray, dtype: pa.DataType, keys: pa.ChunkedArray, ctx: OpContext, what: str
) -> pa.ChunkedArray:
    """Casts what was looked up to the planned type; loses nothing, but a float becomes the nearest of a narrower type.

    Args:
        values: one value a row of the batch.
        dtype: the planned type.
        keys: the batch's keys, for messages.
        ctx: of the batch.
        what: the column and where it is from, for messages.

    Raises:
        ShardError: a value does not fit; names it, its row and its key.
    """
    if values.type == dtype:
        return values
    done: list[pa.Array] = []
    for first, length in _pieces(values):
        try:
            done += safe_cast(values.slice(first, length), dtype, round_floats=True).chunks
        except CastError as error:
            row = first + error.row
            where = f"{ctx.rel_path} row {ctx.first_row + row}, key {describe_key(keys[row])}"
            raise ShardError(f"{where}: {what} is {values.type}, and {error.message}") from error
    return _chunked(done, dtype)


def replace_rows(old: pa.ChunkedArray, new: pa.ChunkedArray, where: pa.BooleanArray) -> pa.ChunkedArray:
    """Returns `old` with the values of `new` in the rows where `where` is true.

    Works for nested types, any chunking, and more than 2 GiB.

    Args:
        old: a column.
        new: as many values of the same type.
        where: as many booleans, none null.
    """
    done = [
        _chosen(where.slice(first, length), _whole(new, first, length), _whole(old, first, length))
        for first, length in _pieces(old, new)
    ]
    return _chunked(done, old.type)


def _chosen(where: pa.Array, yes: pa.Array, no: pa.Array) -> pa.Array:
    if isinstance(yes, pa.ExtensionArray) and isinstance(no, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(yes.type, _chosen(where, yes.storage, no.storage))
    if pa.types.is_string_view(yes.type) or pa.types.is_binary_view(yes.type):  # Arrow cannot choose among views
        wide = pa.large_string() if pa.types.is_string_view(yes.type) else pa.large_binary()
        return _chosen(where, yes.cast(wide), no.cast(wide)).cast(yes.type)
    return _compute.if_else(where, yes, no)


def _pieces(*columns: pa.ChunkedArray) -> Iterator[tuple[int, int]]:
    """Yields first row and length of runs of rows: each in one chunk of each column, and small."""
    ends: set[int] = set()
    for column in columns:
        row = 0
        for chunk in column.chunks:
            row += len(chunk)
            ends.add(row)
    first = 0
    for end in sorted(ends - {0}):
        yield from _small(columns, first, end - first)
        first = end


def _small(columns: Sequence[pa.ChunkedArray], first: int, length: int) -> Iterator[tuple[int, int]]:
    if length > 1 and sum(column.slice(first, length).nbytes for column in columns) > _PIECE_BYTES:
        half = length // 2
        yield from _small(columns, first, half)
        yield from _small(columns, first + half, length - half)
    else:
        yield first, length


def _whole(column: pa.ChunkedArray, first: int, length: int) -> pa.Array:
    """Returns rows that lie in one chunk."""
    return next(chunk for chunk in column.slice(first, length).chunks if len(chunk))


def _chunked(arrays: list[pa.Array], dtype: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(arrays, type=dtype)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types
