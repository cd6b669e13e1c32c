"""What an isolation pool is told, and what it counts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from sidecar_core.errors import UsageError


def available_cores() -> int:
    """Returns the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class IsolationOptions:
    """How isolated children are run.

    Attributes:
        workers: children at most; they are started when there is work for them. Default: the cores of this process.
        memory_cap_bytes: what a child may map beyond what it had mapped when the function to be called was
            loaded (address space, RLIMIT_AS). Best effort on macOS, which does not enforce it.
        recycle_rows: rows after which a child is replaced, so that leaks of native code stay small.
        env: environment variables for the children, beside the parent's.
        start_timeout_s: seconds that a child has to start, and to load a function, before it is killed.
    """

    workers: int = field(default_factory=available_cores)
    memory_cap_bytes: int = 4 << 30
    recycle_rows: int = 5000
    env: tuple[tuple[str, str], ...] = ()
    start_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("workers", "memory_cap_bytes", "recycle_rows", "start_timeout_s"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} is {getattr(self, name)!r}", expected="a number above 0")


@dataclass
class PoolCounters:
    """What has happened in a pool so far.

    Attributes:
        started: children that reported for work.
        recycled: children replaced after `recycle_rows` rows, or after a row that exhausted memory.
        stalled: children killed because they did not start, load or answer in time outside of a row.
        rows: rows answered, with a value or a failure.
        errors: rows whose function raised.
        timeouts: rows that took too long; each cost a child.
        out_of_memory: rows that reached the memory cap.
        crashed: rows condemned after their second crash.
        retried: rows run again, alone, after their first crash.
        deaths: children that ended by themselves, by signal name (`SIGSEGV`) or exit status (`exit 3`).
    """

    started: int = 0
    recycled: int = 0
    stalled: int = 0
    rows: int = 0
    errors: int = 0
    timeouts: int = 0
    out_of_memory: int = 0
    crashed: int = 0
    retried: int = 0
    deaths: dict[str, int] = field(default_factory=dict[str, int])
