"""Random access to an object over ranged reads that grow while they are sequential."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TAIL_BYTES = 64 * 2**10
_FIRST_BYTES = 64 * 2**10
_MOST_BYTES = 8 * 2**20
_HELD_BYTES = 32 * 2**20


@dataclass
class _Window:
    """Bytes that were fetched, and how many to fetch next if reading goes on where they end."""

    start: int
    data: bytes
    next_bytes: int

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class ObjectReader(io.RawIOBase):
    """A file object over an object of a store.

    Parquet's columns are read as several interleaved streams of small reads. Each stream that goes on
    fetches twice as much as before, from 64 KiB to 8 MiB, so that a column which is read in part costs
    at most about twice its bytes, and one that is read as a whole few requests. All that is kept is
    bounded by 32 MiB.

    Args:
        size: of the object in bytes.
        tail: its last bytes, which were read to learn the size.
        fetch: returns the bytes of [start, end).
    """

    def __init__(self, size: int, tail: bytes, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._tail = _Window(size - len(tail), tail, _FIRST_BYTES)
        self._fetch = fetch
        self._windows: list[_Window] = []  # the one used last comes last
        self._position = 0
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        with self._lock:
            left = max(0, self._size - self._position)
            data = self._read_at(self._position, left if size < 0 else min(size, left))
            self._position += len(data)
            return data

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._windows = []
        super().close()

    def _read_at(self, start: int, length: int) -> bytes:
        if length == 0:
            return b""
        window = next((held for held in (self._tail, *self._windows) if held.start <= start <= held.end), None)
        if window is None or (window is self._tail and start + length > window.end):
            window = _Window(start, b"", _FIRST_BYTES)
            self._windows.append(window)
        if start + length > window.end:
            window = self._extend(window, start, length)
        self._keep(window)
        offset = start - window.start
        return window.data[offset : offset + length]

    def _extend(self, window: _Window, start: int, length: int) -> _Window:
        """Fetches on from where the window ends, and forgets what lies before `start`."""
        fetch_to = min(self._size, max(start + length, window.end + window.next_bytes))
        fetched = self._fetch(window.end, fetch_to)
        window.data = window.data[start - window.start :] + fetched if start < window.end else fetched
        window.start = start
        window.next_bytes = min(_MOST_BYTES, window.next_bytes * 2)
        return window

    def _keep(self, window: _Window) -> None:
        if window is self._tail:
            return
        self._windows = [held for held in self._windows if held is not window]
        self._windows.append(window)
        while sum(len(held.data) for held in self._windows) > _HELD_BYTES and len(self._windows) > 1:
            self._windows.pop(0)
