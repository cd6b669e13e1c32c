"""Which shard is next: those not tried yet, and those that are tried again."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sidecar_core.outcome import ShardReport
from sidecar_core.problems import counted

from sidecar_runtimes.attempts import backoff_s, log_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sidecar_core.plan import PlannedShard

    from sidecar_runtimes.attempts import ShardAttempt

POISONOUS_KILLS = 3
_MAX_LOSSES = 10  # of nodes and connections, for which a shard is not to blame


@dataclass(frozen=True)
class ShardTry:
    """One attempt that is to be made.

    Attributes:
        shard: the shard.
        number: 1 for the first attempt.
        avoid: places (nodes) where it has failed; best done elsewhere.
        alone: whether its worker should work on nothing else, because one died with it before.
    """

    shard: PlannedShard
    number: int = 1
    avoid: frozenset[str] = frozenset()
    alone: bool = False


@dataclass(frozen=True)
class WorkerDeath:
    """The end of a worker process during an attempt, in facts.

    Attributes:
        fact: one clause: how it ended, and the measured memory where it is known.
        error_type: the class name of what the cluster raised.
        blameless: whether it had nothing to do with shards: a node or a connection was lost.
    """

    fact: str
    error_type: str
    blameless: bool = False


@dataclass
class _History:
    shard: PlannedShard
    tries: int = 0
    failures: int = 0
    kills: int = 0
    losses: int = 0
    places: set[str] = field(default_factory=set[str])


class ShardQueue:
    """Shards that wait for an attempt. Not for several threads.

    A shard whose error may pass is tried again after a pause, elsewhere where possible. One whose worker
    died with other shards is tried alone from then on, so that the guilty one is found and the others are
    not blamed for it. One that killed its worker three times is poisonous, and given up.

    Args:
        shards: in the order in which they are to be processed.
        retries: further attempts for a shard that fails by itself.
        explain: called with a poisonous shard's path; returns what its workers left behind, or an empty text.
        clock: seconds, ever increasing.

    Attributes:
        deaths: how often a worker ended with a shard so far.
    """

    def __init__(
        self,
        shards: Iterable[PlannedShard],
        *,
        retries: int,
        explain: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fresh = deque(shards)
        self._again: list[tuple[float, ShardTry]] = []
        self._retries = retries
        self._explain = explain
        self._clock = clock
        self._histories: dict[str, _History] = {}
        self.deaths = 0

    def __len__(self) -> int:
        """The number of shards that wait, those included whose pause is not over."""
        return len(self._fresh) + len(self._again)

    def take(self, *, idle: bool = True) -> ShardTry | None:
        """Returns the next attempt, or None when none may be made now.

        Args:
            idle: whether the worker does nothing else; the others get no shard that must be alone.
        """
        now = self._clock()
        for index, (due, again) in enumerate(self._again):
            if due <= now and (idle or not again.alone):
                del self._again[index]
                return again
        return ShardTry(self._fresh.popleft()) if self._fresh else None

    def pause_s(self) -> float | None:
        """Returns the seconds until the next pause is over, or None when nobody pauses."""
        return max(0.0, min(due for due, _ in self._again) - self._clock()) if self._again else None

    def give_back(self, shard_try: ShardTry) -> None:
        """Takes back an attempt that never began."""
        self._again.insert(0, (self._clock(), shard_try))

    def ended(self, shard_try: ShardTry, attempt: ShardAttempt, *, place: str = "") -> ShardReport | None:
        """Takes in an attempt that gave an answer.

        Returns:
            The shard's final report, or None when it is tried again.
        """
        history = self._history(shard_try)
        if attempt.report.status == "done":
            return attempt.report
        log_failure(attempt)
        history.failures += 1
        history.places.update({place} - {""})
        if attempt.may_pass and history.failures + history.kills <= self._retries:
            self._try_again(history, shard_try, pause_s=backoff_s(shard_try.number), alone=shard_try.alone)
            return None
        return attempt.report

    def worker_died(
        self, shard_try: ShardTry, death: WorkerDeath, *, place: str = "", others: int = 0
    ) -> ShardReport | None:
        """Takes in the end of a worker that had the shard.

        Args:
            shard_try: the attempt.
            death: how the worker ended.
            place: where it was.
            others: how many other shards it had; any of them may be the guilty one.

        Returns:
            The shard's final report, or None when it is tried again.
        """
        self.deaths += 1
        history = self._history(shard_try)
        history.places.update({place} - {""})
        if death.blameless:
            history.losses += 1
            again = history.losses < _MAX_LOSSES
        else:
            history.kills += 1
            own = history.failures + history.kills - (1 if others else 0)
            again = history.kills < POISONOUS_KILLS and own <= self._retries
        if again:
            alone = shard_try.alone or (others > 0 and not death.blameless)
            self._try_again(history, shard_try, pause_s=0.0, alone=alone)
            return None
        return self._given_up(history, death)

    def _history(self, shard_try: ShardTry) -> _History:
        shard = shard_try.shard
        history = self._histories.setdefault(shard.rel_path, _History(shard))
        history.tries = shard_try.number
        return history

    def _try_again(self, history: _History, shard_try: ShardTry, *, pause_s: float, alone: bool) -> None:
        again = replace(shard_try, number=shard_try.number + 1, avoid=frozenset(history.places), alone=alone)
        self._again.append((self._clock() + pause_s, again))

    def _given_up(self, history: _History, death: WorkerDeath) -> ShardReport:
        rel_path = history.shard.rel_path
        if death.blameless:
            message = f"{rel_path}: its worker was lost {counted(history.losses, 'time')}; {death.fact}"
        else:
            times = "once" if history.kills == 1 else f"{history.kills} times"
            message = f"{rel_path}: its worker process ended {times}; {death.fact}"
            left_behind = self._explain(rel_path) if self._explain is not None else ""
            if left_behind:
                message += f"; {left_behind}"
            if history.kills >= POISONOUS_KILLS:
                message += "\n  poisonous: not tried any more in this run"
        return ShardReport(
            rel_path=rel_path,
            status="failed",
            bytes_in=history.shard.main.size_bytes,
            attempts=history.tries,
            error=message,
            error_type=death.error_type,
        )
