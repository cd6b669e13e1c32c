"""A run's progress as plain lines on stderr, for logs."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar_core.outcome import ShardReport

_LINE_EVERY_S = 10.0
_EVERY_N_ROWS = ("SIDECAR_DEBUG_PROGRESS_ROWS", "SIDECAR_OPS_DEBUG_PROGRESS_ROWS")


class ProgressCounts:
    """Counts of a run, and the line that says them.

    Args:
        clock: seconds that only go up.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_s = clock()
        self.total = 0
        self.completed = 0
        self.failed = 0
        self.rows = 0
        self.invalid = 0

    def start(self, total_shards: int) -> None:
        """Begins the time that rates are made from."""
        self._started_s = self._clock()
        self.total = total_shards

    def add_rows(self, rows: int, invalid: int) -> None:
        """Counts computed rows."""
        self.rows += rows
        self.invalid += invalid

    def add_shard(self, report: ShardReport) -> None:
        """Counts a shard that ended."""
        if report.status == "failed":
            self.failed += 1
        else:
            self.completed += 1

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start, never zero."""
        return max(self._clock() - self._started_s, 1e-9)

    @property
    def eta_s(self) -> float | None:
        """Seconds that the rest takes at the rate so far, or None before the first shard ended."""
        ended = self.completed + self.failed
        if ended == 0:
            return 0.0 if self.total == 0 else None
        return (self.total - ended) * self.elapsed_s / ended

    def line(self) -> str:
        """Returns the progress line."""
        rate = (self.completed + self.failed) / self.elapsed_s
        eta_s = self.eta_s
        return (
            f"Shard progress: completed={self.completed}/{self.total} rows={self.rows} "
            f"rate={_rate(rate)} shards/s rows/s={self.rows / self.elapsed_s:.0f} "
            f"invalid={self.invalid} failed={self.failed} eta={'?' if eta_s is None else f'{eta_s:.0f}s'}"
        )


class LineProgress:
    """Writes the progress line to stderr every 10 s, and at the end.

    `SIDECAR_DEBUG_PROGRESS_ROWS=N` also writes it each time N more rows were computed.
    """

    def __init__(self, *, every_s: float = _LINE_EVERY_S, every_rows: int | None = None) -> None:
        self._counts = ProgressCounts()
        self._every_s = every_s
        self._every_rows = every_rows
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="sidecar-progress", daemon=True)

    def started(self, total_shards: int, skipped: int) -> None:
        """Begins to write lines."""
        self._counts.start(total_shards)
        self._ticker.start()

    def rows_done(self, rows: int, invalid: int) -> None:
        """Counts rows."""
        before = self._counts.rows
        self._counts.add_rows(rows, invalid)
        if self._every_rows and before // self._every_rows != self._counts.rows // self._every_rows:
            self._write()

    def shard_finished(self, report: ShardReport) -> None:
        """Counts a shard."""
        self._counts.add_shard(report)

    def finished(self) -> None:
        """Writes the last line."""
        self._ended.set()
        if self._ticker.is_alive():
            self._ticker.join()
        self._write()

    def _tick(self) -> None:
        while not self._ended.wait(self._every_s):
            self._write()

    def _write(self) -> None:
        try:
            sys.stderr.write(f"{self._counts.line()}\n")
            sys.stderr.flush()
        except OSError:  # nobody reads it; the run goes on
            self._ended.set()


def debug_rows() -> int | None:
    """Returns after how many rows the environment asks for a line, or None."""
    for name in _EVERY_N_ROWS:
        value = os.environ.get(name, "")
        if value.isdecimal() and int(value) > 0:
            return int(value)
    return None


def _rate(per_s: float) -> str:
    """Returns a rate with one decimal, a slow one with more."""
    return f"{per_s:.1f}" if per_s >= 1 or per_s == 0 else f"{per_s:.2g}"
