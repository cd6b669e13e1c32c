"""Calls in child processes, where an abort, a hang or a memory blow-up costs one row and not the shard.

The names are loaded on first use: a child imports this package too, and must start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar_core.isolation.child import native_stderr
    from sidecar_core.isolation.options import IsolationOptions, PoolCounters
    from sidecar_core.isolation.pool import IsolationPool
    from sidecar_core.isolation.shared import shared_pool, submit_call

__all__ = ["IsolationOptions", "IsolationPool", "PoolCounters", "native_stderr", "shared_pool", "submit_call"]

_HOMES = {
    "IsolationOptions": "options",
    "IsolationPool": "pool",
    "PoolCounters": "options",
    "native_stderr": "child",
    "shared_pool": "shared",
    "submit_call": "shared",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
