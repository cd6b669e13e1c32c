"""Which rows of an output shard have given reasons, decided from the shard's own reason columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_core.errors import ShardError
from sidecar_core.outcome import reasons_at
from sidecar_core.problems import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sidecar_core.footer import FooterInfo
    from sidecar_core.held_shard import HeldShard
    from sidecar_core.plan import PlannedOutput, RunPlan


@dataclass(frozen=True)
class ReasonSource:
    """Where an output keeps the reasons at a path of the plan's table.

    Attributes:
        path: the table column, or `column.child`.
        column: the table column.
        output: position of the output in the plan.
        kept_as: the column's name in that output.
    """

    path: str
    column: str
    output: int
    kept_as: str


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a shard that have one of the reasons, or that an interrupted retry computed.

    Attributes:
        reasons: per path of reasons, each row's in the first output that keeps one, null for a valid one.
        own: the same in one output, by the output's position and path.
        by_output: per output of the plan, whether each row is to be replaced there.
        any: whether each row is to be computed.
    """

    reasons: Mapping[str, pa.ChunkedArray]
    own: Mapping[tuple[int, str], pa.ChunkedArray]
    by_output: tuple[pa.BooleanArray, ...]
    any: pa.BooleanArray


def reason_sources(plan: RunPlan) -> list[ReasonSource]:
    """Returns where the outputs of a plan keep reasons, in the order of paths and outputs."""
    paths = {path for output in plan.outputs for path in output.reason_columns.values()}
    sources: list[ReasonSource] = []
    for path in sorted(paths):
        column = path if path in plan.table_schema.names else path.partition(".")[0]
        for index, output in enumerate(plan.outputs):
            kept_as = next((name for name, table_column in output.columns if table_column == column), None)
            if kept_as is not None:
                sources.append(ReasonSource(path, column, index, kept_as))
    return sources


def interrupted_rows(footers: Mapping[str, FooterInfo]) -> dict[str, list[tuple[int, int]]]:
    """Returns, per output, the rows that a retry replaced in some outputs of a shard and not in all that it meant to.

    Args:
        footers: of the shard's file in each output, by the output's name.

    Returns:
        Runs of first row and length, by the output's name; nothing where no retry ended between two outputs.
    """
    rows: dict[str, list[tuple[int, int]]] = {}
    for footer in footers.values():
        together = footer.together
        if together is None:
            continue
        if any(name in footers and footers[name].made_by == was for name, was in together.was.items()):
            for name, runs in together.rows.items():
                rows.setdefault(name, []).extend(runs)
    return rows


def choose_rows(
    plan: RunPlan,
    sources: Sequence[ReasonSource],
    held: Sequence[HeldShard],
    reasons: Collection[str],
) -> ChosenRows:
    """Reads the reason columns of a shard and chooses the rows with one of `reasons`.

    Outputs that keep, or are judged by, the same reasons get the same rows: those that have one of `reasons` in any
    of these outputs. An output without kept reasons gets the rows that have one in any output. Rows that an
    interrupted retry has replaced in some outputs are chosen in all that it meant.

    Args:
        plan: the plan.
        sources: what `reason_sources` returned for it; not empty.
        held: the shard of each output, all of the same number of rows.
        reasons: what to look for; also in a list of structs with a `reason` beside the reason, where an op
            keeps more than one of a row.

    Raises:
        ShardError: an output counts more rows with `reasons` than can be found.
    """
    own: dict[tuple[int, str], pa.ChunkedArray] = {}
    kept: dict[str, pa.ChunkedArray] = {}
    matches: dict[str, pa.BooleanArray] = {}
    for source in sources:
        path = source.path
        file = held[source.output].file
        table = file.read(columns=[source.kept_as], use_threads=False).rename_columns([source.column])
        values = reasons_at(table, path)
        found = _is_one_of(values, reasons)
        if path != source.column:
            found = pc.or_(found, _listed(table.column(source.column), reasons))
        own[source.output, path] = values
        kept[path] = pc.coalesce(kept[path], values) if path in kept else values
        matches[path] = pc.or_(matches[path], found) if path in matches else found
    rows = held[0].file.metadata.num_rows
    begun = interrupted_rows({output.name: each.footer for output, each in zip(plan.outputs, held, strict=True)})
    again = [_rows_of(begun.get(output.name, ()), rows) for output in plan.outputs]
    whole = reduce(pc.or_, matches.values())
    by_output: list[pa.BooleanArray] = []
    for paths, more in zip(_linked_paths(plan, sources), again, strict=True):
        found = [matches[path] for path in sorted(paths) if path in matches]
        by_output.append(pc.or_(reduce(pc.or_, found) if found else whole, more))
    for output, each, more in zip(plan.outputs, held, again, strict=True):
        named = {path: pc.or_(found, more).true_count for path, found in matches.items()}
        _check_counts(output, each, named, reasons)
    return ChosenRows(kept, own, tuple(by_output), reduce(pc.or_, by_output))


