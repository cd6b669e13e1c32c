"""A run from its options to its report: plan, refuse what would harm data, process, record."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.plan import plan_run
from sidecar_core.problems import counted
from sidecar_core.storage import check_subprefix, open_storage

from sidecar_runtimes.choose import make_runtime
from sidecar_runtimes.disk_space import refuse_small_disk
from sidecar_runtimes.lease import RunLeases, refuse_held
from sidecar_runtimes.other_shards import (
    OtherShards,
    describe_surplus,
    find_other_shards,
    refuse_other_shards,
)
from sidecar_runtimes.prefixes import OutputPrefix, resolve_outputs
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.resume import ShardStanding, ShardState, count_states, list_outputs, look_again, stand_of_shards
from sidecar_runtimes.run_options import RunOptions, check_options
from sidecar_runtimes.shard_loop import RunReport, RunWork, process_shards
from sidecar_runtimes.success import mark_success, remove_success

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.pipeline import Pipeline
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

    from sidecar_runtimes.base import Runtime
    from sidecar_runtimes.progress import RunObserver

__all__ = ["PreparedRun", "RunOptions", "RunReport", "execute_run", "prepare_run", "refuse_to_harm"]

_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class PreparedRun:
    """All that is known before the first shard is read; what a dry run shows.

    Attributes:
        plan: the pipeline with the types and versions of what is there; what it has may change.
        prefixes: the effective prefix of each output and who chose it.
        standings: every main shard and what is there of it.
        options: how to run.
        main: the main dataset.
        outputs: the storages of the outputs, in the plan's order.
        main_paths: paths of all shards of the main dataset, whatever part of it the run is about.
        others: what stands in the outputs besides the shards of this run.
        remarks: what ops want the manifest to say.
    """

    plan: RunPlan
    prefixes: Mapping[str, OutputPrefix]
    standings: Sequence[ShardStanding]
    options: RunOptions
    main: Storage
    outputs: tuple[Storage, ...]
    main_paths: frozenset[str]
    others: OtherShards
    remarks: tuple[str, ...]

    @property
    def replaces(self) -> bool:
        """Whether shards that were there before are replaced, whatever made them: the same run, again, begins anew."""
        return self.options.overwrite and self.states[ShardState.MISSING] < len(self.standings)

    @property
    def where(self) -> str:
        """The outputs' prefixes, as messages name them."""
        return ", ".join(output.prefix for output in self.plan.outputs)

    @property
    def to_do(self) -> Sequence[PlannedShard]:
        """The shards to process, in order."""
        chosen = [standing.shard for standing in self.standings if _must_make(standing, self.options)]
        return chosen[: self.options.limit]

    @property
    def states(self) -> dict[str, int]:
        """The number of shards in each `ShardState`."""
        return count_states(self.standings)

    @property
    def skipped(self) -> int:
        """Shards that this run leaves as they are because they are there."""
        return len(self.standings) - sum(1 for standing in self.standings if _must_make(standing, self.options))

    @property
    def bytes_to_read(self) -> int:
        """Total size in bytes of the main shards to process; an upper bound of what is read."""
        return sum(shard.main.size_bytes for shard in self.to_do)


