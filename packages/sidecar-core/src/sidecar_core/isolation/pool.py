"""A pool of isolated children, and the calls that go through it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Self, TypeVar

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation.desk import Desk
from sidecar_core.isolation.jobs import Job
from sidecar_core.isolation.options import IsolationOptions, PoolCounters
from sidecar_core.isolation.verdicts import own_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType


Result = TypeVar("Result")


class IsolationPool:
    """Child processes in which functions run that may abort, hang or exhaust memory.

    Each child is a fresh interpreter with a socket of its own, so that what happens to one touches no
    other. It never imports the program's `__main__`: functions and the classes of their arguments and
    results must be importable. Children start when there is work for them, and end with the pool, with
    this process, or when the pool is garbage. All methods may be called from several threads at once;
    rows of several calls take turns.

    Args:
        options: number of children, memory cap, environment.
    """

    def __init__(self, options: IsolationOptions | None = None) -> None:
        self.options: IsolationOptions = options or IsolationOptions()
        self._desk = Desk(self.options, PoolCounters())
        self._close = weakref.finalize(self, self._desk.close)

    def call(self, fn: Callable[..., Result], *args: object, timeout_s: float = 60.0) -> Result:
        """Returns `fn(*args)`, computed in a child.

        Args:
            fn: a function that a child can import.
            args: values that can be pickled; memoryviews and buffers arrive as bytes.
            timeout_s: seconds from the moment when the child begins.

        Raises:
            WorkerCallFailed: the child crashed (twice: a crash is tried again), took too long or ran out
                of memory; cause `error` when `fn` raised something that this process cannot unpickle.
            UsageError: `fn` or an argument cannot be sent to a child.
            IsolationError: the pool is closed, or children cannot be started or cannot import `fn`.
            Exception: whatever else `fn` raises, with the child's traceback as a note.
        """
        (result,) = self._results(Job(fn, [args], common=None, spread=True, timeout_s=timeout_s))
        if isinstance(result, WorkerCallFailed):
            raise own_exception(result) or result
        return result  # pyright: ignore[reportReturnType] - the child's word

    def map_rows(
        self,
        fn: Callable[..., object],
        rows: Iterable[object],
        *,
        common: object = None,
        timeout_s: float = 60.0,
    ) -> list[object]:
        """Returns `fn(row, common)` for each row, in order, computed in children.

        A row that crashes its child, takes too long, exhausts memory or raises is one `WorkerCallFailed`
        in the list; the others have their values, each computed once. A row that crashed is run once more,
        alone in a fresh child, before it is given up.

        Args:
            fn: a function that a child can import.
            rows: values that can be pickled; large bytes are not copied on their way, memoryviews and
                read-only buffers arrive as bytes.
            common: sent once to each child.
            timeout_s: seconds for one row, from the moment when its child begins it.

        Raises:
            UsageError: `fn`, `common` or a row cannot be sent to a child.
            IsolationError: the pool is closed, or children cannot be started or cannot import `fn`.
        """
        return self._results(Job(fn, list(rows), common=common, spread=False, timeout_s=timeout_s))

    def close(self) -> None:
        """Ends the children at once; calls in other threads raise IsolationError. May be called again."""
        self._close()

    @property
    def closed(self) -> bool:
        """Whether the pool takes no more calls."""
        return self._desk.closed

    @property
    def counters(self) -> PoolCounters:
        """What has happened so far (a copy)."""
        return self._desk.counters()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _results(self, job: Job) -> list[object]:
        try:
            self._desk.submit(job)
            return job.wait()
        finally:  # also when Ctrl-C interrupts the wait
            self._desk.discard(job)
