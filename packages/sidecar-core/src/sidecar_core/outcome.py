"""What became of a shard: the report of a runtime, and the counts of invalid rows in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

VALID_STATUSES = ("ok", "no_description")
"""What a reason column may say of a row with which nothing is wrong; null says so too."""


@dataclass(frozen=True)
class ShardReport:
    """The outcome of one shard in one run.

    Attributes:
        rel_path: the shard's path below the main prefix.
        status: `done`, or `failed` after the last attempt.
        rows: rows of the main shard.
        invalid: per output, the number of invalid rows by reason.
        bytes_in: size of the main shard's file in bytes.
        bytes_out: size of all its output files in bytes.
        elapsed_s: wall time of the last attempt in seconds.
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

    Attributes:
        by_column: per judged column, its invalid rows by reason.
        counts: rows by reason; one that is invalid in several columns counts once, by the first's reason.
    """

    def __init__(self, reason_columns: Mapping[str, str]) -> None:
        self._reason_columns = dict(reason_columns)
        self.by_column: dict[str, Counter[str]] = {column: Counter() for column in self._reason_columns}
        self.counts: Counter[str] = Counter()

    def count(self, table: pa.Table) -> int:
        """Adds a batch; returns its rows that are invalid in any judged column."""
        import pyarrow.compute as pc  # slow to load, and a plan needs none of it; below likewise

        found = {path: reasons_at(table, path) for path in dict.fromkeys(self._reason_columns.values())}
        for column, path in self._reason_columns.items():
            self.by_column[column].update(count_reasons(found[path]))
        if not found:
            return 0
        batch = count_reasons(pc.coalesce(*found.values()))
        self.counts.update(batch)
        return batch.total()


def count_reasons(reasons: pa.ChunkedArray) -> Counter[str]:
    """Returns the number of rows by reason; null is no reason."""
    import pyarrow.compute as pc

    values, counts = pc.value_counts(reasons.drop_null()).flatten()
    return Counter(dict(zip(cast("list[str]", values.to_pylist()), cast("list[int]", counts.to_pylist()), strict=True)))


def reasons_at(table: pa.Table, path: str) -> pa.ChunkedArray:
    """Returns each row's reason at a dotted path, null for a row with which nothing is wrong."""
    import pyarrow.compute as pc

    column = _column_at(table, path)
    valid = pc.is_in(column, value_set=pa.array(VALID_STATUSES, column.type))
    return pc.if_else(valid, pa.scalar(None, column.type), column)


def _column_at(table: pa.Table, path: str) -> pa.ChunkedArray:
    """Returns the column, or the child of a struct column, that a dotted path names."""
    if path in table.schema.names:
        return table.column(path)
    import pyarrow.compute as pc

    name, _, child = path.partition(".")
    return pa.chunked_array([pc.struct_field(chunk, child) for chunk in table.column(name).chunks], type=pa.string())
