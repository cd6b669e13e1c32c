"""Hashes of keys, sorted, with the row of each: written in pieces that fit into memory, and searched when mapped.

Three columns lie in two Arrow files, one record batch each, so that each is one array: the hashes with their rows,
and where in them each bucket begins. A bucket holds the hashes that share their first bits, some eight of them,
so that a lookup reads few pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from sidecar_core.parquet_index.key_hash import Words

    Rows = NDArray[np.int64]
    Keep = Callable[[Words, Rows], "NDArray[np.bool_] | None"]

HASHES_FILE = "hashes.arrow"
BUCKETS_FILE = "buckets.arrow"
SORT_ROWS = 2**23
_BUCKET_KEYS = 8
_PART_BITS = 6


class HashSorter:
    """Takes hashes in the order of their rows, and writes them sorted; use it in a `with` block.

    Up to `sort_rows` stay in memory. More are spilled to files by their first bits; memory follows `sort_rows` then,
    up to 64 times as many keys.

    Args:
        folder: where the files go, and temporary ones until then.
        sort_rows: how many are sorted at a time.
    """

    def __init__(self, folder: Path, *, sort_rows: int = SORT_ROWS) -> None:
        self._folder = folder
        self._sort_rows = sort_rows
        self._blocks: list[tuple[Words, Rows]] = []
        self._held = self._count = 0
        self._parts: list[_Part] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for part in self._parts:
            part.close()

    def add(self, hashes: Words, rows: Rows) -> None:
        """Adds keys with their rows, which rise."""
        self._blocks.append((hashes, rows))
        self._count += len(hashes)
        self._held += len(hashes)
        if self._held > self._sort_rows:
            self._spill()

    def finish(self, keep: Keep) -> int:
        """Writes the files, and removes the temporary ones.

        Args:
            keep: says which of some hashes with their rows go into the files, None for all. Each hash comes with
                all its rows, in order.

        Returns:
            How many are in them.
        """
        bits = max(1, (self._count // _BUCKET_KEYS).bit_length() - 1)
        shift = np.uint64(64 - bits)
        sizes = np.zeros(2**bits + 1, np.int64)
        kept = 0
        sorted_hashes, sorted_rows = self._folder / "sorted-hashes", self._folder / "sorted-rows"
        with sorted_hashes.open("xb") as hash_file, sorted_rows.open("xb") as row_file:
            for found_hashes, found_rows in self._sorted_parts():
                hashes, rows = found_hashes, found_rows
                if (chosen := keep(hashes, rows)) is not None:
                    hashes, rows = hashes[chosen], rows[chosen]
                if not len(hashes):
                    continue
                buckets = (hashes >> shift).astype(np.int64)
                first = buckets[0]
                sizes[first + 1 : buckets[-1] + 2] += np.bincount(buckets - first)
                hash_file.write(cast("Any", hashes))
                row_file.write(cast("Any", rows))
                kept += len(hashes)
        columns = {"hash": (sorted_hashes, pa.uint64()), "row": (sorted_rows, pa.int64())}
        _write_batch(self._folder / HASHES_FILE, {name: _mapped(*file, kept) for name, file in columns.items()})
        _write_batch(self._folder / BUCKETS_FILE, {"start": pa.array(np.cumsum(sizes))})
        for path in (sorted_hashes, sorted_rows):
            path.unlink()
        return kept

    def _sorted_parts(self) -> Iterator[tuple[Words, Rows]]:
        """Yields all hashes with their rows, sorted, in parts; equal hashes are in one part."""
        if not self._parts:
            yield _sorted_pairs(*self._take_held(), 0)
            return
        self._spill()
        for part in self._parts:
            yield _sorted_pairs(*part.read(), _PART_BITS)
            part.remove()

    def _spill(self) -> None:
        """Moves what is in memory to the files of its parts."""
        if not self._parts:
            self._parts = [_Part(self._folder, number) for number in range(2**_PART_BITS)]
        hashes, rows = self._take_held()
        numbers = (hashes >> np.uint64(64 - _PART_BITS)).astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._parts)))
        hashes, rows = hashes[order], rows[order]
        for part, begin, end in zip(self._parts, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            part.write(hashes[begin:end], rows[begin:end])

    def _take_held(self) -> tuple[Words, Rows]:
        """Returns what is in memory, and forgets it."""
        hashes = np.concatenate([np.empty(0, np.uint64), *(hashes for hashes, _ in self._blocks)])
        rows = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in self._blocks)])
        self._blocks, self._held = [], 0
        return hashes, rows


class _Part:
    """The spilled hashes that begin with the same bits, and their rows."""

    def __init__(self, folder: Path, number: int) -> None:
        self._paths = (folder / f"part-{number:02}-hashes", folder / f"part-{number:02}-rows")
        self._files = tuple(path.open("xb", buffering=0) for path in self._paths)

    def write(self, hashes: Words, rows: Rows) -> None:
        for file, values in zip(self._files, (hashes, rows), strict=True):
            data = memoryview(cast("Any", values)).cast("B")
            while data:
                data = data[file.write(data) :]

    def read(self) -> tuple[Words, Rows]:
        hashes, rows = self._paths
        return np.fromfile(hashes, np.uint64), np.fromfile(rows, np.int64)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def remove(self) -> None:
        self.close()
        for path in self._paths:
            path.unlink()


class SortedHashes:
    """The files, open for searching. Safe to use from several threads.

    Args:
        folder: where `HashSorter` wrote them.

    Raises:
        pa.ArrowInvalid: one is no complete Arrow file.
        OSError: one is not there, or cannot be mapped.
    """

    def __init__(self, folder: Path) -> None:
        pairs, buckets = _read_batch(folder / HASHES_FILE), _read_batch(folder / BUCKETS_FILE)
        self._hashes: Words = pairs.column(0).to_numpy()
        self._rows: Rows = pairs.column(1).to_numpy()
        self._starts: Rows = buckets.column(0).to_numpy()
        self._shift = np.uint64(64 - ((len(self._starts) - 1).bit_length() - 1))
        self.num_keys = len(self._hashes)

    def find(self, hashes: Words) -> Rows:
        """Returns for each hash the position of the first that is not smaller; `num_keys` when all are."""
        buckets = (hashes >> self._shift).astype(np.int64)
        low, high = self._starts[buckets], self._starts[buckets + 1]
        longest = int((high - low).max(initial=0))
        for _ in range(longest.bit_length()):
            middle = (low + high) >> 1
            smaller = self._hashes[np.minimum(middle, self.num_keys - 1)] < hashes
            smaller &= low < high
            low = np.where(smaller, middle + 1, low)
            high = np.where(smaller, high, middle)
        return low

    def matches(self, positions: Rows, hashes: Words) -> NDArray[np.bool_]:
        """Returns at which positions the given hash is."""
        inside = positions < self.num_keys
        if not self.num_keys:
            return inside
        return inside & (self._hashes[np.minimum(positions, self.num_keys - 1)] == hashes)

    def rows(self, positions: Rows) -> Rows:
        """Returns the rows at positions below `num_keys`."""
        return self._rows[positions]


def _sorted_pairs(hashes: Words, rows: Rows, common_bits: int) -> tuple[Words, Rows]:
    """Sorts hashes with their rows by hash, then row; they come in the order of rows, and share their first bits.

    What is sorted is one integer for each: the hash's bits after those in common, with the pair's position in the
    place of the last ones. Sorting integers is several times as fast as sorting positions by them. The few whose
    other bits are equal are put into order afterwards.
    """
    mask = np.uint64((1 << max(len(hashes) - 1, 1).bit_length()) - 1)
    packed = hashes << np.uint64(common_bits)
    packed &= ~mask
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & mask).view(np.int64)
    packed &= ~mask
    alike = packed[1:] == packed[:-1]
    if alike.any():
        members = np.flatnonzero(np.append(alike, False) | np.insert(alike, 0, False))
        run = np.cumsum(np.insert(~alike, 0, False))[members]
        order[members] = order[members][np.lexsort((order[members], hashes[order[members]], run))]
    return hashes[order], rows[order]


def _mapped(path: Path, dtype: pa.DataType, length: int) -> pa.Array:
    """Returns a file's bytes as an array, without reading them into memory."""
    if not length:
        return cast("Any", pa.array)([], dtype)
    with pa.memory_map(str(path)) as source:
        return pa.Array.from_buffers(dtype, length, [None, source.read_buffer()])


def _write_batch(path: Path, columns: dict[str, pa.Array]) -> None:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _read_batch(path: Path) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).get_batch(0)
