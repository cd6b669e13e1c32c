"""Rows of a Parquet file by their position, whatever its row groups: what is read beside a main shard."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.align import describe_key, first_misaligned
from sidecar_core.errors import AlignmentError, ShardError
from sidecar_core.problems import counted
from sidecar_core.safe_cast import CastError, check_castable, safe_cast
from sidecar_core.shard_reader import ONE_TYPE, is_storage_failure, read_row_group, single_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq


class RowReader:
    """Reads columns of an open file for ranges of rows that follow each other.

    Memory follows the range, not the file. A range may begin anywhere: one further on costs the row groups that
    it lies in, one further back the row group anew.

    Args:
        file: the open file.
        uri: what messages call it.
        schema: the columns to read, with the types to bring them to; a cast loses nothing.
        types_from: what says the types, for messages.

    Raises:
        ShardError: the file lacks a column or has it twice, or has one of a type that can never be cast.
    """

    def __init__(self, file: pq.ParquetFile, uri: str, schema: pa.Schema, *, types_from: str) -> None:
        self._file = file
        self._uri = uri
        self._schema = schema
        self._types_from = types_from
        self._read_schema = _fields_in(file.schema_arrow, schema, uri, types_from)
        metadata = file.metadata
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self.num_rows: int = metadata.num_rows
        self._starts = list(accumulate(rows, initial=0))[:-1]
        self._group = 0  # the row group that `_batches` is in
        self._next_row = 0  # the first row that has not been decoded
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._held: deque[tuple[int, pa.RecordBatch]] = deque()  # decoded, by first row
        self._seek(0)

    def rows(self, first_row: int, count: int) -> pa.Table:
        """Returns `count` rows from `first_row` on, with the schema's columns, order and types.

        Raises:
            ShardError: the file is damaged, or a value does not fit its type.
            IndexError: the file has no such rows.
        """
        if not 0 <= first_row <= first_row + count <= self.num_rows:
            raise IndexError(f"{self._uri}: rows {first_row}-{first_row + count - 1} of {self.num_rows}")
        self._drop_before(first_row)
        pieces: list[pa.RecordBatch] = []
        row, end = first_row, first_row + count
        while row < end:
            start, batch = self._batch_with(row)
            piece = batch.slice(row - start, end - row)
            pieces.append(piece)
            row += piece.num_rows
        return self._as_wanted(pa.Table.from_batches(pieces, schema=self._read_schema), first_row)

    def _batch_with(self, row: int) -> tuple[int, pa.RecordBatch]:
        """Returns the decoded batch that holds a row, decoding up to it, and the batch's first row."""
        for start, batch in self._held:
            if start <= row < start + batch.num_rows:
                return start, batch
        if row < self._next_row or bisect_right(self._starts, row) - 1 > self._group:
            self._seek(row)
        while True:
            start, batch = self._decode()
            if row < start + batch.num_rows:
                self._held.append((start, batch))
                return start, batch

    def _drop_before(self, row: int) -> None:
        while self._held and self._held[0][0] + self._held[0][1].num_rows <= row:
            self._held.popleft()
        if self._held and self._held[0][0] > row:
            self._held.clear()

    def _seek(self, row: int) -> None:
        self._held.clear()
        self._open_group(max(0, bisect_right(self._starts, row) - 1))

    def _open_group(self, group: int) -> None:
        self._group = group
        if group < len(self._starts):
            self._next_row = self._starts[group]
            self._batches = read_row_group(self._file, group, self._schema.names)

    def _decode(self) -> tuple[int, pa.RecordBatch]:
        """Returns the next batch in the file with its first row."""
        try:
            batch = next(self._batches, None)
            while batch is None and self._group + 1 < len(self._starts):
                self._open_group(self._group + 1)
                batch = next(self._batches, None)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if is_storage_failure(error):
                raise
            message = f"{self._uri}: unreadable after row {self._next_row}: {str(error).strip()}"
            raise ShardError(message) from error
        if batch is None:
            raise ShardError(
                f"{self._uri}: {counted(self._next_row, 'row')} read where its footer says {self.num_rows:,}"
            )
        start = self._next_row
        self._next_row += batch.num_rows
        return start, batch.select(self._schema.names)

    def _as_wanted(self, table: pa.Table, first_row: int) -> pa.Table:
        columns: list[pa.ChunkedArray] = []
        for field in self._schema:
            column = table.column(field.name)
            try:
                columns.append(column if column.type == field.type else safe_cast(column, field.type))
            except CastError as error:
                message = f"{self._uri} row {first_row + error.row}: column {field.name!r} is {column.type}, and "
                message = f"{message}{error.message}, its type in {self._types_from}"
                raise ShardError(message, None, ONE_TYPE) from error
        return pa.Table.from_arrays(columns, schema=self._schema)


@dataclass(frozen=True)
class KeyPlace:
    """Where keys are that are compared, for messages.

    Attributes:
        rel_path: the shard.
        first_row: position in the shard of the first of them.
        key_column: their column.
        prefix: the dataset whose keys are held against the main shard's.
        main: where the main shard's are.
    """

    rel_path: str
    first_row: int
    key_column: str
    prefix: str
    main: str = "in the main shard"


def check_keys(main: pa.ChunkedArray | pa.Array, own: pa.ChunkedArray, where: KeyPlace) -> None:
    """Holds keys against those of the same rows of the main shard; null matches null.

    Raises:
        AlignmentError: the first key that differs, with shard, row and both keys; or keys that cannot be compared.
    """
    try:
        moved = first_misaligned(main, own, null_matches_null=True)
    except AlignmentError as error:
        message = f"{where.rel_path}: column {where.key_column!r} at {where.prefix}: {error.message}"
        raise AlignmentError(message) from error
    if moved is not None:
        ours, theirs = describe_key(main[moved]), describe_key(own[moved])
        raise AlignmentError(
            f"{where.rel_path} row {where.first_row + moved}: {where.key_column!r} is {ours} {where.main} and "
            f"{theirs} at {where.prefix}",
            None,
            f"make the shard of {where.prefix} again",
        )


def _fields_in(found: pa.Schema, schema: pa.Schema, uri: str, types_from: str) -> pa.Schema:
    """Returns the file's own fields for the columns to read."""
    fields: list[pa.Field] = []
    for wanted in schema:
        here = single_field(found, wanted.name, uri)
        fields.append(here)
        if here.type == wanted.type:
            continue
        try:
            check_castable(here.type, wanted.type)
        except ValueError as error:
            message = f"{uri}: column {wanted.name!r} is not as in {types_from}: {error}"
            raise ShardError(message, str(wanted.type), ONE_TYPE) from error
    return pa.schema(fields)
