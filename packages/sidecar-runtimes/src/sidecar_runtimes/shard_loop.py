"""Shards through a runtime under leases: counted, recorded, and stopped early when they go wrong."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.errors import LeaseLostError
from sidecar_core.execute import RunCancelledError
from sidecar_core.lease import lost_lease
from sidecar_core.problems import counted

from sidecar_runtimes.manifest import RunManifest, RunTally

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

    from sidecar_runtimes.base import Runtime
    from sidecar_runtimes.lease import RunLeases
    from sidecar_runtimes.progress import RunObserver
    from sidecar_runtimes.run_options import RunOptions

_MIN_ROWS_TO_JUDGE = 1000
_logger = logging.getLogger("sidecar")


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
        stopped: why the run ended early, or is not recorded whole; None when neither holds.
        elapsed_s: wall time in seconds.
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


@dataclass(frozen=True)
class RunWork:
    """What a run does under its leases.

    Attributes:
        plan: the run's plan.
        outputs: the storages of its outputs.
        shards: what to process.
        limits: when to stop early: max_invalid_fraction, max_failed_shards.
        skipped: shards that are left as they are.
        command: the command line for the manifest; default this process's.
        retried: the reasons of a retry.
        remarks: what the manifest says besides.
        replaces: whether shards that were there before are replaced, whatever made them.
    """

    plan: RunPlan
    outputs: Sequence[Storage]
    shards: Sequence[PlannedShard]
    limits: RunOptions
    skipped: int = 0
    command: Sequence[str] | None = None
    retried: Sequence[str] = ()
    remarks: Sequence[str] = ()
    replaces: bool = False


def process_shards(
    work: RunWork, runtime: Runtime, observer: RunObserver, leases: RunLeases, *, stop: threading.Event
) -> RunReport:
    """Has a runtime process shards, and keeps the manifest.

    Args:
        work: what to do.
        runtime: where.
        observer: told of progress.
        leases: of the outputs, held.
        stop: set when the run must end; the loss of a lease sets it too.

    Returns:
        The report; failed shards do not raise.

    Raises:
        LeaseLostError: another run took a lease, or it was not renewed in time.
    """
    plan, shards = work.plan, work.shards
    tally = RunTally(planned=work.skipped + len(shards))
    tally.shards["skipped"] = work.skipped
    started = time.monotonic()
    stopped: str | None = None
    numbers = {"name": runtime.name, **runtime.describe()}
    manifest = RunManifest(
        plan,
        work.outputs,
        tally,
        runtime=numbers,
        command=work.command,
        retried=work.retried,
        remarks=work.remarks,
        replaces=work.replaces,
    )
    with manifest:
        observer.started(len(shards), work.skipped)
        try:
            for report in runtime.run(plan, shards, observer, stop=stop):
                if report.error_type == LeaseLostError.__name__:
                    leases.lose(_lost_by_report(plan, report))
                    continue
                tally.add(report)
                if report.status == "failed":
                    _logger.error("%s failed: %s", report.rel_path, report.error)
                if stopped is None:
                    stopped = _why_stop(tally, work.limits)
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
        run_id=plan.run_id,
        prefixes={output.name: output.prefix for output in plan.outputs},
        shards={
            **{status: tally.shards[status] for status in ("done", "skipped", "failed")},
            "not_reached": len(shards) - tally.shards["done"] - tally.shards["failed"],
        },
        rows=tally.rows,
        invalid={name: dict(reasons) for name, reasons in tally.invalid.items()},
        failed=tuple(tally.failed),
        stopped=stopped or manifest.problem,
        elapsed_s=time.monotonic() - started,
    )


def _lost_by_report(plan: RunPlan, report: ShardReport) -> LeaseLostError:
    """Returns the error of a worker that found out first, which arrives as text."""
    prefix = ", ".join(output.prefix for output in plan.outputs)
    return lost_lease(prefix, plan.run_id, f"{report.rel_path} was not committed: {report.error}")


def _why_stop(tally: RunTally, options: RunOptions) -> str | None:
    """Returns why the run must end before its last shard, or None."""
    if options.max_failed_shards is not None and len(tally.failed) > options.max_failed_shards:
        return (
            f"{counted(len(tally.failed), 'shard')} failed, more than --max-failed-shards {options.max_failed_shards}"
        )
    limit = options.max_invalid_fraction
    if limit is None or tally.rows < _MIN_ROWS_TO_JUDGE or tally.invalid_rows <= limit * tally.rows:
        return None
    worst = max(tally.invalid.values(), key=lambda reasons: reasons.total())
    reasons = ", ".join(f"{reason} {count}" for reason, count in worst.most_common(3))
    share = tally.invalid_rows / tally.rows
    return (
        f"{share:.1%} of {counted(tally.rows, 'row')} are invalid, more than --max-invalid-fraction {limit}: {reasons}"
    )
