"""A run from its options to its report: plan, refuse what would harm data, process, record."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError
from sidecar_core.execute import RunCancelledError
from sidecar_core.lease import LeaseLostError, lost_lease
from sidecar_core.plan import plan_run
from sidecar_core.storage import open_storage

from sidecar_runtimes.choose import make_runtime
from sidecar_runtimes.disk_space import refuse_small_disk
from sidecar_runtimes.lease import RunLeases, refuse_held
from sidecar_runtimes.manifest import RunManifest, RunTally
from sidecar_runtimes.prefixes import OutputPrefix, resolve_outputs
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.resume import ShardStanding, ShardState, count_states, look_again, stand_of_shards
from sidecar_runtimes.run_options import RunOptions, check_options
from sidecar_runtimes.success import mark_success, remove_success

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.pipeline import Pipeline
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

    from sidecar_runtimes.base import Runtime
    from sidecar_runtimes.progress import RunObserver

__all__ = ["PreparedRun", "RunOptions", "RunReport", "execute_run", "prepare_run", "refuse_to_harm"]

_MIN_ROWS_TO_JUDGE = 1000
_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class PreparedRun:
    """All that is known before the first shard is read; what a dry run shows.

    Attributes:
        plan: the plan.
        prefixes: the effective prefix of each output and who chose it.
        standings: every main shard and what is there of it.
    """

    plan: RunPlan
    prefixes: Mapping[str, OutputPrefix]
    standings: Sequence[ShardStanding]
    options: RunOptions
    main: Storage
    outputs: tuple[Storage, ...]

    @property
    def to_do(self) -> Sequence[PlannedShard]:
        """The shards to process, in order."""
        chosen = [standing.shard for standing in self.standings if _must_make(standing, self.options)]
        return chosen[: self.options.limit]

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
    check_options(options)
    prefixes = resolve_outputs(pipeline, options.output_prefix, options.outputs)
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    shards = main.list_shards(options.input_subprefix, missing_ok=True)
    plan = plan_run(pipeline, main, shards, {name: choice.prefix for name, choice in prefixes.items()})
    outputs = tuple(open_storage(output.prefix, pipeline.dataset.storage) for output in plan.outputs)
    standings = stand_of_shards(plan, main, outputs, shards, trust_listing=options.trust_listing)
    return PreparedRun(plan, prefixes, standings, options, main, outputs)


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
        RefusedError: somebody else writes there, a disk is too small, or shards are there and no option says
            what to do with them.
        LeaseLostError: another run took the lease, or it was not renewed in time; nothing more was committed.
        KeyboardInterrupt: the run was interrupted; nothing partial is left.
    """
    _refuse_states(prepared)
    options = prepared.options
    runtime = runtime or make_runtime(options, prepared.plan.pipeline)
    observer = observer or SilentObserver()
    stop = threading.Event()
    with RunLeases(prepared.plan.run_id, prepared.outputs, options.lease, on_lost=stop.set) as leases:
        # whoever held the leases until now may have made shards, or another pipeline's
        standings = look_again(
            prepared.plan, prepared.main, prepared.outputs, prepared.standings, trust_listing=options.trust_listing
        )
        prepared = replace(prepared, standings=standings, plan=replace(prepared.plan, leased=True))
        _refuse_states(prepared)
        refuse_small_disk(prepared.plan, prepared.to_do, prepared.outputs)
        remove_success(prepared.outputs)
        report = _run_under_leases(prepared, runtime, observer, leases, stop=stop, command=command)
        if report.ok:
            leases.check()
            mark_success(prepared.main, prepared.outputs, report.run_id)
    return report


def _run_under_leases(
    prepared: PreparedRun,
    runtime: Runtime,
    observer: RunObserver,
    leases: RunLeases,
    *,
    stop: threading.Event,
    command: Sequence[str] | None,
) -> RunReport:
    options, to_do = prepared.options, prepared.to_do
    tally = RunTally(planned=prepared.skipped + len(to_do))
    tally.shards["skipped"] = prepared.skipped
    started = time.monotonic()
    stopped: str | None = None
    numbers = {"name": runtime.name, **runtime.describe()}
    with RunManifest(prepared.plan, prepared.outputs, tally, runtime=numbers, command=command) as manifest:
        observer.started(len(to_do), prepared.skipped)
        try:
            for report in runtime.run(prepared.plan, to_do, observer, stop=stop):
                if report.error_type == LeaseLostError.__name__:
                    leases.lose(_lost_by_report(prepared, report))
                    continue
                tally.add(report)
                if report.status == "failed":
                    _logger.error("%s failed: %s", report.rel_path, report.error)
                if stopped is None:
                    stopped = _why_stop(tally, options)
                    if stopped is not None:
                        stop.set()
        except RunCancelledError:
            if leases.lost is None:
                raise
        finally:
            observer.finished()
        if leases.lost is not None:
            manifest.finish("lost_lease")
            raise leases.lost
        manifest.finish("failed" if tally.failed or stopped else "done")
    return RunReport(
        run_id=prepared.plan.run_id,
        prefixes={output.name: output.prefix for output in prepared.plan.outputs},
        shards={
            **{status: tally.shards[status] for status in ("done", "skipped", "failed")},
            "not_reached": len(to_do) - tally.shards["done"] - tally.shards["failed"],
        },
        rows=tally.rows,
        invalid={name: dict(reasons) for name, reasons in tally.invalid.items()},
        failed=tuple(tally.failed),
        stopped=stopped,
        elapsed_s=time.monotonic() - started,
    )


def refuse_to_harm(prepared: PreparedRun) -> None:
    """Raises RefusedError when somebody writes there now, or the options do not say what to do with what is there."""
    refuse_held(prepared.outputs, prepared.options.lease)
    _refuse_states(prepared)


def _refuse_states(prepared: PreparedRun) -> None:
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


def _lost_by_report(prepared: PreparedRun, report: ShardReport) -> LeaseLostError:
    """Returns the error of a worker that found out first, which arrives as text."""
    prefix = ", ".join(output.prefix for output in prepared.plan.outputs)
    return lost_lease(prefix, prepared.plan.run_id, f"{report.rel_path} was not committed: {report.error}")


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
