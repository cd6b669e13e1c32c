"""Computing only some rows of a shard again: those with given reasons. All other values stay as they are."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_core import __version__
from sidecar_core.align import describe_key, first_misaligned
from sidecar_core.chosen_rows import choose_rows, reason_sources
from sidecar_core.errors import ShardError
from sidecar_core.execute import (
    apply_ops,
    check_siblings_unchanged,
    commit_files,
    open_writer,
    output_table,
    raise_if_cancelled,
    shard_context,
    sibling_versions,
)
from sidecar_core.footer import FooterInfo, ReplacedTogether
from sidecar_core.held_shard import HeldShard
from sidecar_core.outcome import ShardReport, count_reasons, reasons_at
from sidecar_core.shard_reader import MainShard
from sidecar_core.shard_writer import check_shard_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from sidecar_core.chosen_rows import ChosenRows
    from sidecar_core.execute import ShardResources
    from sidecar_core.footer import InputVersion
    from sidecar_core.plan import PlannedOutput, PlannedShard, RunPlan
    from sidecar_core.shard_reader import ShardBatch
    from sidecar_core.shard_writer import ShardWriter
    from sidecar_core.side_inputs import SiblingSpec

_MOST_NOTED_RUNS = 500


@dataclass(frozen=True)
class RetriedShard:
    """What became of the chosen rows of one shard.

    Attributes:
        report: as of a run; its rows are those that were computed, its invalid rows those of them that still are.
        before: per output, the computed rows by the reason that they had.
    """

    report: ShardReport
    before: dict[str, dict[str, int]] = field(default_factory=dict)


def retry_shard(
    plan: RunPlan, shard: PlannedShard, resources: ShardResources, *, reasons: Collection[str]
) -> RetriedShard:
    """Computes the rows with one of the reasons again, and replaces the output shards that have such rows.

    Ops get runs of consecutive chosen rows. Only row groups of the main shard with chosen rows are read. Where this
    ends after some of several outputs were replaced, the next retry chooses these rows again.

    Args:
        plan: the plan with whose fingerprints the output shards were made.
        shard: the main shard, and the shard of each output, all there.
        resources: storages, child processes and staging folders of this process.
        reasons: what to look for in the outputs' reason columns.

    Raises:
        ShardError: an output shard is not one that this plan made of this main shard and its siblings' shards, or
            it counts more rows with the reasons than can be found.
        OpError: an op broke its contract.
        LeaseLostError: the plan is leased, and the run no longer holds the lease of every output.
        StorageError: reading or committing failed, or an output shard was replaced meanwhile.
        RunCancelledError: `resources.cancelled` was set.
    """
    started = time.monotonic()
    with ExitStack() as scope:
        held = [
            scope.enter_context(HeldShard(storage, output, shard.rel_path))
            for storage, output in zip(resources.outputs, plan.outputs, strict=True)
        ]
        sources = reason_sources(plan)
        chosen = choose_rows(plan, sources, held, reasons)
        keep_reasons = {source.output for source in sources}
        changed = [index for index, rows in enumerate(chosen.by_output) if rows.true_count]
        changed.sort(key=lambda index: index in keep_reasons)  # committed last: they tell what the rows had
        if not changed:
            return RetriedShard(ShardReport(shard.rel_path, "done", elapsed_s=time.monotonic() - started))
        source = scope.enter_context(MainShard.open(resources.main, shard.main, plan))
        siblings = sibling_versions(plan, shard.rel_path)
        splices = [
            _Splice(plan.outputs[index], held[index], chosen, index, _open(scope, plan, shard, resources, index))
            for index in changed
        ]
        for each in held:
            each.check_rows(source.num_rows)
            each.check_siblings(siblings)
        _stream(plan, source, resources, chosen, splices)
        source.check_unchanged()
        check_siblings_unchanged(plan, shard.rel_path, siblings)
        together = _together(splices, held) if len(splices) > 1 else None
        files = {splice.index: splice.finish(plan, source, siblings, together) for splice in splices}
        committed = commit_files(plan, shard, resources, files)
    return RetriedShard(
        ShardReport(
            rel_path=shard.rel_path,
            status="done",
            rows=chosen.any.true_count,
            invalid={splice.output.name: dict(splice.after) for splice in splices},
            bytes_in=shard.main.size_bytes,
            bytes_out=sum(info.size_bytes for info in committed),
            elapsed_s=time.monotonic() - started,
        ),
        before={splice.output.name: dict(splice.before) for splice in splices},
    )


class _Splice:
    """One output's new shard: rows of the old one, and in their places the rows that were computed."""

    def __init__(
        self, output: PlannedOutput, held: HeldShard, chosen: ChosenRows, index: int, writer: ShardWriter
    ) -> None:
        self.output = output
        self.index = index
        self.rows = chosen.by_output[index]
        self.before: Counter[str] = Counter()
        self.after: Counter[str] = Counter()
        self._held = held
        self._chosen = chosen
        self._writer = writer
        self._invalid = {column: Counter(reasons) for column, reasons in held.footer.invalid.items()}
        for column, path in output.reason_columns.items():
            if path in chosen.reasons:
                kept = chosen.own.get((index, path), chosen.reasons[path])
                self._invalid[column] = count_reasons(kept.filter(pc.invert(self.rows)))

    def keep(self, rows: int) -> None:
        """Writes the next rows as they are; a row group of the main shard ends with them."""
        for table in self._held.take(rows):
            self._writer.write(table)
        self._writer.write(self.output.schema.empty_table(), end_row_group=True)

    def write(self, batch: ShardBatch, computed: list[tuple[int, pa.Table]], key_column: str) -> None:
        """Writes the rows of a batch of the main shard, with what was computed of them: first row, and table."""
        rows = batch.table.num_rows
        old = pa.concat_tables([self.output.schema.empty_table(), *self._held.take(rows)])
        moved = first_misaligned(batch.table.column(key_column), old.column(0), null_matches_null=True)
        if moved is not None:
            row = batch.first_row + moved
            raise ShardError(
                f"{self._held.uri} row {row}: key {describe_key(old.column(0)[moved])} is not the main shard's"
            )
        pieces: list[pa.Table] = []
        done = 0
        for first_row, table in computed:
            mine = self.rows.slice(first_row, table.num_rows)
            new = output_table(self.output, table)
            for start, length in _runs(mine):
                begins = first_row - batch.first_row + start
                pieces += [old.slice(done, begins - done), new.slice(start, length)]
                done = begins + length
            self._count(table, mine, first_row)
        pieces.append(old.slice(done))
        self._writer.write(pa.concat_tables(pieces), end_row_group=batch.ends_row_group)

    def finish(
        self,
        plan: RunPlan,
        source: MainShard,
        siblings: Mapping[SiblingSpec, InputVersion],
        together: ReplacedTogether | None,
    ) -> Path:
        """Closes the file with its footer and proves it; returns where it is."""
        before = self._held.footer
        report = self._writer.close(
            FooterInfo(
                fingerprint=self.output.fingerprint,
                run_id=plan.run_id,
                version=__version__,
                inputs=(
                    source.version,
                    *(siblings[spec] for spec in self.output.siblings),
                    *self.output.sources,
                ),
                rows=source.num_rows,
                key_digest="",
                key_digest_row_groups=(),
                invalid={column: dict(+reasons) for column, reasons in self._invalid.items()},
                together=together,
            )
        )
        if report.key_digest != before.key_digest:
            raise ShardError(f"{self._held.uri}: its keys are not those that its footer tells", None, "make it again")
        check_shard_file(self._writer.path, self.output.schema, source.num_rows)
        return self._writer.path

    def _count(self, table: pa.Table, mine: pa.BooleanArray, first_row: int) -> None:
        """Counts what the rows had and what they have."""
        paths = dict.fromkeys(self.output.reason_columns.values())
        old = {path: self._chosen.reasons[path].slice(first_row, table.num_rows) for path in self._chosen.reasons}
        new = {path: reasons_at(table, path) for path in self._chosen.reasons}
        own = [path for path in paths if path in old] or list(old)
        for column, path in self.output.reason_columns.items():
            if path in old:
                self._invalid[column].update(count_reasons(new[path].filter(mine)))
        self.before.update(count_reasons(pc.coalesce(*(old[path] for path in own)).filter(mine)))
        self.after.update(count_reasons(pc.coalesce(*(new[path] for path in own)).filter(mine)))


