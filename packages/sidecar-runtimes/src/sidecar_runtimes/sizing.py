"""How many workers and nodes a rate needs: pure arithmetic from a measured or given rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.errors import UsageError
from sidecar_core.problems import counted

if TYPE_CHECKING:
    from sidecar_runtimes.instance_types import InstanceType

RAY_MEMORY_FRACTION = 0.69
"""Share of a node's memory that Ray gives to workers: the rest is its object store and what runs beside."""


@dataclass(frozen=True)
class ObservedRate:
    """What was seen: so many shards a second from so many workers.

    Attributes:
        shards_per_s: shards a second, all workers together.
        workers: actors, or tasks at a time.
    """

    shards_per_s: float
    workers: int = 1


@dataclass(frozen=True)
class WorkerSize:
    """What one actor or task reserves.

    Attributes:
        cpus: cores.
        memory_gib: memory in GiB.
    """

    cpus: int
    memory_gib: float


@dataclass(frozen=True)
class NodeCount:
    """How many nodes of a kind hold the workers.

    Attributes:
        instance: the kind of node.
        memory_fraction: share of its memory that Ray gives to workers.
        workers_by_cpu: workers that a node's cores hold.
        workers_by_memory: workers that its memory holds.
        nodes_by_cpu: nodes that the cores ask for.
        nodes_by_memory: nodes that the memory asks for.
    """

    instance: InstanceType
    memory_fraction: float
    workers_by_cpu: int
    workers_by_memory: int
    nodes_by_cpu: int
    nodes_by_memory: int

    @property
    def nodes(self) -> int:
        """Nodes that hold all workers, by cores and by memory."""
        return max(self.nodes_by_cpu, self.nodes_by_memory)

    @property
    def tighter(self) -> str:
        """Which of the two decides: `memory`, `cpu`, or `both`."""
        if self.workers_by_memory == self.workers_by_cpu:
            return "both"
        return "memory" if self.workers_by_memory < self.workers_by_cpu else "cpu"

    @property
    def workers_a_node(self) -> int:
        """Workers that one node holds."""
        return min(self.workers_by_cpu, self.workers_by_memory)


@dataclass(frozen=True)
class Duration:
    """How long a number of rows takes at a scale, and what the nodes cost.

    Attributes:
        rows: rows to process.
        workers: workers at once.
        nodes: nodes that hold them.
        rows_per_hour: rows an hour.
        hours: wall hours.
        usd: price of the nodes for that time, or None when it is not known.
    """

    rows: int
    workers: int
    nodes: int
    rows_per_hour: float
    hours: float
    usd: float | None


def shards_per_hour(target_rows_per_hour: int, rows_per_shard: int) -> int:
    """Returns the whole shards that hold so many rows."""
    if target_rows_per_hour < 1 or rows_per_shard < 1:
        rows = counted(rows_per_shard, "row")
        raise UsageError(f"{target_rows_per_hour} rows/h in shards of {rows}", "numbers above 0")
    return math.ceil(target_rows_per_hour / rows_per_shard)


def required_workers(target_rows_per_hour: int, rows_per_shard: int, observed: ObservedRate) -> int:
    """Returns the actors (or tasks at a time) that reach a rate, when rates add up as observed.

    `ceil(target_rows_per_hour / rows_per_shard / 3600 / observed.shards_per_s * observed.workers)`

    Raises:
        UsageError: a number is not above 0.
    """
    shards_per_hour(target_rows_per_hour, rows_per_shard)
    if not (math.isfinite(observed.shards_per_s) and observed.shards_per_s > 0 and observed.workers >= 1):
        raise UsageError(
            f"{observed.shards_per_s:g} shards/s from {counted(observed.workers, 'worker')}", "numbers above 0"
        )
    return math.ceil(target_rows_per_hour / rows_per_shard / 3600 / observed.shards_per_s * observed.workers)


def count_nodes(
    workers: int, size: WorkerSize, instance: InstanceType, *, memory_fraction: float = RAY_MEMORY_FRACTION
) -> NodeCount:
    """Returns how many nodes hold the workers, each worker whole on one node; the head is not counted.

    Args:
        workers: actors, or tasks at a time.
        size: what each reserves.
        instance: the kind of node.
        memory_fraction: share of a node's memory that Ray gives to workers, above 0 and at most 1.

    Raises:
        UsageError: not even one worker fits on such a node, or the share is none.
    """
    if not 0 < memory_fraction <= 1:
        raise UsageError(f"memory fraction {memory_fraction:g}", "above 0 and at most 1")
    exposed_gib = instance.memory_gib * memory_fraction
    by_cpu, by_memory = instance.cpus // size.cpus, int(exposed_gib / size.memory_gib)
    if not by_cpu or not by_memory:
        raise UsageError(
            f"a worker of {counted(size.cpus, 'CPU')} and {size.memory_gib:g} GiB does not fit on {instance.name}: "
            f"{counted(instance.cpus, 'CPU')}, and {exposed_gib:.1f} of {instance.memory_gib:g} GiB for workers",
            None,
            "a larger --instance-type, or smaller --actor-cpus and --actor-memory-gb",
        )
    return NodeCount(
        instance=instance,
        memory_fraction=memory_fraction,
        workers_by_cpu=by_cpu,
        workers_by_memory=by_memory,
        nodes_by_cpu=math.ceil(workers / by_cpu),
        nodes_by_memory=math.ceil(workers / by_memory),
    )


def duration(
    rows: int, rows_per_shard: int, observed: ObservedRate, *, workers: int, nodes: int, usd_per_hour: float | None
) -> Duration:
    """Returns how long so many rows take with so many workers.

    Args:
        rows: rows to process.
        rows_per_shard: rows of a shard.
        observed: the measured or given rate.
        workers: workers at once.
        nodes: nodes that hold them.
        usd_per_hour: price of one node and hour in US dollars, or None.
    """
    rows_per_hour = observed.shards_per_s / observed.workers * workers * rows_per_shard * 3600
    hours = rows / rows_per_hour
    return Duration(
        rows=rows,
        workers=workers,
        nodes=nodes,
        rows_per_hour=rows_per_hour,
        hours=hours,
        usd=None if usd_per_hour is None else hours * nodes * usd_per_hour,
    )
