"""One attempt at a shard, as a value: what became of it, and whether another attempt may help."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from sidecar_core.errors import ConflictError, ShardError, SidecarError, StorageError
from sidecar_core.execute import RunCancelledError, is_passing, run_shard
from sidecar_core.footer import read_footer
from sidecar_core.outcome import ShardReport
from sidecar_core.plugin_faults import traceback_text, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar_core.execute import ShardResources
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import ObjectInfo, Storage

    ShardWork: TypeAlias = Callable[[RunPlan, PlannedShard, ShardResources], ShardReport]

BACKOFF_S = 0.5
_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class ShardAttempt:
    """What one attempt gave.

    Attributes:
        report: the shard's report as it stands after this attempt.
        may_pass: whether it failed with an error that may be gone the next time.
        traceback: of that error, as text that comes whole from any worker; None when it did not fail.
    """

    report: ShardReport
    may_pass: bool = False
    traceback: str | None = None


def try_shard(
    plan: RunPlan, shard: PlannedShard, resources: ShardResources, *, number: int = 1, work: ShardWork = run_shard
) -> ShardAttempt:
    """Runs a shard once; its error is a result.

    Args:
        plan: the run's plan.
        shard: the shard as it was planned.
        resources: what this process has for shards.
        number: 1 for the first attempt. Later ones may replace what an earlier one of this run committed.
        work: what is done with the shard.

    Raises:
        RunCancelledError: the run was told to stop.
    """
    started = time.monotonic()
    try:
        if number > 1:
            shard = _with_own_outputs(plan, shard, resources.outputs)
        return ShardAttempt(replace(work(plan, shard, resources), attempts=number))
    except RunCancelledError:
        raise
    except Exception as error:
        if resources.cancelled is not None and resources.cancelled.is_set():
            raise RunCancelledError("the run was stopped") from error
        failed = failed_attempt(shard, error, number=number, elapsed_s=time.monotonic() - started)
        if isinstance(error, ConflictError):
            with suppress(StorageError):  # an earlier attempt of this run, given up, may have committed after all
                return replace(failed, may_pass=_with_own_outputs(plan, shard, resources.outputs) != shard)
        return failed


def failed_attempt(shard: PlannedShard, error: Exception, *, number: int, elapsed_s: float = 0.0) -> ShardAttempt:
    """Returns the attempt that ended with `error`."""
    report = ShardReport(
        rel_path=shard.rel_path,
        status="failed",
        bytes_in=shard.main.size_bytes,
        elapsed_s=elapsed_s,
        attempts=number,
        error=str(error) if isinstance(error, SidecarError) else words_of(error),
        error_type=type(error).__name__,
    )
    return ShardAttempt(report, may_pass=is_passing(error), traceback=traceback_text(error))


def log_failure(attempt: ShardAttempt, logger: logging.Logger | None = None) -> None:
    """Logs the traceback of an attempt that failed, wherever it was made; `--debug` shows it."""
    if attempt.traceback is not None:
        report = attempt.report
        (logger or _logger).debug("%s, attempt %d: %s", report.rel_path, report.attempts, attempt.traceback)


def backoff_s(number: int) -> float:
    """Returns the seconds to wait after the failure of attempt `number`."""
    return BACKOFF_S * 2**number


def _with_own_outputs(plan: RunPlan, shard: PlannedShard, outputs: Sequence[Storage]) -> PlannedShard:
    """Returns the shard with the outputs that this run has committed before as those to be replaced.

    A worker may end after its commit and before its answer, and one of several outputs may be committed
    before the next one fails. Files of anybody else stay a conflict.
    """
    present: list[ObjectInfo | None] = []
    for storage, planned in zip(outputs, shard.present, strict=True):
        found = storage.stat(shard.rel_path)
        own = found is not None and found != planned and _made_by(storage, shard.rel_path, plan.run_id)
        present.append(found if own else planned)
    return replace(shard, present=tuple(present))


def _made_by(storage: Storage, rel_path: str, run_id: str) -> bool:
    try:
        footer = read_footer(storage, rel_path)
    except ShardError:
        return False
    return footer is not None and footer.run_id == run_id
