"""Rows that an output calls invalid: which columns tell, why, and examples."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# the stubs know few of Arrow's functions, and not all that those take

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from sidecar_core.outcome import VALID_STATUSES

from sidecar_cli.report.figures import FailureGroup, NotedRow, RowPlace
from sidecar_cli.report.shown_text import shown, value_at

_MAX_REASONS = 200  # the reasons of sidecar's own columns are a closed list; a foreign column may hold anything
_OTHERS = "(other reasons)"


@dataclass(frozen=True)
class ReasonColumn:
    """Where an output tells whether a row is valid.

    Attributes:
        label: what it is called: the struct, or the first part of the columns' names.
        reason: path of the leaf with the reason; null, `ok` and `no_description` are valid.
        detail: path of the leaf with a detail, or None.
    """

    label: str
    reason: tuple[str, ...]
    detail: tuple[str, ...] | None


def find_reason_columns(schema: pa.Schema) -> list[ReasonColumn]:
    """Returns the columns that tell reasons: structs with a `status`, and `X_reason` beside `X_valid`."""
    found: list[ReasonColumn] = []
    for column in schema:
        if isinstance(column.type, pa.StructType):
            children = {child.name: child.type for child in column.type}
            if "status" in children and pa.types.is_string(children["status"]):
                detail = (column.name, "detail") if "detail" in children else None
                found.append(ReasonColumn(column.name, (column.name, "status"), detail))
        elif column.name.endswith("_reason") and pa.types.is_string(column.type):
            label = column.name.removesuffix("_reason")
            if f"{label}_valid" in schema.names:
                detail = (f"{label}_detail",) if f"{label}_detail" in schema.names else None
                found.append(ReasonColumn(label, (column.name,), detail))
    return found


@dataclass
class Failures:
    """What is kept of the invalid rows seen so far.

    Attributes:
        keep: examples to keep of each group.
        rows: rows that any column calls invalid.
        counts: rows by column and reason.
        examples: the first rows of each.
        filters: rows by filter and reason, from a status' list `failed`.
    """

    keep: int
    rows: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    examples: dict[tuple[str, str], list[NotedRow]] = field(default_factory=dict[tuple[str, str], list[NotedRow]])
    filters: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def add(self, batch: pa.RecordBatch, columns: list[ReasonColumn], keys: pa.Array, place: RowPlace) -> None:
        """Looks at consecutive rows.

        Args:
            batch: the rows.
            columns: from `find_reason_columns`.
            keys: the rows' keys.
            place: where the first of them is.
        """
        any_invalid = pa.repeat(pa.scalar(value=False), batch.num_rows)
        for column in columns:
            reasons = _leaf(batch, column.reason)
            valid = pc.is_in(reasons, value_set=pa.array(VALID_STATUSES, reasons.type))
            invalid = pc.and_not(reasons.is_valid(), valid)
            rows: list[int] = pc.indices_nonzero(invalid).to_pylist()  # pyright: ignore[reportAssignmentType] - no nulls
            if not rows:
                continue
            any_invalid = pc.or_(any_invalid, invalid)
            details = _leaf(batch, column.detail) if column.detail else None
            for row in rows:
                group = (column.label, shown(value_at(reasons, row), limit=80))
                if group not in self.counts and len(self.counts) >= _MAX_REASONS:
                    group = (column.label, _OTHERS)
                self.counts[group] += 1
                kept = self.examples.setdefault(group, [])
                if len(kept) < self.keep:
                    detail = shown(value_at(details, row)) if details is not None and details[row].is_valid else ""
                    kept.append(NotedRow(RowPlace(place.shard, place.row + row), shown(value_at(keys, row)), detail))
            self._count_filters(batch, column, pa.array(rows, pa.int64()))
        self.rows += int(pc.sum(any_invalid).as_py() or 0)

    def merge(self, other: Failures) -> None:
        """Adds what another one saw, of shards that come later."""
        self.rows += other.rows
        self.counts.update(other.counts)
        self.filters.update(other.filters)
        for group, rows in other.examples.items():
            kept = self.examples.setdefault(group, [])
            kept += rows[: self.keep - len(kept)]

    def groups(self) -> tuple[FailureGroup, ...]:
        """Returns the groups, largest first."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            FailureGroup(shown(column), reason, count, tuple(self.examples[column, reason]))
            for (column, reason), count in ranked
        )

    def by_filter(self) -> tuple[tuple[str, str, int], ...]:
        """Returns filter, reason and rows, most rows first."""
        ranked = sorted(self.filters.items(), key=lambda item: (-item[1], item[0]))
        return tuple((name, reason, count) for (name, reason), count in ranked)

    def _count_filters(self, batch: pa.RecordBatch, column: ReasonColumn, rows: pa.Array) -> None:
        status = batch.column(column.reason[0])
        if len(column.reason) == 1 or not isinstance(status.type, pa.StructType):
            return
        names = {child.name for child in status.type}
        if "failed" not in names or not pa.types.is_list(status.type.field("failed").type):
            return
        item = status.type.field("failed").type.value_type
        if not isinstance(item, pa.StructType) or not {"filter", "reason"} <= {child.name for child in item}:
            return
        failed = pc.list_flatten(_leaf(batch, (column.reason[0], "failed")).take(rows))
        pairs = zip(*(pc.struct_field(failed, name).to_pylist() for name in ("filter", "reason")), strict=True)
        self.filters.update((shown(name), shown(reason)) for name, reason in pairs)


def _leaf(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """Returns the leaf at a path; null below null structs."""
    array = batch.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array
