"""Reading a main shard in batches that are bounded by rows and by bytes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar_core.align import check_comparable
from sidecar_core.errors import AlignmentError, ShardError, StorageError
from sidecar_core.inputs import file_version
from sidecar_core.problems import counted
from sidecar_core.safe_cast import CastError, check_castable, safe_cast

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from sidecar_core.footer import InputVersion
    from sidecar_core.plan import RunPlan
    from sidecar_core.storage import ObjectInfo, Storage

PIXEL_BATCH_ROWS = 256
PLAIN_BATCH_ROWS = 16_384
BATCH_BYTES = 64 * 2**20
_READ_UNIT_BYTES = 8 * 2**20  # what Arrow decodes at a time; batches are put together from such pieces
_READ_BUFFER_BYTES = 64 * 2**10

ONE_TYPE = "write the column with one type in every file, one that can hold all values"
"""What to do about a column that has another type in another file."""


@dataclass(frozen=True)
class ShardBatch:
    """Consecutive rows of one row group of a shard.

    Attributes:
        table: the columns that the plan reads, with the plan's types.
        first_row: position in the shard of its first row.
        ends_row_group: whether the main shard's row group ends with it.
    """

    table: pa.Table
    first_row: int
    ends_row_group: bool


class MainShard:
    """An open main shard; made by `MainShard.open`."""

    def __init__(self, storage: Storage, info: ObjectInfo, plan: RunPlan, file: pq.ParquetFile) -> None:
        self._storage = storage
        self._info = info
        self._plan = plan
        self._file = file
        self.rel_path = info.rel_path
        self.num_rows: int = file.metadata.num_rows

    @classmethod
    @contextmanager
    def open(cls, storage: Storage, info: ObjectInfo, plan: RunPlan) -> Generator[MainShard]:
        """Opens the shard for a `with` block and checks that it has the columns that the plan reads.

        Raises:
            ShardError: it is not a Parquet file, lacks a column or has it twice, or has one of a type that does
                not fit the plan's.
        """
        with open_parquet(storage, info.rel_path) as file:
            schema, uri = file.schema_arrow, storage.uri(info.rel_path)
            for field in plan.main_schema:
                found = single_field(schema, field.name, uri).type
                if found == field.type:
                    continue
                try:
                    check_castable(found, field.type)
                    if field.name == plan.key_column:
                        check_comparable(found, field.type)  # else no verifier would ever find it aligned
                except (ValueError, AlignmentError) as error:
                    message = f"{uri}: column {field.name!r} is not as in the dataset's first shard: {error}"
                    raise ShardError(message, str(field.type), ONE_TYPE) from error
            yield cls(storage, info, plan, file)

    @property
    def row_group_rows(self) -> list[int]:
        """The number of rows of each row group."""
        metadata = self._file.metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def batches(self, row_groups: Collection[int] | None = None) -> Iterator[ShardBatch]:
        """Yields the shard's rows in order; batches never cross a row group of the main shard.

        Args:
            row_groups: only the rows of these row groups, by number; default all.

        Raises:
            ShardError: the file is damaged, or a value does not fit the plan's type.
        """
        first_row = 0
        # pictures may also come from a sidecar that an op reads beside, and then show in an output only
        pictures = self._plan.reads_image or any(output.image_columns for output in self._plan.outputs)
        max_rows = PIXEL_BATCH_ROWS if pictures else PLAIN_BATCH_ROWS
        try:
            for group in range(self._file.metadata.num_row_groups):
                remaining = self._file.metadata.row_group(group).num_rows
                if row_groups is not None and group not in row_groups:
                    first_row += remaining
                    continue
                for batches in _coalesce(self._read(group, max_rows), max_rows, BATCH_BYTES):
                    table = self._as_planned(pa.Table.from_batches(batches), first_row)
                    remaining -= table.num_rows
                    yield ShardBatch(table, first_row, ends_row_group=remaining == 0)
                    first_row += table.num_rows
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if is_storage_failure(error):
                raise
            message = f"{self._uri}: unreadable after row {first_row}: {str(error).strip()}"
            raise ShardError(message) from error
        if first_row != self.num_rows:
            raise ShardError(f"{self._uri}: {counted(first_row, 'row')} read where its footer says {self.num_rows:,}")

    @cached_property
    def version(self) -> InputVersion:
        """Which version of the main shard this is, for the footers of what is made from it."""
        return file_version(self._storage, self._info, kind="main")

    def check_unchanged(self) -> None:
        """Raises ShardError when the main shard was replaced while it was read."""
        now = self._storage.stat(self.rel_path)
        if now != self._info:
            raise ShardError(f"{self._uri}: the main shard changed during the run")

    @property
    def _uri(self) -> str:
        return self._storage.uri(self.rel_path)

    def _read(self, group: int, max_rows: int) -> Iterator[pa.RecordBatch]:
        return read_row_group(self._file, group, self._plan.main_schema.names, max_rows=max_rows)

    def _as_planned(self, table: pa.Table, first_row: int) -> pa.Table:
        """Brings the columns into the plan's order and types; a value that does not fit is an error."""
        table = table.select(self._plan.main_schema.names)
        if table.schema.equals(self._plan.main_schema):
            return table
        columns: list[pa.ChunkedArray] = []
        for field in self._plan.main_schema:
            column = table.column(field.name)
            try:
                columns.append(safe_cast(column, field.type))
            except CastError as error:
                message = (
                    f"{self._uri} row {first_row + error.row}: column {field.name!r} is {column.type}, and "
                    f"{error.message}, its type in the dataset's first shard"
                )
                raise ShardError(message, None, ONE_TYPE) from error
        return pa.Table.from_arrays(columns, schema=self._plan.main_schema)


