"""What a run tells while it runs; how that looks is the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sidecar_core.outcome import ShardReport


class RunObserver(Protocol):
    """Told what a run does. Calls may come from several threads, one at a time."""

    def started(self, total_shards: int, skipped: int) -> None:
        """The run is about to process shards: `total_shards` of them, besides those it skips."""

    def rows_done(self, rows: int, invalid: int) -> None:
        """A batch was computed: so many rows, so many of them invalid; negative when an attempt failed with them."""

    def shard_finished(self, report: ShardReport) -> None:
        """A shard was committed, or given up after its last attempt."""

    def finished(self) -> None:
        """Nothing more will be told."""


class SilentObserver:
    """Tells nobody."""

    def started(self, total_shards: int, skipped: int) -> None:
        """Ignored."""

    def rows_done(self, rows: int, invalid: int) -> None:
        """Ignored."""

    def shard_finished(self, report: ShardReport) -> None:
        """Ignored."""

    def finished(self) -> None:
        """Ignored."""
