"""Writing one output shard to a local file, row group by row group, and proving it before it is committed."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar_core.align import GroupedKeyDigest
from sidecar_core.errors import ShardError, StorageError, UsageError
from sidecar_core.footer import FooterInfo
from sidecar_core.problems import counted

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from types import TracebackType

ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES = 64 * 2**20
IMAGE_ROW_GROUP_BYTES = 32 * 2**20
_READ_BUFFER_BYTES = 64 * 2**10
_READ_UNIT_BYTES = 8 * 2**20
_MOST_READ_ROWS = 16_384


@dataclass(frozen=True)
class ShardFileReport:
    """A finished shard file.

    Attributes:
        rows: its rows.
        size_bytes: its size.
        row_groups: its row groups.
        key_digest: digest of its whole key column.
        key_digest_row_groups: digest of the keys of each row group.
    """

    rows: int
    size_bytes: int
    row_groups: int
    key_digest: str
    key_digest_row_groups: tuple[str, ...]


class ShardWriter:
    """Writes tables to a Parquet file, holding no more than one row group of them.

    Only `close` makes a Parquet file of it. Used as a context manager, the file is removed when the
    block raises or ends without `close`: a shorter file that looks whole never stays.

    Image columns are stored as they are, without compression and dictionary; all others with zstd, and with
    dictionaries except for the key, whose values differ. Row groups carry the null count of every column, pages carry
    checksums. No column's chunks are ever put together, so that more than 2 GiB in a shard, or in one table, is fine.

    Args:
        path: the local file to write; its folder exists.
        schema: of the file; the key column is its first.
        image_columns: columns that hold encoded pictures (binary, or a struct with a binary field).
        max_row_group_rows: rows of a row group at most.
        max_row_group_bytes: size of a row group in Arrow's memory at most, unless one row is larger;
            default 64 MiB, with image columns 32 MiB.
    """

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        *,
        image_columns: Collection[str] = (),
        max_row_group_rows: int = ROW_GROUP_ROWS,
        max_row_group_bytes: int | None = None,
    ) -> None:
        self.path = path
        self.schema = schema
        self._follows_marks = bool(image_columns)
        self._max_rows = max_row_group_rows
        self._max_bytes = max_row_group_bytes or (IMAGE_ROW_GROUP_BYTES if image_columns else ROW_GROUP_BYTES)
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._digest = GroupedKeyDigest()
        self._finished = False
        self._sink: pa.NativeFile | None = None
        self._writer: Any = None  # a pq.ParquetWriter; its stubs lag behind
        try:
            self._sink = pa.OSFile(str(path), "wb")
            self._writer = _open_parquet_writer(self._sink, schema, image_columns)
        except BaseException as error:
            self.abort()
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise

    def write(self, table: pa.Table, *, end_row_group: bool = False) -> None:
        """Adds rows.

        Args:
            table: any number of rows, with exactly this writer's columns and types.
            end_row_group: whether the main shard's row group ends here; heeded for files with images.

        Raises:
            UsageError: other columns or types, or the writer is closed.
            StorageError: the disk is full or fails; the file is removed.
        """
        if not table.schema.equals(self.schema):
            raise UsageError(f"{self.path}: a table with other columns", str(self.schema), f"not {table.schema}")
        try:
            row = 0
            while row < table.num_rows:
                row += self._take(table.slice(row, self._max_rows - self._pending_rows))
            if end_row_group and self._follows_marks:
                self._flush()
        except OSError as error:
            self.abort()
            raise self._failed(error) from error
        except BaseException:
            self.abort()
            raise

    def close(self, footer: FooterInfo) -> ShardFileReport:
        """Finishes the file.

        Args:
            footer: what the file says about itself; rows and key digests are filled in here.

        Raises:
            StorageError: the disk is full or fails; the file is removed.
        """
        try:
            self._flush()
            report = ShardFileReport(
                rows=self._digest.rows,
                size_bytes=0,
                row_groups=len(self._digest.groups),
                key_digest=self._digest.hexdigest(),
                key_digest_row_groups=tuple(self._digest.groups),
            )
            writer, sink = self._open_parts()
            writer.add_key_value_metadata(
                replace(
                    footer,
                    rows=report.rows,
                    key_digest=report.key_digest,
                    key_digest_row_groups=report.key_digest_row_groups,
                ).to_metadata()
            )
            writer.close()
            sink.close()
            self._finished = True
            return replace(report, size_bytes=self.path.stat().st_size)
        except OSError as error:
            self.abort()
            raise self._failed(error) from error
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Removes the file, finished or not. May be called more than once."""
        self.path.unlink(missing_ok=True)  # first, so that nothing that Arrow still writes can be seen
        writer, sink = self._writer, self._sink
        self._writer = self._sink = None
        self._pending = []
        if writer is not None:
            writer.is_open = False  # or its destructor would finish the file
        if sink is not None and not sink.closed:
            with suppress(OSError):  # a full disk is full at the last flush too
                sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None or not self._finished:
            self.abort()

    def _take(self, table: pa.Table) -> int:
        """Takes the first rows of the table that fit into the present row group; returns how many."""
        size = table.nbytes
        if size > self._max_bytes - self._pending_bytes and self._pending:
            self._flush()
        while size > self._max_bytes and table.num_rows > 1:
            table = table.slice(0, (table.num_rows + 1) // 2)
            size = table.nbytes
        self._pending.append(table)
        self._pending_rows += table.num_rows
        self._pending_bytes += size
        if self._pending_rows >= self._max_rows:
            self._flush()
        return table.num_rows

    def _flush(self) -> None:
        """Writes what is pending as one row group."""
        writer, _ = self._open_parts()
        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        writer.write_table(table, row_group_size=table.num_rows)
        self._digest.update(table.column(0))
        self._digest.end_group()
        self._pending = []
        self._pending_rows = self._pending_bytes = 0

    def _open_parts(self) -> tuple[Any, pa.NativeFile]:
        if self._writer is None or self._sink is None or self._finished:
            raise UsageError(f"{self.path}: the writer is closed")
        return self._writer, self._sink

    def _failed(self, error: OSError) -> StorageError:
        reason = os.strerror(error.errno) if error.errno else str(error).strip()
        return StorageError(f"{self.path}: cannot write it: {reason}", None, "free space on that disk")


def check_shard_file(path: Path, schema: pa.Schema, rows: int) -> None:
    """Reads a finished file from its first byte to its last and checks all that it claims.

    That is its rows, schema and footer, the checksum of every page, and the keys against the footer's
    digests. Memory is bounded by some MiB, or one page.

    Args:
        path: the file.
        schema: the schema that it must have; the key column is its first.
        rows: the number of rows that it must have.

    Raises:
        StorageError: the file is damaged.
        ShardError: it is whole, but not the file that it should be.
    """
    try:
        with pq.ParquetFile(
            path, pre_buffer=False, buffer_size=_READ_BUFFER_BYTES, page_checksum_verification=True
        ) as file:
            footer = FooterInfo.from_metadata(file.metadata.metadata)
            if not file.schema_arrow.equals(schema):
                raise ShardError(f"{path}: schema {file.schema_arrow}", str(schema))
            found, digests, whole = _read_through(file)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StorageError(
            f"{path}: damaged after it was written: {str(error).strip()}", None, "check the disk"
        ) from error
    if (found, file.metadata.num_rows) != (rows, rows):
        raise ShardError(
            f"{path}: {counted(found, 'row')}, {file.metadata.num_rows:,} by its footer", counted(rows, "row")
        )
    if footer is None:
        raise ShardError(f"{path}: no sidecar.* keys in its footer")
    if (footer.rows, footer.key_digest, footer.key_digest_row_groups) != (rows, whole, digests):
        raise ShardError(f"{path}: the keys are not those that its footer tells")


def _read_through(file: pq.ParquetFile) -> tuple[int, tuple[str, ...], str]:
    """Reads every page; returns the rows, and the key digests of the row groups and of the whole."""
    digest = GroupedKeyDigest()
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        batch_rows = max(1, min(_MOST_READ_ROWS, _READ_UNIT_BYTES * group.num_rows // max(1, group.total_byte_size)))
        for batch in file.iter_batches(batch_rows, row_groups=[number], use_threads=False):
            digest.update(batch.column(0))
        digest.end_group()
    return digest.rows, tuple(digest.groups), digest.hexdigest()


def _open_parquet_writer(sink: pa.NativeFile, schema: pa.Schema, image_columns: Collection[str]) -> pq.ParquetWriter:
    leaves = _leaf_columns(schema)
    images = {path for path, is_bytes in leaves if is_bytes and path.split(".")[0] in image_columns}
    images |= {path for path, _ in leaves if path in image_columns}
    repeating = [path for path, _ in leaves if path not in images and path != schema.names[0]]
    writer: Any = pq.ParquetWriter
    return writer(
        sink,
        schema,
        compression={path: "none" if path in images else "zstd" for path, _ in leaves},
        use_dictionary=repeating,
        write_page_checksum=True,
        write_page_index=True,
    )


@lru_cache(maxsize=64)
def _leaf_columns(schema: pa.Schema) -> list[tuple[str, bool]]:
    """Returns the dotted path of each leaf as Parquet names it, and whether it holds plain bytes."""
    buffer = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), buffer)
    parquet_schema = pq.read_metadata(pa.BufferReader(buffer.getvalue())).schema
    leaves = [parquet_schema.column(index) for index in range(len(parquet_schema))]
    return [(leaf.path, leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type == "NONE") for leaf in leaves]