def prepare_run(pipeline: Pipeline, options: RunOptions) -> PreparedRun:
    """Plans a run and looks at what is there; lists the main dataset and the outputs, and reads footers only.

    Args:
        pipeline: what is run.
        options: how. Whether they allow for what is there is seen by `execute_run`.

    Raises:
        UsageError: options that contradict each other, no shards, no readable shard.
        ConfigError: the main dataset's columns do not fit the pipeline.
        RefusedError: an output prefix overlaps another dataset, or an op says that the run must not start.
        StorageError: a store could not be listed or read.
    """
    check_options(options)
    prefixes = resolve_outputs(pipeline, options.output_prefix, options.outputs)
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    remarks = _ask_ops(pipeline)
    check_subprefix(options.input_subprefix, main.prefix)
    everything = main.list_shards(missing_ok=True)
    shards = [info for info in everything if info.rel_path.startswith(options.input_subprefix)]
    if options.input_subprefix and not shards:
        raise UsageError(f"no shards at {main.prefix}{options.input_subprefix}", fix="check --input-subprefix")
    # whatever part of the dataset the run is about, types are those of the dataset's first shard
    plan = plan_run(pipeline, main, everything, {name: choice.prefix for name, choice in prefixes.items()})
    outputs = tuple(open_storage(output.prefix, pipeline.dataset.storage) for output in plan.outputs)
    listed = list_outputs(outputs)
    standings = stand_of_shards(plan, main, outputs, shards, listed, trust_listing=options.trust_listing)
    main_paths = frozenset(info.rel_path for info in everything)
    others = find_other_shards(
        plan,
        outputs,
        listed,
        main_paths,
        {info.rel_path for info in shards},
        trust_listing=options.trust_listing,
    )
    return PreparedRun(plan, prefixes, standings, options, main, outputs, main_paths, others, remarks)


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
    stop = threading.Event()
    with RunLeases(prepared.plan.run_id, prepared.outputs, options.lease, on_lost=stop.set) as leases:
        # whoever held the leases until now may have made shards, or another pipeline's
        listed = list_outputs(prepared.outputs)
        standings = look_again(
            prepared.plan,
            prepared.main,
            prepared.outputs,
            prepared.standings,
            listed,
            trust_listing=options.trust_listing,
        )
        others = find_other_shards(
            prepared.plan,
            prepared.outputs,
            listed,
            prepared.main_paths,
            {standing.shard.rel_path for standing in standings},
            trust_listing=options.trust_listing,
        )
        prepared = replace(prepared, standings=standings, others=others, plan=replace(prepared.plan, leased=True))
        _refuse_states(prepared)
        if prepared.others.surplus:
            _logger.warning(
                "%s\n  so `verify` will fail, and SUCCESS will not be written\n"
                "  fix: remove such shards where their main shards were removed",
                describe_surplus(prepared.others, prepared.where),
            )
        refuse_small_disk(prepared.plan, prepared.to_do, prepared.outputs)
        remove_success(prepared.outputs)
        work = RunWork(
            prepared.plan,
            prepared.outputs,
            prepared.to_do,
            limits=options,
            skipped=prepared.skipped,
            command=command,
            remarks=prepared.remarks,
            replaces=prepared.replaces,
        )
        report = process_shards(work, runtime, observer or SilentObserver(), leases, stop=stop)
        if report.ok:
            leases.check()
            mark_success(prepared.main, prepared.outputs, report.run_id)
    return report


def _ask_ops(pipeline: Pipeline) -> tuple[str, ...]:
    """Lets each op refuse the run; returns what they want the manifest to say."""
    dataset = pipeline.dataset
    opened = partial(open_storage, options=dataset.storage)
    remarks = [
        f"operations[{index}] ({op.type_name}): {said}"
        for index, op in enumerate(pipeline.operations)
        for said in op.check_start(dataset, opened)
    ]
    for said in remarks:
        _logger.warning("%s", said)
    return tuple(remarks)


def refuse_to_harm(prepared: PreparedRun) -> None:
    """Raises RefusedError when somebody writes there now, or the options do not say what to do with what is there."""
    refuse_held(prepared.outputs, prepared.options.lease)
    _refuse_states(prepared)


def _goes_on(options: RunOptions) -> bool:
    return options.skip_existing or options.overwrite


def _refuse_states(prepared: PreparedRun) -> None:
    options, states, where = prepared.options, prepared.states, prepared.where
    there = sum(states.values()) - states[ShardState.MISSING]
    if there and not _goes_on(options):
        raise RefusedError(
            f"{where} already holds {there:,} of {counted(len(prepared.standings), 'shard')}",
            "an empty output prefix, or an option that says what to do with what is there",
            "--skip-existing to go on with what is missing, --overwrite to replace all, or another output prefix",
        )
    if states[ShardState.STALE] and options.skip_existing and not (options.redo_stale or options.keep_stale):
        first = next(standing for standing in prepared.standings if standing.state is ShardState.STALE)
        raise RefusedError(
            f"{where}: stale: {states[ShardState.STALE]:,} of {counted(there, 'shard')} there; "
            f"{first.shard.rel_path}: {first.why}",
            None,
            "--redo-stale to make them again, --keep-stale to leave them, or another output prefix",
        )
    foreign = [
        standing.foreign for standing in prepared.standings if standing.foreign and _must_make(standing, options)
    ]
    if foreign:
        raise RefusedError(
            f"{foreign[0]}: sidecar did not write this file, and never replaces such a one"
            + (f"; there are {len(foreign):,} of them" if len(foreign) > 1 else ""),
            "an output prefix with sidecar's own shards, or none",
            "another output prefix, or move them away",
        )
    refuse_other_shards(prepared.others, where, goes_on=_goes_on(options), keep_stale=options.keep_stale)


def _must_make(standing: ShardStanding, options: RunOptions) -> bool:
    if options.overwrite or standing.state in (ShardState.MISSING, ShardState.PARTIAL):
        return True
    return standing.state is ShardState.STALE and options.redo_stale
