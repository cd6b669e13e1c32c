"""Computing again only the rows with given reasons, in the outputs of a pipeline that has run."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sidecar_core.chosen_rows import interrupted_rows, reason_sources
from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.footer import read_footer
from sidecar_core.isolation.options import available_cores
from sidecar_core.problems import counted, did_you_mean
from sidecar_core.reasons import Reason
from sidecar_core.retry import retry_shard

from sidecar_runtimes.disk_space import refuse_small_disk
from sidecar_runtimes.lease import LeaseOptions, RunLeases, refuse_held
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.prefixes import resolve_outputs
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.resume import ShardState, list_outputs, look_again
from sidecar_runtimes.run import RunOptions, prepare_run
from sidecar_runtimes.shard_loop import RunWork, process_shards
from sidecar_runtimes.success import mark_success, remove_success

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sidecar_core.execute import ShardResources
    from sidecar_core.footer import FooterInfo
    from sidecar_core.outcome import ShardReport
    from sidecar_core.pipeline import Pipeline
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

    from sidecar_runtimes.progress import RunObserver
    from sidecar_runtimes.run import PreparedRun
    from sidecar_runtimes.shard_loop import RunReport

PARTIAL = "partial"  # what `filter_status` says where only some filters have no values; it lists their reasons
_PARALLEL_READS = 32
_MOST_SHARDS_AT_ONCE = 4  # of a shard, often one row at a time is computed


@dataclass(frozen=True)
class RetryOptions:
    """What is retried, and how; names as on the command line.

    Attributes:
        reasons: compute the rows with one of these again: values of `sidecar_core.Reason`, or `partial` for those
            where only some filters have no values.
        output_prefix: where the single output is; default its prefix in the YAML.
        outputs: where named outputs are.
        input_subprefix: only shards below it.
        limit: change at most so many shards.
        workers: isolated child processes; default the machine's cores.
        retries: further attempts for a shard whose error may pass.
        lease: how to get the leases.
    """

    reasons: frozenset[str]
    output_prefix: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    input_subprefix: str = ""
    limit: int | None = None
    workers: int | None = None
    retries: int = 2
    lease: LeaseOptions = field(default_factory=LeaseOptions)


@dataclass(frozen=True)
class RetryReport:
    """What a retry did.

    Attributes:
        run: as of a run: `done` are the shards that were looked at, rows those that were computed again, invalid
            those of them that still are.
        before: per output, the computed rows by the reason that they had.
        not_there: shards of the main dataset that were not looked at, because an output lacks them.
        without: shards without such rows, left as they are.
    """

    run: RunReport
    before: Mapping[str, Mapping[str, int]]
    not_there: int
    without: int

    @property
    def ok(self) -> bool:
        """Whether no shard failed."""
        return self.run.ok


def parse_reasons(values: Sequence[str]) -> frozenset[str]:
    """Returns the reasons that `--reason timeout,crashed` names; it may be given several times.

    Raises:
        UsageError: none is named, or one is no reason.
    """
    known = [*(reason.value for reason in Reason), PARTIAL]
    named = [name.strip() for value in values for name in value.split(",") if name.strip()]
    if not named:
        raise UsageError("no --reason is given", ", ".join(known), "--reason timeout,crashed")
    for name in named:
        if name not in known:
            raise UsageError(f"--reason {name!r}: no such reason{did_you_mean(name, known)}", ", ".join(known))
    return frozenset(named)


def retry_rows(
    pipeline: Pipeline,
    options: RetryOptions,
    *,
    observer: RunObserver | None = None,
    command: Sequence[str] | None = None,
) -> RetryReport:
    """Computes the rows with one of the reasons again, on this machine, and leaves every other value as it is.

    Each output's shard with such rows is replaced in one step, with its counts of invalid rows brought up to date.
    What an earlier retry has replaced in some outputs and not in all is computed again, whatever the reasons.

    Args:
        pipeline: the pipeline that made the outputs. What does not decide values may differ: a longer
            `row_timeout_s` is what helps rows that timed out.
        options: what and how.
        observer: told of progress; default nobody.
        command: the command line for the manifest; default this process's.

    Raises:
        UsageError: there are no shards, or no output keeps reasons.
        RefusedError: an output is being written, or holds shards of another pipeline or of another version
            of the main dataset.
        LeaseLostError: another run took the lease; nothing more was committed.
    """
    prepared = prepare_run(pipeline, _as_run(pipeline, options))
    plan = replace(prepared.plan, leased=True)
    if not reason_sources(plan):
        raise UsageError("no output of this pipeline has a column with reasons, so no row can be chosen by its reason")
    refuse_held(prepared.outputs, options.lease)
    _refuse_stale(prepared)
    stop = threading.Event()
    before: dict[str, Counter[str]] = {}
    noting = threading.Lock()

    def work(plan: RunPlan, shard: PlannedShard, resources: ShardResources) -> ShardReport:
        retried = retry_shard(plan, shard, resources, reasons=options.reasons)
        with noting:
            for output, reasons in retried.before.items():
                before.setdefault(output, Counter()).update(reasons)
        return retried.report

    with RunLeases(plan.run_id, prepared.outputs, options.lease, on_lost=stop.set) as leases:
        standings = look_again(
            plan, prepared.main, prepared.outputs, prepared.standings, list_outputs(prepared.outputs)
        )
        prepared = replace(prepared, standings=standings)
        _refuse_stale(prepared)
        there = [standing.shard for standing in standings if standing.state is ShardState.DONE]
        shards = _with_reasons(plan, prepared.outputs, there, options.reasons)[: options.limit]
        refuse_small_disk(plan, shards, prepared.outputs)
        if shards:
            remove_success(prepared.outputs)
        workers = options.workers or available_cores()
        runtime = LocalRuntime(
            workers=workers,
            retries=options.retries,
            work=work,
            shards_at_once=min(workers, _MOST_SHARDS_AT_ONCE),
        )
        todo = RunWork(
            plan,
            prepared.outputs,
            shards,
            limits=prepared.options,
            skipped=len(there) - len(shards),
            command=command,
            retried=sorted(options.reasons),
            remarks=prepared.remarks,
        )
        report = process_shards(todo, runtime, observer or SilentObserver(), leases, stop=stop)
        if report.ok and shards:
            leases.check()
            mark_success(prepared.main, prepared.outputs, report.run_id)
    return RetryReport(
        run=report,
        before={output: dict(reasons) for output, reasons in before.items()},
        not_there=len(standings) - len(there),
        without=len(there) - len(shards),
    )


def _as_run(pipeline: Pipeline, options: RetryOptions) -> RunOptions:
    """Returns the options of a run at the same places: without a flag the prefixes in the YAML, never new ones."""
    choices = resolve_outputs(pipeline, options.output_prefix, options.outputs)
    return RunOptions(
        outputs={name: each.configured if each.chosen_by == "new" else each.prefix for name, each in choices.items()},
        input_subprefix=options.input_subprefix,
        skip_existing=True,
        limit=options.limit,
        workers=options.workers,
        lease_stale_s=options.lease.stale_s,
        steal_lease=options.lease.steal,
        wait_lease=options.lease.wait_s,
    )


def _refuse_stale(prepared: PreparedRun) -> None:
    where = ", ".join(output.prefix for output in prepared.plan.outputs)
    stale = [standing for standing in prepared.standings if standing.state is ShardState.STALE]
    if stale:
        raise RefusedError(
            f"{where}: stale: {len(stale):,} of {counted(len(prepared.standings), 'shard')}; "
            f"{stale[0].shard.rel_path}: {stale[0].why}",
            "shards that this pipeline made of the main shards as they are",
            "sidecar run --skip-existing --redo-stale makes them again",
        )
    if not prepared.states[ShardState.DONE]:
        raise UsageError(f"{where}: no shard is there whose rows could be retried", fix="sidecar run")


def _with_reasons(
    plan: RunPlan, outputs: Sequence[Storage], shards: Sequence[PlannedShard], reasons: Collection[str]
) -> list[PlannedShard]:
    """Returns the shards whose footers count rows with one of the reasons, rows that may list one, or a begun retry."""
    wanted = {*reasons, PARTIAL}

    def is_wanted(shard: PlannedShard) -> bool:
        footers: dict[str, FooterInfo] = {}
        for output, storage in zip(plan.outputs, outputs, strict=True):
            footer = read_footer(storage, shard.rel_path)
            if footer is None or any(wanted & held.keys() for held in footer.invalid.values()):
                return True
            footers[output.name] = footer
        return bool(interrupted_rows(footers))

    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="sidecar-footer") as readers:
        return [shard for shard, chosen in zip(shards, readers.map(is_wanted, shards), strict=True) if chosen]
