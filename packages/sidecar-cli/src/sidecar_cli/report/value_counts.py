"""Figures of text, flags and times in bounded memory."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# the stubs know few of Arrow's functions, and not all that those take

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_cli.report.shown_text import shown, values_of

MAX_DISTINCT = 1000
MAX_COUNTED_BYTES = 200
SHOWN_VALUES = 12
_EXAMPLES = 3


class ValueCounts:
    """What is kept of the values seen so far.

    Values are counted while there are at most `MAX_DISTINCT` of them, none longer than `MAX_COUNTED_BYTES`.

    Attributes:
        rows: rows seen.
        null: of these, without a value.
        counts: rows by value as shown; None once they are too many or too long to count.
        shortest: bytes of the shortest text.
        longest: bytes of the longest.
        examples: the first distinct values, as shown.
    """

    def __init__(self) -> None:
        self.rows = self.null = 0
        self.counts: dict[str, int] | None = {}
        self.shortest: int | None = None
        self.longest: int | None = None
        self.examples: list[str] = []

    def add(self, array: pa.Array) -> None:
        """Adds text or flags."""
        self.rows += len(array)
        self.null += array.null_count
        values = array.drop_null()
        if len(values) == 0:
            return
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.string())
        else:
            if pa.types.is_string_view(values.type):
                values = values.cast(pa.large_string())
            lengths = pc.min_max(pc.binary_length(values))
            self._widen(lengths["min"].as_py(), lengths["max"].as_py())
        if len(self.examples) < _EXAMPLES:
            self._add_examples([shown(value) for value in values_of(values[: 4 * _EXAMPLES])])
        if (self.longest or 0) > MAX_COUNTED_BYTES:
            self.counts = None
        if self.counts is None:
            return
        found, counts = pc.value_counts(values).flatten()
        if len(found) > MAX_DISTINCT:
            self.counts = None
            return
        texts = [shown(value) for value in values_of(found)]
        self._count(dict(zip(texts, cast("list[int]", counts.to_pylist()), strict=True)))

    def merge(self, other: ValueCounts) -> None:
        """Adds what another one saw."""
        self.rows += other.rows
        self.null += other.null
        self._widen(other.shortest, other.longest)
        self._add_examples(other.examples)
        if other.counts is None:
            self.counts = None
        else:
            self._count(other.counts)

    def top(self) -> tuple[tuple[str, int], ...]:
        """Returns the most frequent values with their counts, most frequent first."""
        ranked = sorted((self.counts or {}).items(), key=lambda item: (-item[1], item[0]))
        return tuple(ranked[:SHOWN_VALUES])

    def _count(self, found: dict[str, int]) -> None:
        if self.counts is None:
            return
        for value, count in found.items():
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > MAX_DISTINCT:
            self.counts = None

    def _add_examples(self, texts: list[str]) -> None:
        for text in texts:
            if len(self.examples) < _EXAMPLES and text not in self.examples:
                self.examples.append(text)

    def _widen(self, shortest: int | None, longest: int | None) -> None:
        if shortest is not None:
            self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)
        if longest is not None:
            self.longest = longest if self.longest is None else max(self.longest, longest)


class TimeRange:
    """The first and last of the times seen so far.

    Attributes:
        rows: rows seen.
        null: of these, without a value.
        bounds: least and greatest, as scalars of their own type; None before the first.
    """

    def __init__(self) -> None:
        self.rows = self.null = 0
        self.bounds: tuple[pa.Scalar, pa.Scalar] | None = None

    def add(self, array: pa.Array) -> None:
        """Adds dates or times."""
        self.rows += len(array)
        self.null += array.null_count
        if array.null_count < len(array):
            found = pc.min_max(array)
            self._widen((found["min"], found["max"]))

    def merge(self, other: TimeRange) -> None:
        """Adds what another one saw."""
        self.rows += other.rows
        self.null += other.null
        if other.bounds is not None:
            self._widen(other.bounds)

    def shown(self) -> tuple[str | None, str | None]:
        """Returns first and last as shown."""
        if self.bounds is None:
            return None, None
        return _time_text(self.bounds[0]), _time_text(self.bounds[1])

    def _widen(self, found: tuple[pa.Scalar, pa.Scalar]) -> None:
        pairs = [found] if self.bounds is None else [self.bounds, found]
        if len({pair[0].type for pair in pairs}) > 1:  # shards that disagree on the type
            return
        lows, highs = (pa.array([pair[side] for pair in pairs], pairs[0][side].type) for side in (0, 1))
        self.bounds = (pc.min(lows), pc.max(highs))


def _time_text(value: pa.Scalar) -> str:
    """Returns a time as Arrow writes it: Python has no nanoseconds, and no year 12,000."""
    return shown(value.cast(pa.string()).as_py())