@contextmanager
def open_parquet(storage: Storage, rel_path: str) -> Generator[pq.ParquetFile]:
    """Opens a Parquet file for a `with` block, with bounded buffers; the checksums of its pages are verified.

    Raises:
        ShardError: the file is empty, has no Parquet footer, or is damaged.
        StorageError: it could not be read.
    """
    with storage.open_input(rel_path) as handle:
        try:
            file = pq.ParquetFile(
                handle, pre_buffer=False, buffer_size=_READ_BUFFER_BYTES, page_checksum_verification=True
            )
        except (pa.ArrowInvalid, OSError) as error:
            if is_storage_failure(error):
                raise
            message = f"{storage.uri(rel_path)}: not a readable Parquet file: {str(error).strip()}"
            raise ShardError(message, "a complete Parquet file") from error
        yield file


def single_field(found: pa.Schema, name: str, uri: str, *, role: str = "column") -> pa.Field:
    """Returns the field of that name in a file.

    Raises:
        ShardError: there is none, or more than one.
    """
    count = found.names.count(name)
    if count != 1:
        message = f"{uri}: {count or 'no'} {role}{'s' if count > 1 else ''} {name!r}"
        raise ShardError(message, "columns " + ", ".join(found.names))
    return found.field(name)


def read_row_group(
    file: pq.ParquetFile, group: int, names: Sequence[str], *, max_rows: int = PLAIN_BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Returns batches of a row group's columns, each of about 8 MiB and at most `max_rows` rows."""
    metadata = file.metadata.row_group(group)
    if metadata.num_rows == 0:
        return iter(())
    rows = max(1, min(max_rows, _READ_UNIT_BYTES * metadata.num_rows // max(1, uncompressed_bytes(metadata, names))))
    return file.iter_batches(batch_size=rows, row_groups=[group], columns=list(names), use_threads=False)


def is_storage_failure(error: Exception) -> bool:
    """Whether reading failed (and may succeed later), rather than what was read being damaged."""
    return isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno is not None)


def uncompressed_bytes(metadata: pq.RowGroupMetaData, names: Sequence[str]) -> int:
    """Returns the uncompressed size of the top-level columns `names` in a row group."""
    wanted = set(names)
    columns = (metadata.column(index) for index in range(metadata.num_columns))
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema.split(".")[0] in wanted)


def _coalesce(batches: Iterator[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """Groups small batches up to a number of rows and of bytes; a batch that is too large is cut."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _split(batch, max_bytes):
            if group and (rows + piece.num_rows > max_rows or size + piece.nbytes > max_bytes):
                yield group
                group, rows, size = [], 0, 0
            group.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
    if group:
        yield group


def _split(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= max_bytes or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _split(batch.slice(0, half), max_bytes)
    yield from _split(batch.slice(half), max_bytes)
