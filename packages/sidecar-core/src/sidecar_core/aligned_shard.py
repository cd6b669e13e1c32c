"""One shard of a main dataset and of its sidecars: proven to hold the same keys, then read side by side."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.align import KeyDigest
from sidecar_core.errors import AlignmentError, ShardError
from sidecar_core.footer import FooterInfo
from sidecar_core.nulls import null_column
from sidecar_core.problems import counted
from sidecar_core.row_reader import KeyPlace, RowReader, check_keys
from sidecar_core.shard_reader import BATCH_BYTES, PLAIN_BATCH_ROWS, open_parquet, single_field, uncompressed_bytes

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow.parquet as pq

    from sidecar_core.storage import Storage


@dataclass(frozen=True)
class AlignedSource:
    """A main dataset or a sidecar, and what it gives to a stream.

    Attributes:
        storage: where it is.
        schema: its columns that are read, with the types that the stream has.
    """

    storage: Storage
    schema: pa.Schema


class AlignedShard:
    """A shard of a main dataset and of each of its sidecars; made by `AlignedShard.open`."""

    def __init__(self, rel_path: str, key_column: str, sources: Sequence[AlignedSource], main: pq.ParquetFile) -> None:
        self._rel_path = rel_path
        self._key_column = key_column
        self._sources = sources
        self._main = main
        self._files: list[pq.ParquetFile | None] = [main]  # one per source

    @classmethod
    @contextmanager
    def open(
        cls, rel_path: str, key_column: str, sources: Sequence[AlignedSource], *, absent: Sequence[bool]
    ) -> Generator[AlignedShard]:
        """Opens the shard's files for a `with` block.

        Args:
            rel_path: the shard.
            key_column: the column that all have.
            sources: the main dataset first.
            absent: per source, whether it lacks the shard, which then reads as nulls; never the main dataset.

        Raises:
            ShardError: a file is no Parquet file.
            StorageError: one could not be opened.
        """
        with ExitStack() as scope:
            main = scope.enter_context(open_parquet(sources[0].storage, rel_path))
            shard = cls(rel_path, key_column, sources, main)
            for source, lacks in zip(sources[1:], absent[1:], strict=True):
                file = None if lacks else scope.enter_context(open_parquet(source.storage, rel_path))
                shard._files.append(file)
            yield shard

    def prove(self) -> None:
        """Checks that every sidecar has the main shard's rows: their number, each key, and the footer's digest.

        The key columns are compared whole, batch by batch, for a footer alone proves nothing: whoever rewrites a file
        may have copied it.

        Raises:
            AlignmentError: names the shard, the first row and both keys, or both numbers of rows.
            ShardError: a file is damaged or has no key column.
        """
        main_uri, rows = self._sources[0].storage.uri(self._rel_path), self._main.metadata.num_rows
        sidecars = [
            (source.storage, file) for source, file in zip(self._sources, self._files, strict=True) if file is not None
        ][1:]
        if not sidecars:
            return
        for storage, file in sidecars:
            if file.metadata.num_rows != rows:
                message = f"{self._rel_path}: {counted(rows, 'row')} in {main_uri}, {file.metadata.num_rows:,} in "
                raise AlignmentError(f"{message}{storage.uri(self._rel_path)}", None, "make that shard again")
        main_keys = self._keys_of(self._main, main_uri)
        own_keys = [self._keys_of(file, storage.uri(self._rel_path)) for storage, file in sidecars]
        main_place = f"at {self._sources[0].storage.prefix}"
        digest = KeyDigest()
        for first_row in range(0, rows, PLAIN_BATCH_ROWS):
            count = min(PLAIN_BATCH_ROWS, rows - first_row)
            keys = main_keys.rows(first_row, count).column(0)
            digest.update(keys)
            for (storage, _), reader in zip(sidecars, own_keys, strict=True):
                own = reader.rows(first_row, count).column(0)
                where = KeyPlace(self._rel_path, first_row, self._key_column, storage.prefix, main=main_place)
                check_keys(keys, own, where)
        for storage, file in sidecars:
            self._check_footer(file, storage, rows, digest.hexdigest())

    def batches(self, schema: pa.Schema, *, max_rows: int) -> Iterator[pa.RecordBatch]:
        """Yields the selected columns of all sources side by side, row group by row group of the main shard.

        Args:
            schema: the columns to yield, each selected in exactly one source.
            max_rows: rows a batch at most; large rows make smaller batches, of about 64 MiB.
        """
        readers: list[RowReader | None] = []
        bytes_per_row = 0.0
        for source, file in zip(self._sources, self._files, strict=True):
            if file is None or not source.schema.names:
                readers.append(None)
                continue
            uri, prefix = source.storage.uri(self._rel_path), source.storage.prefix
            readers.append(RowReader(file, uri, source.schema, types_from=f"the first shard of {prefix}"))
            bytes_per_row += _largest_bytes_per_row(file, source.schema.names)
        step = max(1, min(max_rows, int(BATCH_BYTES // max(1.0, bytes_per_row))))
        metadata, first_row = self._main.metadata, 0
        for group in range(metadata.num_row_groups):
            end = first_row + metadata.row_group(group).num_rows
            while first_row < end:
                count = min(step, end - first_row)
                yield from self._side_by_side(readers, first_row, count, schema).to_batches()
                first_row += count

    def _side_by_side(
        self, readers: Sequence[RowReader | None], first_row: int, count: int, schema: pa.Schema
    ) -> pa.Table:
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        for source, reader in zip(self._sources, readers, strict=True):
            if reader is not None:
                table = reader.rows(first_row, count)
                columns.update(zip(table.column_names, table.columns, strict=True))
            else:
                columns.update({field.name: null_column(field.type, count) for field in source.schema})
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _keys_of(self, file: pq.ParquetFile, uri: str) -> RowReader:
        key = single_field(file.schema_arrow, self._key_column, uri, role="key column")
        return RowReader(file, uri, pa.schema([key]), types_from="the file itself")

    def _check_footer(self, file: pq.ParquetFile, storage: Storage, rows: int, digest: str) -> None:
        uri = storage.uri(self._rel_path)
        try:
            footer = FooterInfo.from_metadata(file.metadata.metadata)
        except ValueError as error:
            raise ShardError(f"{uri}: {error}", "a footer as sidecar writes it") from error
        if footer is not None and (footer.rows, footer.key_digest) != (rows, digest):
            message = f"{self._rel_path}: the keys of {uri} are not those that its footer tells"
            expected = f"{counted(footer.rows, 'row')} with the digest {footer.key_digest}"
            raise AlignmentError(message, expected, "make that shard again")


def _largest_bytes_per_row(file: pq.ParquetFile, names: Sequence[str]) -> float:
    """Returns the uncompressed size of a row of these columns in the row group where it is largest."""
    groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    return max((uncompressed_bytes(group, names) / group.num_rows for group in groups if group.num_rows), default=0.0)
