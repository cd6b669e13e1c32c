"""Which rows of an output shard have given reasons, decided from the shard's own reason columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_core.outcome import reasons_at

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow.parquet as pq

    from sidecar_core.plan import RunPlan


@dataclass(frozen=True)
class ReasonSource:
    """Where the reasons at a path of the plan's table are kept.

    Attributes:
        path: the table column, or `column.child`.
        column: the table column.
        output: position in the plan of the output that has it.
        kept_as: the column's name in that output.
    """

    path: str
    column: str
    output: int
    kept_as: str


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a shard that have one of the reasons.

    Attributes:
        reasons: per path of reasons, each row's, null for a valid one.
        by_output: per output of the plan, whether each row is to be replaced there.
        any: whether each row is to be computed.
    """

    reasons: Mapping[str, pa.ChunkedArray]
    by_output: tuple[pa.BooleanArray, ...]
    any: pa.BooleanArray


def reason_sources(plan: RunPlan) -> dict[str, ReasonSource]:
    """Returns, by path, where the outputs of a plan keep reasons; paths that no output keeps are left out."""
    paths = {path for output in plan.outputs for path in output.reason_columns.values()}
    sources: dict[str, ReasonSource] = {}
    for path in sorted(paths):
        column = path if path in plan.table_schema.names else path.partition(".")[0]
        for index, output in enumerate(plan.outputs):
            kept_as = next((name for name, table_column in output.columns if table_column == column), None)
            if kept_as is not None:
                sources[path] = ReasonSource(path, column, index, kept_as)
                break
    return sources


def choose_rows(
    plan: RunPlan, sources: Mapping[str, ReasonSource], files: Sequence[pq.ParquetFile], reasons: Collection[str]
) -> ChosenRows:
    """Reads the reason columns of a shard and chooses the rows with one of `reasons`.

    In each output, these are the rows that have it in a column of that output, or, for an output that is judged
    by no column with kept reasons, the rows that have it in any output.

    Args:
        plan: the plan.
        sources: what `reason_sources` returned for it; not empty.
        files: the shard of each output, all of the same number of rows.
        reasons: what to look for; also in a list of structs with a `reason` beside the reason, where an op
            keeps more than one of a row.
    """
    kept: dict[str, pa.ChunkedArray] = {}
    matches: dict[str, pa.BooleanArray] = {}
    for path, source in sources.items():
        held = files[source.output].read(columns=[source.kept_as], use_threads=False).rename_columns([source.column])
        kept[path] = reasons_at(held, path)
        found = _is_one_of(kept[path], reasons)
        if path != source.column:
            found = pc.or_(found, _listed(held.column(source.column), reasons))
        matches[path] = found
    whole = reduce(pc.or_, matches.values())
    by_output = tuple(
        reduce(pc.or_, own) if (own := [matches[path] for path in _own_paths(plan, index, sources)]) else whole
        for index in range(len(plan.outputs))
    )
    return ChosenRows(kept, by_output, whole)


def _own_paths(plan: RunPlan, output: int, sources: Mapping[str, ReasonSource]) -> list[str]:
    paths = dict.fromkeys(plan.outputs[output].reason_columns.values())
    return [path for path in paths if path in sources]


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
