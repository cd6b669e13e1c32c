"""What became of a shard: the report of a runtime, and the counts of invalid rows in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ShardReport:
    """The outcome of one shard in one run.

    Attributes:
        rel_path: the shard's path below the main prefix.
        status: `done`, or `failed` after the last attempt.
        rows: rows of the main shard.
        invalid: per output, the number of invalid rows by reason.
        bytes_in: size of the main shard's file.
        bytes_out: size of all its output files.
        elapsed_s: wall time of the last attempt.
        attempts: how often it was tried.
        error: the error's message, when it failed.
        error_type: the error's class name, when it failed.
    """

    rel_path: str
    status: Literal["done", "failed"]
    rows: int = 0
    invalid: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    elapsed_s: float = 0.0
    attempts: int = 1
    error: str | None = None
    error_type: str | None = None

    @property
    def invalid_rows(self) -> int:
        """Invalid rows of the output that has most of them."""
        return max((sum(reasons.values()) for reasons in self.invalid.values()), default=0)


class InvalidCounter:
    """Counts the invalid rows of one output by reason, over the batches of a shard.

    Args:
        reason_columns: per judged output column, the table column (or `column.child`) with its reasons.
    """

    def __init__(self, reason_columns: Mapping[str, str]) -> None:
        self._reason_columns = dict(reason_columns)
        self.by_column: dict[str, dict[str, int]] = {column: {} for column in self._reason_columns}

    @property
    def counts(self) -> Counter[str]:
        """Rows by reason, over all judged columns."""
        total: Counter[str] = Counter()
        for reasons in self.by_column.values():
            total.update(reasons)
        return total

    def count(self, table: pa.Table) -> int:
        """Adds a batch; returns the invalid rows of its worst column."""
        worst = 0
        for column, path in self._reason_columns.items():
            reasons = self.by_column[column]
            found = 0
            values, counts = pc.value_counts(_column_at(table, path)).flatten()
            for reason, count in zip(values.to_pylist(), cast("list[int]", counts.to_pylist()), strict=True):
                if reason not in (None, "ok"):
                    reasons[reason] = reasons.get(reason, 0) + count
                    found += count
            worst = max(worst, found)
        return worst


def _column_at(table: pa.Table, path: str) -> pa.ChunkedArray:
    """Returns the column, or the child of a struct column, that a dotted path names."""
    if path in table.schema.names:
        return table.column(path)
    name, _, child = path.partition(".")
    return pa.chunked_array([pc.struct_field(chunk, child) for chunk in table.column(name).chunks], type=pa.string())
