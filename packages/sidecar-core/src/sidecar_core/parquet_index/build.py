"""Making an index: one pass over the source, then its keys' hashes are sorted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sidecar_core.align import describe_key
from sidecar_core.errors import UsageError
from sidecar_core.parquet_index.description import ROWS_FILE, write_description
from sidecar_core.parquet_index.duplicates import DuplicateKeys
from sidecar_core.parquet_index.key_hash import hash_keys
from sidecar_core.parquet_index.row_file import BATCH_BYTES, RowFile, RowFileWriter
from sidecar_core.parquet_index.sorted_hashes import SORT_ROWS, HashSorter
from sidecar_core.parquet_index.source import Source, SourceRows, read_first_file
from sidecar_core.parquet_index.spec import IndexSpec, value_schema
from sidecar_core.parquet_index.stored_types import stored_type

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from sidecar_core.parquet_index.key_hash import HashKeys

_BYTES_PER_KEY = 56  # hash, row and bucket, and what sorting spills
_PLAIN_KEY = "sidecar.key"
_arrow: Any = pa  # the stubs know few of the types that these functions take


@dataclass(frozen=True)
class BuildOptions:
    """How an index is made; tests make everything small.

    Attributes:
        hash_keys: the hash function.
        batch_bytes: of the record batches of the rows.
        sort_rows: how many hashes are sorted at a time.
    """

    hash_keys: HashKeys = hash_keys
    batch_bytes: int = BATCH_BYTES
    sort_rows: int = SORT_ROWS


def estimated_bytes(source: Source, spec: IndexSpec) -> int:
    """Returns about how much room an index needs while it is made; its files may turn out larger.

    Raises:
        UsageError: the source lacks a column.
        ShardError: files are no complete Parquet files.
    """
    first = read_first_file(source)
    names = {spec.key_column, *value_schema(first.schema, spec).names}
    unpacked = sum(size for name, size in first.column_bytes.items() if name in names)
    total = sum(info.size_bytes for info in source.files)
    return (unpacked + first.num_rows * _BYTES_PER_KEY) * total // max(1, first.size_bytes)


def build_index(source: Source, spec: IndexSpec, folder: Path, options: BuildOptions | None = None) -> None:
    """Makes an index in an empty folder, and has it on the disk.

    Memory is bounded by the options, not by the source.

    Raises:
        UsageError: the source lacks a column, or has a key twice and the spec says that it is an error.
        ShardError: a file of the source cannot be used.
        StorageError: the source cannot be read.
        OSError: the folder cannot be written.
    """
    options = options or BuildOptions()
    schema = read_first_file(source).schema
    values = value_schema(schema, spec)
    rows = SourceRows(source, spec, schema, values)
    with HashSorter(folder, sort_rows=options.sort_rows) as sorter, _pool_for_large_batches():
        _read_rows(rows, folder, sorter, options)
        duplicates = DuplicateKeys(RowFile(folder / ROWS_FILE), spec.duplicates)
        num_keys = sorter.finish(duplicates.keep)
    if duplicates.found is not None:
        raise _duplicate_error(source, spec, schema, rows, duplicates)
    write_description(folder, schema.field(spec.key_column), values, num_keys)


def _read_rows(rows: SourceRows, folder: Path, sorter: HashSorter, options: BuildOptions) -> None:
    """Writes the rows, and gives the sorter the hashes of their keys."""
    first_row = 0
    with RowFileWriter(folder / ROWS_FILE, rows.stored_schema(_PLAIN_KEY), batch_bytes=options.batch_bytes) as writer:
        for columns in _ahead(rows.batches()):
            keys = columns[0]
            present = np.arange(first_row, first_row + len(keys))
            hashes = options.hash_keys(keys)
            if keys.null_count:
                valid = keys.is_valid().to_numpy(zero_copy_only=False)
                present, hashes = present[valid], hashes[valid]
            sorter.add(hashes, present)
            writer.write(columns)
            first_row += len(keys)


def _ahead(batches: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Reads the next batch while the last one is worked on."""
    with ThreadPoolExecutor(1, "index-reader") as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


@contextmanager
def _pool_for_large_batches() -> Generator[None]:
    """Has Arrow take memory from jemalloc for a `with` block, and gives back at its end what is free then.

    mimalloc returns large blocks to the system and faults them in again: half of the processor time of a build.
    """
    before = pa.default_memory_pool()
    pool = pa.jemalloc_memory_pool() if "jemalloc" in pa.supported_memory_backends() else before
    pa.set_memory_pool(pool)
    try:
        yield
    finally:
        pa.set_memory_pool(before)
        pool.release_unused()


def _duplicate_error(
    source: Source, spec: IndexSpec, schema: pa.Schema, rows: SourceRows, duplicates: DuplicateKeys
) -> UsageError:
    first, second, key = duplicates.found or (0, 0, _arrow.scalar(None))
    ends = list(accumulate(rows.file_rows))

    def place(row: int) -> str:
        number = next(number for number, end in enumerate(ends) if row < end)
        return f"{source.uri(number)} row {row - (ends[number - 1] if number else 0)}"

    shown = describe_key(_in_type(key, schema.field(spec.key_column).type))
    message = f"key {shown} is in column {spec.key_column!r} twice: {place(first)} and {place(second)}"
    return UsageError(message, "each key once", "duplicates: first (or last)")


def _in_type(key: pa.Scalar, dtype: pa.DataType) -> pa.Scalar:
    """Returns a key in plain form as the text that it was, where it was one."""
    held = stored_type(dtype)
    text = pa.types.is_string(held) or pa.types.is_large_string(held)
    try:
        return _arrow.scalar(key.as_py().decode(), pa.large_string()) if text else key
    except UnicodeDecodeError:
        return key
