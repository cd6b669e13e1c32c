"""A run from its options to its report: plan, refuse what would harm data, process, record."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.plan import plan_run
from sidecar_core.storage import open_storage

from sidecar_runtimes.choose import make_runtime
from sidecar_runtimes.manifest import RunManifest, RunTally
from sidecar_runtimes.prefixes import OutputPrefix, resolve_outputs
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.resume import ShardStanding, ShardState, count_states, stand_of_shards

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.pipeline import Pipeline
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

    from sidecar_runtimes.base import Runtime
    from sidecar_runtimes.progress import RunObserver

_MIN_ROWS_TO_JUDGE = 1000
_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class RunOptions:
    """How a pipeline is run; names as on the command line.

    Attributes:
        output_prefix: where the single output goes instead of a new sibling of the sidecar prefix.
        outputs: where named outputs go instead of their prefix in the pipeline.
        input_subprefix: only main shards below this; paths stay relative to the main prefix.
        skip_existing: leave the shards that are done, make the rest.
        redo_stale: with skip_existing, make stale shards again.
        keep_stale: with skip_existing, leave stale shards as they are.
        overwrite: replace every shard that is there.
        limit: process at most this many shards.
        runtime: `auto`, `local`, `ray` or `actor`; see `choose_runtime`.
        ray_address: of a cluster; default what RAY_ADDRESS says, else one on this machine alone.
        workers: isolated child processes of each worker; default the machine's cores, on Ray those reserved.
        task_cpus: cores that a Ray task reserves; default 1.
        task_memory_gb: memory in GiB that a Ray task reserves; default none.
        max_inflight: Ray tasks submitted at a time; default twice what the cluster holds, at least 16.
        num_actors: Ray actors; default as many as the cluster holds.
        actor_cpus: cores that a Ray actor reserves; default 1.
        actor_memory_gb: memory in GiB that a Ray actor reserves; default none.
        per_actor_inflight: shards that a Ray actor has at a time; default 2.
        retries: further attempts for a shard whose error may pass.
        max_invalid_fraction: stop once more than this share of at least 1,000 rows is invalid.
        max_failed_shards: stop once more than this many shards were given up.
    """

    output_prefix: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    input_subprefix: str = ""
    skip_existing: bool = False
    redo_stale: bool = False
    keep_stale: bool = False
    overwrite: bool = False
    limit: int | None = None
    runtime: str = "auto"
    ray_address: str | None = None
    workers: int | None = None
    task_cpus: int | None = None
    task_memory_gb: float | None = None
    max_inflight: int | None = None
    num_actors: int | None = None
    actor_cpus: int | None = None
    actor_memory_gb: float | None = None
    per_actor_inflight: int | None = None
    retries: int = 2
    max_invalid_fraction: float | None = None
    max_failed_shards: int | None = None


@dataclass(frozen=True)
class PreparedRun:
    """All that is known before the first shard is read; what a dry run shows.

    Attributes:
        plan: the plan.
        prefixes: the effective prefix of each output and who chose it.
        standings: every main shard and what is there of it.
        to_do: the shards to process, in order.
    """

    plan: RunPlan
    prefixes: Mapping[str, OutputPrefix]
    standings: Sequence[ShardStanding]
    to_do: Sequence[PlannedShard]
    options: RunOptions
    main: Storage
    outputs: tuple[Storage, ...]

    @property
    def states(self) -> dict[str, int]:
        """The number of shards in each state."""
        return count_states(self.standings)

    @property
    def skipped(self) -> int:
        """Shards that this run leaves as they are because they are there."""
        return len(self.standings) - sum(1 for standing in self.standings if _must_make(standing, self.options))

    @property
    def bytes_to_read(self) -> int:
        """Total size of the main shards to process; an upper bound of what is read."""
        return sum(shard.main.size_bytes for shard in self.to_do)


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes:
        run_id: the run's id; its manifest is `_sidecar/runs/<run_id>.json` in each output.
        prefixes: where each output was written.
        shards: shards by outcome: done, skipped, failed, and `not_reached` for those after an early stop.
        rows: rows of the committed shards.
        invalid: per output, invalid rows by reason.
        failed: reports of the shards that were given up.
        stopped: why the run ended early, or None.
        elapsed_s: wall time.
    """

    run_id: str
    prefixes: Mapping[str, str]
    shards: Mapping[str, int]
    rows: int
    invalid: Mapping[str, Mapping[str, int]]
    failed: Sequence[ShardReport]
    stopped: str | None
    elapsed_s: float

    @property
    def ok(self) -> bool:
        """Whether every shard is there now."""
        return not self.failed and self.stopped is None


def prepare_run(pipeline: Pipeline, options: RunOptions) -> PreparedRun:
    """Plans a run and looks at what is there; reads footers only.

    Raises:
        UsageError: options that contradict each other, no shards, no readable shard.
        ConfigError: the main dataset's columns do not fit the pipeline.
        RefusedError: an output prefix overlaps another dataset.
    """
    _check_options(options)
    prefixes = resolve_outputs(pipeline, options.output_prefix, options.outputs)
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    shards = main.list_shards(options.input_subprefix, missing_ok=True)
    plan = plan_run(pipeline, main, shards, {name: choice.prefix for name, choice in prefixes.items()})
    outputs = tuple(open_storage(output.prefix, pipeline.dataset.storage) for output in plan.outputs)
    standings = stand_of_shards(plan, main, outputs, shards)
    to_do = [standing.shard for standing in standings if _must_make(standing, options)]
    return PreparedRun(plan, prefixes, standings, to_do[: options.limit], options, main, outputs)


