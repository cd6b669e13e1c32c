"""The rows with the least and the greatest values of a measure."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# the stubs know few of Arrow's functions, and not all that those take

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_cli.report.figures import NotedRow, RowPlace
from sidecar_cli.report.shown_text import shown, value_at


class Extremes:
    """Keeps the rows with the least and the greatest finite values; of equal ones, the first in the dataset.

    Args:
        keep: rows to keep at each end.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._ends: dict[str, list[tuple[float | int, RowPlace, str]]] = {"ascending": [], "descending": []}

    def add(self, values: pa.Array, keys: pa.Array, *, shard: str, first_row: int) -> None:
        """Looks at consecutive rows.

        Args:
            values: numbers, null where there is none.
            keys: the rows' keys.
            shard: where the rows are.
            first_row: position in the shard of the first of them.
        """
        if self._keep == 0:
            return
        usable = pc.is_valid(values)
        if not pa.types.is_integer(values.type):
            values = values.cast(pa.float64())
            usable = pc.and_kleene(usable, pc.is_finite(values))
        rows = pc.indices_nonzero(pc.fill_null(usable, fill_value=False))
        if len(rows) == 0:
            return
        table = pa.table({"value": values.take(rows), "row": rows})
        for order, kept in self._ends.items():
            chosen = pc.select_k_unstable(
                table, min(self._keep, len(rows)), sort_keys=[("value", order), ("row", "ascending")]
            )
            for pick in chosen.to_pylist():
                value, row = table["value"][pick].as_py(), table["row"][pick].as_py()
                if len(kept) >= self._keep and not _beats(order, value, kept[-1][0]):
                    continue
                kept.append((value, RowPlace(shard, first_row + row), shown(value_at(keys, row))))
            self._cut(order)

    def merge(self, other: Extremes) -> None:
        """Adds what another one kept, of shards that come later."""
        for order, kept in self._ends.items():
            kept.extend(other._ends[order])
            self._cut(order)

    def lowest(self) -> tuple[NotedRow, ...]:
        """Returns the rows with the least values, least first."""
        return _noted(self._ends["ascending"])

    def highest(self) -> tuple[NotedRow, ...]:
        """Returns the rows with the greatest values, greatest first."""
        return _noted(self._ends["descending"])

    def _cut(self, order: str) -> None:
        kept = self._ends[order]
        kept.sort(
            key=lambda item: item[0], reverse=order == "descending"
        )  # stable: the first of equal ones stays first
        del kept[self._keep :]


def _beats(order: str, value: float, worst: float) -> bool:
    return value < worst if order == "ascending" else value > worst


def _noted(kept: Iterable[tuple[float | int, RowPlace, str]]) -> tuple[NotedRow, ...]:
    return tuple(NotedRow(place, key, number_text(value)) for value, place, key in kept)


def number_text(value: float | None) -> str:
    """Returns a number as the page shows it: whole ones in full, others with four digits."""
    if value is None:
        return "–"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:,.4g}"
