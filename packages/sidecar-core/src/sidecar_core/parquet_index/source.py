"""The Parquet files that an index is made from: which they are, which version of them, and their rows in order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.align import check_comparable, plain_keys
from sidecar_core.errors import AlignmentError, ShardError, StorageNotFoundError
from sidecar_core.inputs import find_file
from sidecar_core.parquet_index.stored_types import stored_type
from sidecar_core.problems import counted
from sidecar_core.safe_cast import CastError, check_castable, safe_cast
from sidecar_core.shard_reader import ONE_TYPE, is_storage_failure, open_parquet
from sidecar_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from sidecar_core.parquet_index.spec import IndexSpec
    from sidecar_core.storage import ObjectInfo, Storage
    from sidecar_core.storage.base import ConnectionOptions

_arrow: Any = pa  # the stubs know few of the types that these functions take
_BATCH_ROWS = 32_768
_BATCH_BYTES = 16 * 2**20
_SAMPLE_ROWS = 64


@dataclass(frozen=True)
class Source:
    """The files of a source, as a listing tells them, in the order of their paths.

    Attributes:
        location: what the user named.
        storage: where they are.
        files: each with its version.
    """

    location: str
    storage: Storage
    files: tuple[ObjectInfo, ...]

    def version(self) -> str:
        """Returns a digest of the names, sizes and ETags, or times where there is no ETag, of all files."""
        listing = hashlib.blake2b(digest_size=8)
        for info in self.files:
            listing.update(repr((info.rel_path, info.size_bytes, info.etag or info.mtime_ns)).encode())
        return listing.hexdigest()

    def uri(self, number: int) -> str:
        """Returns the full path or URI of a file."""
        return self.storage.uri(self.files[number].rel_path)


def find_source(location: str, options: ConnectionOptions | None) -> Source:
    """Returns the files of a source.

    Args:
        location: a Parquet file, or a prefix with Parquet files below.
        options: how to reach an object store.

    Raises:
        StorageNotFoundError: there is no such file, and no shard below such a prefix.
        StorageError: the store failed.
    """
    found = find_file(location, options)
    if found is not None:
        return Source(location, found[0], (found[1],))
    storage = open_storage(location, options)
    shards = storage.list_shards()
    if not shards:
        raise StorageNotFoundError(
            f"no shards at {storage.prefix}", "a Parquet file, or *.parquet files below a prefix"
        )
    return Source(location, storage, tuple(shards))


@dataclass(frozen=True)
class FirstFile:
    """What the footer of a source's first file says of all files.

    Attributes:
        schema: the columns.
        size_bytes: of the file.
        num_rows: its rows.
        column_bytes: the unpacked size of each top-level column.
    """

    schema: pa.Schema
    size_bytes: int
    num_rows: int
    column_bytes: Mapping[str, int]


def read_first_file(source: Source) -> FirstFile:
    """Reads the footer of the first file.

    Raises:
        ShardError: files are no complete Parquet files; names all of them.
    """
    info = source.files[0]
    try:
        with open_parquet(source.storage, info.rel_path) as file:
            sizes: dict[str, int] = {}
            for number in range(file.metadata.num_row_groups):
                for name, size in _column_bytes(file.metadata.row_group(number)):
                    sizes[name] = sizes.get(name, 0) + size
            return FirstFile(file.schema_arrow, info.size_bytes, file.metadata.num_rows, sizes)
    except ShardError as error:
        raise _with_further(error, source, 1) from error


class SourceRows:
    """The rows of a source, as an index stores them.

    Args:
        source: the files.
        spec: the columns to read.
        schema: of the first file.
        values: the columns to look up, as `spec.value_schema` gives them.

    Attributes:
        file_rows: the number of rows of each file that was begun.
    """

    def __init__(self, source: Source, spec: IndexSpec, schema: pa.Schema, values: pa.Schema) -> None:
        self._source = source
        self._key = schema.field(spec.key_column)
        self._values = values
        self._stored = [stored_type(field.type) for field in values]
        self.file_rows: list[int] = []

    def stored_schema(self, key_name: str) -> pa.Schema:
        """Returns the schema of what `batches` yields."""
        key = pa.field(key_name, plain_keys(_arrow.nulls(0, self._key.type)).type)
        return pa.schema(
            [key, *(field.with_type(dtype) for field, dtype in zip(self._values, self._stored, strict=True))]
        )

    def batches(self) -> Iterator[list[pa.Array]]:
        """Yields rows in order, some MiB at a time: the keys in plain form, then a column for each of the values.

        Raises:
            ShardError: a file is damaged or empty, lacks a column, has it twice, or has values that do not fit the
                first file's types. Where files are no Parquet files, all of those are named.
            StorageError: the store failed.
        """
        for number, info in enumerate(self._source.files):
            try:
                with open_parquet(self._source.storage, info.rel_path) as file:
                    self._check(file.schema_arrow, self._source.uri(number))
                    self.file_rows.append(file.metadata.num_rows)
                    yield from self._file_batches(file, self._source.uri(number))
            except ShardError as error:
                raise _with_further(error, self._source, number + 1) from error

    def _check(self, schema: pa.Schema, uri: str) -> None:
        for field in (self._key, *self._values):
            count = schema.names.count(field.name)
            if count != 1:
                message = f"{uri}: {count or 'no'} column{'s' if count > 1 else ''} {field.name!r}"
                raise ShardError(message, "columns " + ", ".join(schema.names))
            found = schema.field(field.name).type
            if found == field.type:
                continue
            try:
                check_castable(found, field.type)
                if field is self._key:
                    check_comparable(found, field.type)
            except (ValueError, AlignmentError) as error:
                message = f"{uri}: column {field.name!r} is not as in the source's first file: {error}"
                raise ShardError(message, str(field.type), ONE_TYPE) from error

    def _file_batches(self, file: pq.ParquetFile, uri: str) -> Iterator[list[pa.Array]]:
        names = list(dict.fromkeys([self._key.name, *self._values.names]))
        row = 0
        widest = 0  # bytes a row; what a footer says of a column with a dictionary may be far less
        try:
            for group in range(file.metadata.num_row_groups):
                metadata = file.metadata.row_group(group)
                if not widest and metadata.num_rows > _SAMPLE_ROWS:
                    sample = next(file.iter_batches(_SAMPLE_ROWS, row_groups=[group], columns=names), None)
                    if sample is None:  # the file was cut after it was opened
                        break
                    widest = sample.nbytes // sample.num_rows
                rows = _rows_at_a_time(metadata, names, widest)
                for batch in file.iter_batches(rows, row_groups=[group], columns=names):
                    yield self._as_stored(batch, uri, row)
                    row += batch.num_rows
                    widest = max(widest, batch.nbytes // max(1, batch.num_rows))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if is_storage_failure(error):
                raise
            raise ShardError(f"{uri}: unreadable after row {row}: {str(error).strip()}") from error
        if row != file.metadata.num_rows:
            raise ShardError(f"{uri}: {counted(row, 'row')} read where its footer says {file.metadata.num_rows:,}")

    def _as_stored(self, batch: pa.RecordBatch, uri: str, first_row: int) -> list[pa.Array]:
        keys = _cast(batch.column(self._key.name), self._key, self._key.type, uri, first_row)
        columns = [_one(plain_keys(keys).chunks)]
        for field, dtype in zip(self._values, self._stored, strict=True):
            column = _cast(batch.column(field.name), field, field.type, uri, first_row)
            columns.append(_cast(column, field, dtype, uri, first_row))
        return columns


def _cast(column: pa.Array, field: pa.Field, dtype: pa.DataType, uri: str, first_row: int) -> pa.Array:
    if column.type == dtype:
        return column
    try:
        return _one(safe_cast(column, dtype).chunks)
    except CastError as error:
        message = f"{uri} row {first_row + error.row}: column {field.name!r} is {column.type}, and {error.message}"
        raise ShardError(f"{message}, its type in the source's first file", None, ONE_TYPE) from error


def _one(chunks: Sequence[pa.Array]) -> pa.Array:
    """Returns the chunk that was made of one array."""
    (chunk,) = chunks
    return chunk


def _rows_at_a_time(metadata: pq.RowGroupMetaData, names: Sequence[str], row_bytes: int) -> int:
    wanted = set(names)
    size = sum(size for name, size in _column_bytes(metadata) if name in wanted)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes, size // max(1, metadata.num_rows))))


def _column_bytes(metadata: pq.RowGroupMetaData) -> Iterator[tuple[str, int]]:
    """Yields the top-level column of each leaf, with the leaf's unpacked size."""
    for number in range(metadata.num_columns):
        column = metadata.column(number)
        yield column.path_in_schema.split(".")[0], column.total_uncompressed_size


def _with_further(error: ShardError, source: Source, begin: int) -> ShardError:
    """Returns the error with the names of all further files that are no Parquet files."""
    messages = [error.message]
    for info in source.files[begin:]:
        try:
            with open_parquet(source.storage, info.rel_path):
                pass
        except ShardError as further:
            messages.append(further.message)
    return ShardError("\n".join(messages), error.expected, error.fix)
