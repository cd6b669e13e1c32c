"""A measured run of a few shards on this machine, whose output is thrown away."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.errors import ShardError, UsageError
from sidecar_core.problems import counted

from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.run import execute_run, prepare_run
from sidecar_runtimes.run_options import RunOptions

if TYPE_CHECKING:
    from sidecar_core.pipeline import Pipeline
    from sidecar_core.storage import ObjectInfo

_MAXRSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class SmokeReport:
    """What a few shards took.

    Attributes:
        first_shard: the first main shard that was read.
        shards: shards that were made.
        rows: their rows.
        invalid_rows: those of them that could not be used.
        workers: child processes that computed.
        wall_s: seconds from the first batch's end to the last's, or of the whole run when it had one batch only.
        rows_per_s: rows a second in that time, all workers together.
        cpu_s: CPU seconds of all processes, the starting of children included.
        main_peak_bytes: most resident memory of this process so far.
        worker_peak_bytes: most resident memory of any child process that has ended.
    """

    first_shard: ObjectInfo
    shards: int
    rows: int
    invalid_rows: int
    workers: int
    wall_s: float
    rows_per_s: float
    cpu_s: float
    main_peak_bytes: int
    worker_peak_bytes: int

    @property
    def rows_per_s_per_core(self) -> float:
        """Rows a second of one worker on one core."""
        return self.rows_per_s / self.workers

    @property
    def rows_per_shard(self) -> float:
        """Mean rows of a shard."""
        return self.rows / self.shards

    def memory_bytes(self, cpus: int) -> int:
        """Returns the peak memory of an actor or task with so many cores: itself, and a child for each."""
        return self.main_peak_bytes + cpus * self.worker_peak_bytes


class _Clock(SilentObserver):
    """Notes when batches end; the first one bears the start of the children."""

    def __init__(self) -> None:
        self.rows = self.first_rows = 0
        self.invalid = 0
        self.first_s = self.last_s = 0.0

    def rows_done(self, rows: int, invalid: int) -> None:
        self.last_s = time.monotonic()
        if not self.rows:
            self.first_s, self.first_rows = self.last_s, rows
        self.rows += rows
        self.invalid += invalid


def run_smoke(pipeline: Pipeline, *, shards: int, workers: int) -> SmokeReport:
    """Runs the first shards of a pipeline with the local runtime into a temporary folder, and measures.

    Args:
        pipeline: what to run; nothing is written to its own prefixes.
        shards: how many shards.
        workers: child processes.

    Raises:
        UsageError: there are no shards, or these hold no row.
        ShardError: a shard failed, with its error.
    """
    clock = _Clock()
    with tempfile.TemporaryDirectory(prefix="sidecar-smoke-") as folder:
        options = RunOptions(
            outputs={output.name: f"{folder}/{output.name}/" for output in pipeline.outputs},
            limit=shards,
            workers=workers,
            runtime="local",
        )
        prepared = prepare_run(pipeline, options)
        cpu_before, started = _cpu_s(), time.monotonic()
        # one shard after the other: of two at once, the second's rows would be begun before the first batch ends
        runtime = LocalRuntime(workers=workers, retries=0, shards_at_once=1)
        report = execute_run(prepared, runtime=runtime, observer=clock)
        wall_s, cpu_s = time.monotonic() - started, _cpu_s() - cpu_before
    if report.failed:
        failed = report.failed[0]
        raise ShardError(f"{failed.rel_path}: {failed.error}", None, "sidecar run --limit, then --skip-existing")
    if not clock.rows:
        looked_at = counted(report.shards["done"], "shard")
        raise UsageError(f"no row to measure in {looked_at} of {pipeline.dataset.main_prefix}", fix="a larger --smoke")
    steady_rows, steady_s = clock.rows - clock.first_rows, clock.last_s - clock.first_s
    if not (steady_rows and steady_s):
        steady_rows, steady_s = clock.rows, wall_s
    return SmokeReport(
        first_shard=prepared.to_do[0].main,
        shards=report.shards["done"],
        rows=clock.rows,
        invalid_rows=clock.invalid,
        workers=workers,
        wall_s=steady_s,
        rows_per_s=steady_rows / steady_s,
        cpu_s=cpu_s,
        main_peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT_BYTES,
        worker_peak_bytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _MAXRSS_UNIT_BYTES,
    )


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