def execute_run(
    prepared: PreparedRun,
    *,
    runtime: Runtime | None = None,
    observer: RunObserver | None = None,
    command: Sequence[str] | None = None,
) -> RunReport:
    """Processes the shards of a prepared run.

    Args:
        prepared: what `prepare_run` returned.
        runtime: where shards are processed; default the one that the options name.
        observer: told of progress; default nobody.
        command: the command line for the manifest; default this process's.

    Returns:
        The report; failed shards do not raise.

    Raises:
        RefusedError: shards are there, and no option says what to do with them.
        KeyboardInterrupt: the run was interrupted; nothing partial is left.
    """
    refuse_to_harm(prepared)
    options = prepared.options
    runtime = runtime or make_runtime(options, prepared.plan.pipeline)
    observer = observer or SilentObserver()
    tally = RunTally()
    tally.shards["skipped"] = prepared.skipped
    started = time.monotonic()
    stopped: str | None = None
    stop = threading.Event()
    numbers = {"name": runtime.name, **runtime.describe()}
    with RunManifest(prepared.plan, prepared.outputs, tally, runtime=numbers, command=command) as manifest:
        observer.started(len(prepared.to_do), prepared.skipped)
        try:
            for report in runtime.run(prepared.plan, prepared.to_do, observer, stop=stop):
                tally.add(report)
                if report.status == "failed":
                    _logger.error("%s failed: %s", report.rel_path, report.error)
                if stopped is None:
                    stopped = _why_stop(tally, options)
                    if stopped is not None:
                        stop.set()
        finally:
            observer.finished()
        manifest.finish("failed" if tally.failed or stopped else "done")
    return RunReport(
        run_id=prepared.plan.run_id,
        prefixes={output.name: output.prefix for output in prepared.plan.outputs},
        shards={
            **{status: tally.shards[status] for status in ("done", "skipped", "failed")},
            "not_reached": len(prepared.to_do) - tally.shards["done"] - tally.shards["failed"],
        },
        rows=tally.rows,
        invalid={name: dict(reasons) for name, reasons in tally.invalid.items()},
        failed=tuple(tally.failed),
        stopped=stopped,
        elapsed_s=time.monotonic() - started,
    )


def refuse_to_harm(prepared: PreparedRun) -> None:
    """Raises RefusedError when shards are there that the options do not say what to do with."""
    options, states = prepared.options, prepared.states
    where = ", ".join(output.prefix for output in prepared.plan.outputs)
    there = sum(states.values()) - states[ShardState.MISSING]
    if there and not (options.skip_existing or options.overwrite):
        raise RefusedError(
            f"{where} already holds {there} of the {len(prepared.standings)} shards",
            "an empty output prefix, or an option that says what to do with what is there",
            "--skip-existing to go on with what is missing, --overwrite to replace all, or another --output-prefix",
        )
    if states[ShardState.STALE] and options.skip_existing and not (options.redo_stale or options.keep_stale):
        first = next(standing for standing in prepared.standings if standing.state is ShardState.STALE)
        raise RefusedError(
            f"{where}: {states[ShardState.STALE]} of the {there} shards there are stale; "
            f"{first.shard.rel_path}: {first.why}",
            None,
            "--redo-stale to make them again, --keep-stale to leave them, or another --output-prefix",
        )


def _must_make(standing: ShardStanding, options: RunOptions) -> bool:
    if options.overwrite or standing.state in (ShardState.MISSING, ShardState.PARTIAL):
        return True
    return standing.state is ShardState.STALE and options.redo_stale


def _check_options(options: RunOptions) -> None:
    if options.overwrite and options.skip_existing:
        raise UsageError("--overwrite and --skip-existing contradict each other", "one of them")
    if options.redo_stale and options.keep_stale:
        raise UsageError("--redo-stale and --keep-stale contradict each other", "one of them")
    if (options.redo_stale or options.keep_stale) and not options.skip_existing:
        raise UsageError("--redo-stale and --keep-stale need --skip-existing", fix="--skip-existing")
    for name in ("limit", "workers"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} {value}: must be at least 1")
    if options.max_invalid_fraction is not None and not 0 <= options.max_invalid_fraction <= 1:
        raise UsageError(f"--max-invalid-fraction {options.max_invalid_fraction}: must be from 0 to 1")


def _why_stop(tally: RunTally, options: RunOptions) -> str | None:
    """Returns why the run must end before its last shard, or None."""
    if options.max_failed_shards is not None and len(tally.failed) > options.max_failed_shards:
        return f"{len(tally.failed)} shards failed, more than --max-failed-shards {options.max_failed_shards}"
    limit = options.max_invalid_fraction
    if limit is None or tally.rows < _MIN_ROWS_TO_JUDGE or tally.invalid_rows <= limit * tally.rows:
        return None
    worst = max(tally.invalid.values(), key=lambda reasons: reasons.total())
    reasons = ", ".join(f"{reason} {count}" for reason, count in worst.most_common(3))
    share = tally.invalid_rows / tally.rows
    return f"{share:.1%} of {tally.rows} rows are invalid, more than --max-invalid-fraction {limit}: {reasons}"
