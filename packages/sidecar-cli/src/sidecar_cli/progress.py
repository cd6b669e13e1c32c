"""What a person sees of a run while it goes on: a bar on a terminal, a line every 10 s elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sidecar_core.problems import counted
from sidecar_runtimes.progress_lines import LineProgress, ProgressCounts, debug_rows

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from sidecar_core.outcome import ShardReport
    from sidecar_runtimes.progress import RunObserver

__all__ = ["BarProgress", "LineProgress", "ProgressCounts", "open_progress"]


class BarProgress:
    """Draws a bar on stderr."""

    def __init__(self) -> None:
        self._counts = ProgressCounts()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def started(self, total_shards: int, skipped: int) -> None:
        """Draws the empty bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._counts.start(total_shards)
        # the text is one column: where it does not fit its end is cut, and of several columns the end of each
        self._bar = Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True))
        self._task = self._bar.add_task("", total=total_shards)
        self._draw()
        self._bar.start()

    def rows_done(self, rows: int, invalid: int) -> None:
        """Moves the numbers."""
        self._counts.add_rows(rows, invalid)
        self._draw()

    def shard_finished(self, report: ShardReport) -> None:
        """Moves the bar."""
        self._counts.add_shard(report)
        self._draw()

    def finished(self) -> None:
        """Leaves the bar as it is."""
        self._draw()
        if self._bar is not None:
            self._bar.stop()

    def _draw(self) -> None:
        if self._bar is None or self._task is None:
            return
        counts = self._counts
        eta_s = counts.eta_s
        ended = counts.completed + counts.failed
        words = [
            f"{ended:,}/{counted(counts.total, 'shard')}",
            counted(counts.rows, "row"),
            f"{counts.rows / counts.elapsed_s:,.0f} rows/s",
            f"{counts.invalid:,} invalid",
        ]
        if counts.failed:
            words.append(f"{counted(counts.failed, 'shard')} failed")
        words.append(f"eta {'?' if eta_s is None else f'{eta_s:.0f} s'}")
        self._bar.update(self._task, completed=ended, description=", ".join(words))


def open_progress() -> RunObserver:
    """Returns the bar when stderr is a terminal, else the writer of lines."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return BarProgress()
    return LineProgress(every_rows=debug_rows())
