"""Where a pool's callers leave rows and its owner threads fetch them: the only state that threads share."""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sidecar_core.errors import IsolationError, WorkerCallFailed
from sidecar_core.isolation.jobs import Job, Row
from sidecar_core.isolation.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar_core.isolation.options import IsolationOptions, PoolCounters

_START_ATTEMPTS: Final = 3
_LONGEST_CLOSE_S: Final = 10.0


class Desk:
    """The queue, the owner threads and the counters of one pool."""

    def __init__(self, options: IsolationOptions, counters: PoolCounters) -> None:
        self.options = options
        self.closed = False
        self._counters = counters
        self._lock = threading.RLock()  # re-entrant: a signal handler may close the pool
        self._work = threading.Condition(self._lock)
        self._jobs: deque[Job] = deque()  # those with pending rows, the next to be served first
        self._active: set[Job] = set()
        self._owners: list[Owner] = []
        self._idle = 0
        self._start_failures = 0
        self._pid = os.getpid()

    # For callers.

    def submit(self, job: Job) -> None:
        """Queues a job's rows. Raises IsolationError when the pool was closed."""
        with self._lock:
            if self.closed or os.getpid() != self._pid:
                raise IsolationError(f"{job.name} was called through an isolation pool that is closed")
            if job.over:
                return
            self._active.add(job)
            self._jobs.append(job)
            waiting = sum(len(queued.pending) for queued in self._jobs)
            for _ in range(min(waiting - self._idle, self.options.workers - len(self._owners))):
                owner = Owner(self)
                owner.start()
                self._owners.append(owner)
            self._work.notify(waiting)

    def discard(self, job: Job) -> None:
        """Ends a job whose caller has been interrupted, or takes note that it is over."""
        with self._lock:
            job.cancel()
            self._drop(job)

    def counters(self) -> PoolCounters:
        """Returns a copy of the counters."""
        with self._lock:
            return replace(self._counters, deaths=dict(self._counters.deaths))

    def close(self) -> None:
        """Ends all children; calls that wait raise IsolationError. Does nothing in a forked copy of the process."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self.closed = True
            self._fail_all("the isolation pool was closed before all rows had been answered")
            self._work.notify_all()
            owners = list(self._owners)
        for owner in owners:
            owner.hang_up()
        for owner in owners:
            if owner is not threading.current_thread():
                owner.join(_LONGEST_CLOSE_S)

    # For owners.

    def wait_for_work(self) -> bool:
        """Returns True once there are rows to be had, False once the pool is closed."""
        with self._lock:
            self._idle += 1
            try:
                while not self._jobs and not self.closed:
                    self._work.wait()
            finally:
                self._idle -= 1
            return not self.closed

    def take(self, in_flight: int) -> Row | None:
        """Returns the next row, of the job whose turn it is, or None.

        Args:
            in_flight: rows that the asking child already has. Towards the end of the queue it gets no
                more before it has answered them, so that all children finish together.
        """
        with self._lock:
            if in_flight:
                left = sum(len(job.pending) for job in self._jobs)
                if in_flight >= left / (2 * self.options.workers):
                    return None
            while self._jobs:
                job = self._jobs.popleft()
                if not job.pending:
                    continue
                row = Row(job, job.pending.popleft())
                if job.pending:
                    self._jobs.append(job)
                return row
            return None

    def give_back(self, rows: Iterable[Row]) -> None:
        """Puts rows that were sent and not computed back, to be the next."""
        with self._lock:
            for row in reversed(list(rows)):
                if not row.job.over:
                    row.job.pending.appendleft(row.index)
                    if row.job not in self._jobs:
                        self._jobs.appendleft(row.job)
            self._work.notify_all()

    def settle(self, row: Row, result: object) -> None:
        """Takes a row's value or failure."""
        with self._lock:
            if row.job.over:  # nobody waits for it any more
                return
            if isinstance(result, WorkerCallFailed):
                self._add({"error": "errors", "timeout": "timeouts"}.get(result.cause, result.cause))
            self._counters.rows += 1
            row.job.settle(row.index, result)
            if row.job.over:
                self._drop(row.job)

    def fail(self, job: Job, error: Exception) -> None:
        """Gives a job up."""
        with self._lock:
            job.fail(error)
            self._drop(job)

    def count(self, name: str) -> None:
        """Adds 1 to the counter `name`."""
        with self._lock:
            self._add(name)

    def _add(self, name: str) -> None:
        setattr(self._counters, name, getattr(self._counters, name) + 1)

    def count_death(self, label: str) -> None:
        """Counts a child that ended by itself."""
        with self._lock:
            deaths = self._counters.deaths
            deaths[label] = deaths.get(label, 0) + 1

    def started(self) -> None:
        """Takes note of a child that reported for work."""
        with self._lock:
            self._counters.started += 1
            self._start_failures = 0

    def start_failed(self, fact: str, output: str) -> None:
        """Takes note of a child that could not be started; the third in a row fails everything that waits."""
        with self._lock:
            self._start_failures += 1
            if self._start_failures >= _START_ATTEMPTS:
                self._start_failures = 0
                said = f"; it wrote: {output}" if output else ""
                self._fail_all(f"no isolated child could be started in {_START_ATTEMPTS} attempts: {fact}{said}")

    def _fail_all(self, fact: str) -> None:
        for job in self._active:
            job.fail(IsolationError(fact))
        self._active.clear()
        self._jobs.clear()

    def _drop(self, job: Job) -> None:
        self._active.discard(job)
        if job in self._jobs:
            self._jobs.remove(job)
