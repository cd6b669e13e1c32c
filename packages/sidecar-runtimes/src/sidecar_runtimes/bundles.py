"""What a worker reserves on a node of a cluster, and what nodes can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sidecar_core.errors import UsageError

GIB = 2**30
_MAX_MEMORY_GB = 1 << 20  # Ray runs what overflows its integers, whatever memory there is


@dataclass(frozen=True)
class Bundle:
    """What one worker reserves on a node.

    Attributes:
        what: `task` or `actor`, for messages.
        cpus: cores.
        memory_gb: memory in GiB, or None to reserve none.
        flags: the options that decide it, for messages.
    """

    what: str
    cpus: int
    memory_gb: float | None
    flags: str

    @property
    def memory_bytes(self) -> int | None:
        """The memory in bytes."""
        return None if self.memory_gb is None else int(self.memory_gb * GIB)

    def ray_options(self) -> dict[str, Any]:
        """Returns the options for `ray.remote`."""
        memory = {} if self.memory_bytes is None else {"memory": self.memory_bytes}
        return {"num_cpus": self.cpus, **memory}

    def __str__(self) -> str:
        memory = "" if self.memory_gb is None else f" and {self.memory_gb:g} GiB"
        return f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}{memory}"


@dataclass(frozen=True)
class NodeSize:
    """What a node offers in all: cores, and the bytes of memory that Ray gives to workers."""

    name: str
    cpus: float
    memory_bytes: float

    def holds(self, bundle: Bundle) -> int:
        """Returns how many such bundles fit on the empty node."""
        by_cpus = self.cpus / bundle.cpus
        by_memory = self.memory_bytes / bundle.memory_bytes if bundle.memory_bytes else by_cpus
        return int(min(by_cpus, by_memory))

    def __str__(self) -> str:
        return f"{self.name}: {self.cpus:g} CPUs, {self.memory_bytes / GIB:.1f} GiB"


def checked_bundle(what: str, cpus: int, memory_gb: float | None, *, flags: tuple[str, str]) -> Bundle:
    """Returns a bundle of which Ray's integers can hold the numbers.

    Args:
        what: `task` or `actor`.
        cpus: cores, at least 1.
        memory_gb: memory in GiB, or None.
        flags: the names of the two options.

    Raises:
        UsageError: a number makes no sense.
    """
    if cpus < 1:
        raise UsageError(f"{flags[0]} {cpus}: must be at least 1")
    if memory_gb is not None and not 0 < memory_gb <= _MAX_MEMORY_GB:
        raise UsageError(f"{flags[1]} {memory_gb:g}: must be above 0 and at most {_MAX_MEMORY_GB}")
    return Bundle(what, cpus, memory_gb, " or ".join(flags) if memory_gb is not None else flags[0])
