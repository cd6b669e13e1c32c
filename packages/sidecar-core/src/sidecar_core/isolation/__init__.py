"""Calls in child processes, where an abort, a hang or a memory blow-up costs one row and not the shard.

The names are loaded on first use: a child imports this package too, and must start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_core.isolation.child import native_stderr
    from sidecar_core.isolation.options import IsolationOptions, PoolCounters
    from sidecar_core.isolation.pool import IsolationPool
    from sidecar_core.isolation.shared import shared_pool, submit_call
    from sidecar_core.isolation.steps import note_step

__all__ = [
    "IsolationOptions",
    "IsolationPool",
    "PoolCounters",
    "native_stderr",
    "note_step",
    "shared_pool",
    "submit_call",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "child": ["native_stderr"],
        "options": ["IsolationOptions", "PoolCounters"],
        "pool": ["IsolationPool"],
        "shared": ["shared_pool", "submit_call"],
        "steps": ["note_step"],
    },
)