def _together(splices: list[_Splice], held: list[HeldShard]) -> ReplacedTogether:
    """Returns the note by which a retry that ends between two of its commits is found out, and ended by the next."""
    return ReplacedTogether(
        id=secrets.token_hex(16),
        was={splice.output.name: held[splice.index].footer.made_by for splice in splices},
        rows={splice.output.name: _noted_runs(splice.rows) for splice in splices},
    )


def _noted_runs(chosen: pa.BooleanArray) -> tuple[tuple[int, int], ...]:
    """Returns runs in which all of the rows are; one where they are many, so that a footer is still read at once."""
    runs = _runs(chosen)
    if len(runs) <= _MOST_NOTED_RUNS:
        return tuple(runs)
    first, last = runs[0][0], sum(runs[-1])
    return ((first, last - first),)


def _open(scope: ExitStack, plan: RunPlan, shard: PlannedShard, resources: ShardResources, index: int) -> ShardWriter:
    return scope.enter_context(open_writer(plan.outputs[index], resources.staging[index], shard.rel_path))


def _stream(
    plan: RunPlan, source: MainShard, resources: ShardResources, chosen: ChosenRows, splices: list[_Splice]
) -> None:
    """Goes through the main shard's row groups in order; those without chosen rows are not read."""
    first_row = 0
    with ExitStack() as shard_scope:
        shard = shard_context(plan, source, resources, shard_scope)
        for group, rows in enumerate(source.row_group_rows):
            raise_if_cancelled(resources)
            wanted = chosen.any.slice(first_row, rows)
            first_row += rows
            if not wanted.true_count:
                for splice in splices:
                    splice.keep(rows)
                continue
            for batch in source.batches([group]):
                raise_if_cancelled(resources)
                computed: list[tuple[int, pa.Table]] = []
                for start, length in _runs(chosen.any.slice(batch.first_row, batch.table.num_rows)):
                    context = replace(shard, first_row=batch.first_row + start)
                    table = apply_ops(plan, batch.table.slice(start, length), context, resources.side_inputs)
                    computed.append((context.first_row, table))
                for splice in splices:
                    splice.write(batch, computed, plan.key_column)
                if resources.on_rows is not None:
                    resources.on_rows(sum(table.num_rows for _, table in computed), _most_invalid(computed, chosen))


def _most_invalid(computed: list[tuple[int, pa.Table]], chosen: ChosenRows) -> int:
    """Returns how many of the computed rows have a reason still, at the path of reasons that has most."""
    return max(
        sum(table.num_rows - reasons_at(table, path).null_count for _, table in computed) for path in chosen.reasons
    )


def _runs(chosen: pa.BooleanArray) -> list[tuple[int, int]]:
    """Returns the runs of consecutive true values as (start, length)."""
    runs: list[tuple[int, int]] = []
    for row in cast("list[int]", pc.indices_nonzero(chosen).to_pylist()):
        if runs and sum(runs[-1]) == row:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((row, 1))
    return runs
