"""The rows of an index's source in their order, in a memory-mapped Arrow file of large record batches.

Its first column is the key in plain form, then come the columns to look up, with the types of `stored_types`.
Batches are large because each that is touched costs some microseconds a column, and bounded because 32-bit offsets
are, and because one has to fit into the memory of whoever writes it.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

BATCH_BYTES = 2**30
_arrow: Any = pa  # the stubs know few of the types that these functions take


class RowFileWriter:
    """Writes the file from small tables; use it in a `with` block.

    Args:
        path: a file that is not there yet.
        schema: the key in plain form first.
        batch_bytes: how much goes into a record batch; twice as much never does.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, batch_bytes: int = BATCH_BYTES) -> None:
        self._schema = schema
        self._batch_bytes = batch_bytes
        self._held: list[list[pa.Array]] = [[] for _ in schema]
        self._held_bytes = self._held_rows = 0
        self._batches = 0
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._disk = ThreadPoolExecutor(1, "index-sync")
        self._syncs: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def write(self, columns: list[pa.Array]) -> None:
        """Adds rows: an array a column, together of at most 2 GiB."""
        size = sum(column.nbytes for column in columns)
        if self._held_rows and self._held_bytes + size > self._batch_bytes:
            self._flush()
        for held, column in zip(self._held, columns, strict=True):
            held.append(column)
        self._held_bytes += size
        self._held_rows += len(columns[0])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                if self._held_rows or not self._batches:
                    self._flush()
                self._writer.close()
            self._sink.close()
            if kind is None:
                self._sync()
        finally:
            self._disk.shutdown()
            os.close(self._descriptor)
        if kind is None:
            for sync in self._syncs:
                sync.result()

    def _flush(self) -> None:
        whole: list[pa.Array] = []
        for held, field in zip(self._held, self._schema, strict=True):
            whole.append(_arrow.concat_arrays(held) if held else _arrow.nulls(0, field.type))
            held.clear()  # so that no more than one column is there twice
        self._writer.write_batch(pa.RecordBatch.from_arrays(whole, schema=self._schema))
        self._held_bytes = self._held_rows = 0
        self._batches += 1
        self._sync()

    def _sync(self) -> None:
        """Has what was written on the disk, while what follows is made."""
        if not self._sink.closed:
            self._sink.flush()
        self._syncs.append(self._disk.submit(os.fsync, self._descriptor))


class RowFile:
    """The file, open for reading. Safe to use from several threads.

    Args:
        path: of a file of `RowFileWriter`.

    Raises:
        pa.ArrowInvalid: it is no complete Arrow file.
        OSError: it is not there, or cannot be mapped.
    """

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            self.schema = reader.schema
            self._batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        ends = list(itertools.accumulate(batch.num_rows for batch in self._batches))
        self.num_rows = ends[-1]
        self._starts = np.array([0, *ends[:-1]], np.int64)
        self._selected: dict[tuple[int, ...], list[pa.RecordBatch]] = {}

    def take(self, rows: NDArray[np.int64], columns: tuple[int, ...]) -> list[pa.RecordBatch]:
        """Returns rows in the given order: one record batch, or several where 32-bit offsets do not reach.

        Args:
            rows: row numbers; for each below zero there is a row of nulls.
            columns: numbers of columns.
        """
        try:
            return [self._take(rows, columns)]
        except (pa.ArrowInvalid, pa.ArrowCapacityError):
            if len(rows) <= 1:
                raise
        half = len(rows) // 2
        return [*self.take(rows[:half], columns), *self.take(rows[half:], columns)]

    def keys(self, rows: NDArray[np.int64]) -> pa.Array:
        """Returns the keys of rows, in plain form."""
        return self._take(rows, (0,)).column(0)

    def _take(self, rows: NDArray[np.int64], columns: tuple[int, ...]) -> pa.RecordBatch:
        batches = self._columns(columns)
        if len(batches) == 1 or not len(rows):
            return _take(batches[0], rows)
        numbers = np.searchsorted(self._starts, rows, "right") - 1  # -1 for a row of nulls: any batch can give that
        touched = np.unique(numbers)
        if len(touched) == 1:
            number = int(touched[0])
            return _take(batches[number], rows - self._starts[number] if number >= 0 else rows)
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], touched)
        pieces: list[pa.RecordBatch] = []
        for number, members in zip(touched.tolist(), np.split(order, bounds[1:]), strict=True):
            local = rows[members] - self._starts[number] if number >= 0 else rows[members]
            pieces.append(_take(batches[number], local))
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        return _arrow.concat_batches(pieces).take(_arrow.array(place))

    def _columns(self, columns: tuple[int, ...]) -> list[pa.RecordBatch]:
        found = self._selected.get(columns)
        if found is None:
            found = [
                pa.RecordBatch.from_arrays(
                    [batch.column(number) for number in columns],
                    schema=pa.schema([self.schema.field(number) for number in columns]),
                )
                for batch in self._batches
            ]
            self._selected[columns] = found
        return found


def _take(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """Returns rows of one batch; a row of nulls for each number below zero."""
    absent = rows < 0
    return batch.take(_arrow.array(rows, mask=absent) if absent.any() else _arrow.array(rows))
