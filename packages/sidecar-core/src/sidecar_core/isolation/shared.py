"""One isolation pool a process for each set of options, and the call that needs no pool at hand."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

from sidecar_core.isolation.options import IsolationOptions
from sidecar_core.isolation.pool import IsolationPool

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

_lock = threading.Lock()
_pools: dict[tuple[int, IsolationOptions], IsolationPool] = {}


def shared_pool(options: IsolationOptions | None = None) -> IsolationPool:
    """Returns this process's pool with these options, which it closes at exit; a closed one is replaced.

    Args:
        options: as for `IsolationPool`; None for the defaults.
    """
    key = (os.getpid(), options or IsolationOptions())
    with _lock:
        pool = _pools.get(key)
        if pool is None or pool.closed:
            pool = _pools[key] = IsolationPool(key[1])
        return pool


def submit_call(fn: Callable[..., Result], *args: object, timeout: float = 60.0) -> Result:
    """Returns `fn(*args)`, computed in a child of the shared pool; see `IsolationPool.call`.

    Args:
        fn: a function that a child can import.
        args: values that can be pickled.
        timeout: seconds from the moment when the child begins.

    Raises:
        WorkerCallFailed: the child crashed, took too long or ran out of memory.
        Exception: whatever `fn` raises.
    """
    return shared_pool().call(fn, *args, timeout_s=timeout)


def _after_fork() -> None:
    """A forked copy has no owner threads, and perhaps a lock that was held."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_after_fork)
