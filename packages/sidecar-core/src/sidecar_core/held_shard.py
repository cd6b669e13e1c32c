"""An output shard of which a retry keeps most rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa

from sidecar_core.errors import ShardError
from sidecar_core.footer import FooterInfo
from sidecar_core.inputs import same_version
from sidecar_core.problems import counted
from sidecar_core.shard_reader import open_parquet, read_row_group

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    import pyarrow.parquet as pq

    from sidecar_core.footer import InputVersion
    from sidecar_core.plan import PlannedOutput
    from sidecar_core.side_inputs import SiblingSpec
    from sidecar_core.storage import Storage


class HeldShard:
    """An open output shard whose rows are taken in order.

    Args:
        storage: the output's.
        output: what the plan says of it.
        rel_path: the shard.

    Attributes:
        uri: where it is.
        file: the open file.
        footer: what it says about itself.

    Raises:
        ShardError: on entering, when the plan did not make it.
    """

    def __init__(self, storage: Storage, output: PlannedOutput, rel_path: str) -> None:
        self.uri = storage.uri(rel_path)
        self._opened = open_parquet(storage, rel_path)
        self._output = output
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> Self:
        self.file: pq.ParquetFile = self._opened.__enter__()
        try:
            footer = FooterInfo.from_metadata(self.file.metadata.metadata)
        except ValueError as error:
            raise ShardError(f"{self.uri}: {error}", "a footer as sidecar writes it") from error
        if footer is None or footer.fingerprint != self._output.fingerprint:
            raise ShardError(f"{self.uri}: another pipeline made it", None, "make it again: sidecar run --redo-stale")
        if not self.file.schema_arrow.equals(self._output.schema):
            raise ShardError(f"{self.uri}: schema {self.file.schema_arrow}", str(self._output.schema))
        self.footer: FooterInfo = footer
        self._batches = self._read()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._batches.close()
        self._opened.__exit__(None, None, None)

    def check_rows(self, rows: int) -> None:
        """Raises ShardError when it does not have that many rows."""
        if self.file.metadata.num_rows != rows:
            raise ShardError(f"{self.uri}: {counted(self.file.metadata.num_rows, 'row')}", f"the main shard's {rows:,}")

    def check_siblings(self, siblings: Mapping[SiblingSpec, InputVersion]) -> None:
        """Raises ShardError when rows that stay as they are were made from other versions of the siblings' shards."""
        now = [siblings[spec] for spec in self._output.siblings]
        before = self.footer.inputs_of("sibling")
        if len(now) != len(before) or not all(map(same_version, before, now)):
            message = f"{self.uri}: a sibling's shard is not the one that it was made from"
            raise ShardError(message, None, "make it again: sidecar run --redo-stale")

    def take(self, rows: int) -> Iterator[pa.Table]:
        """Yields the next rows, so many in all, in pieces of about 8 MiB."""
        while rows:
            batch = self._waiting.pop() if self._waiting else next(self._batches)
            if batch.num_rows > rows:
                self._waiting.append(batch.slice(rows))
                batch = batch.slice(0, rows)
            rows -= batch.num_rows
            yield pa.Table.from_arrays(batch.columns, schema=self._output.schema)

    def _read(self) -> Generator[pa.RecordBatch]:
        for group in range(self.file.metadata.num_row_groups):
            yield from read_row_group(self.file, group, self._output.schema.names)