def _linked_paths(plan: RunPlan, sources: Sequence[ReasonSource]) -> list[set[str]]:
    """Returns, per output, the paths of reasons that it keeps or is judged by, and those of outputs that share one."""
    linked = [
        {*output.reason_columns.values(), *(source.path for source in sources if source.output == index)}
        for index, output in enumerate(plan.outputs)
    ]
    for _ in linked:  # so often, for outputs may share reasons through others
        linked = [set().union(*(other for other in linked if other & paths)) for paths in linked]
    return linked


def _check_counts(output: PlannedOutput, held: HeldShard, named: Mapping[str, int], reasons: Collection[str]) -> None:
    """Raises ShardError when more rows of an output failed than the columns of reasons name: which ones is lost."""
    for column, path in output.reason_columns.items():
        failed = sum(count for reason, count in held.footer.invalid.get(column, {}).items() if reason in reasons)
        if path in named and failed > named[path]:
            raise ShardError(
                f"{held.uri}: by its footer {counted(failed, 'row')} of {column!r} failed with "
                f"{', '.join(sorted(reasons))}, and the outputs' columns of reasons name {named[path]:,}",
                None,
                "remove that file, then: sidecar run --skip-existing",
            )


def _rows_of(runs: Iterable[tuple[int, int]], rows: int) -> pa.BooleanArray:
    chosen = bytearray(rows)  # a byte a row
    for first, length in runs:
        chosen[first : first + length] = b"\x01" * length
    bytes_of_rows = pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(chosen)])
    return cast("pa.BooleanArray", bytes_of_rows.cast(pa.bool_()))


def _is_one_of(values: pa.ChunkedArray, reasons: Collection[str]) -> pa.BooleanArray:
    wanted = pa.array(sorted(reasons), values.type)
    return pa.concat_arrays([pa.array([], pa.bool_()), *(pc.is_in(each, value_set=wanted) for each in values.chunks)])


def _listed(column: pa.ChunkedArray, reasons: Collection[str]) -> pa.BooleanArray:
    """Returns whether a struct column lists one of the reasons in a child `list<struct<…, reason: string>>`."""
    lists = [
        field.name
        for field in column.type
        if pa.types.is_list(field.type)
        and pa.types.is_struct(field.type.value_type)
        and field.type.value_type.get_field_index("reason") >= 0
    ]
    rows: set[int] = set()
    first = 0
    for chunk in column.chunks:
        for name in lists:
            entries = pc.struct_field(chunk, name)
            hits = pc.is_in(pc.struct_field(pc.list_flatten(entries), "reason"), value_set=pa.array(sorted(reasons)))
            rows.update(first + row for row in pc.list_parent_indices(entries).filter(hits).to_pylist())
        first += len(chunk)
    return pa.array([row in rows for row in range(first)], pa.bool_())
