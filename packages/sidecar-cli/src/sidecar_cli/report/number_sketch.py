"""Figures of many numbers in bounded memory: exact counts, extremes and mean, quantiles from a uniform sample."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# the stubs know few of Arrow's functions, and not all that those take

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_cli.report.figures import Histogram

SAMPLE = 16_384  # the share that a quantile stands for is off by 0.4 percentage points, one standard deviation
MAX_DISTINCT = 12
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_BINS = 40
_FAR_SPANS = 2  # times the range of the others
_TAIL, _SMALL_TAIL, _FAR_VALUES = 0.005, 0.05, 5  # this share, or so many of few values, may lie beside a histogram


class NumberSketch:
    """What is kept of the numbers seen so far.

    Up to `SAMPLE` finite values are kept, all of them while they are no more. Each value draws a ticket from
    its seed, and the smallest tickets stay: a uniform sample, the same for any order of merging.

    Attributes:
        rows: rows seen.
        null: of these, without a value.
        nan: NaN.
        infinite: infinities.
        count: finite values.
        minimum: least finite value, None before the first.
        maximum: greatest.
        total: their sum.
        distinct: rows by value of a whole number, None once there are more than `MAX_DISTINCT`.
    """

    def __init__(self) -> None:
        self.rows = self.null = self.nan = self.infinite = self.count = 0
        self.minimum: float | int | None = None
        self.maximum: float | int | None = None
        self.total = 0.0
        self.distinct: dict[int, int] | None = {}
        self._kept: list[pa.Table] = []
        self._kept_rows = 0
        self._limit: float | None = None  # the greatest ticket that can still stay

    def add(self, array: pa.Array, *, seed: str) -> None:
        """Adds numbers.

        Args:
            array: of any type of numbers; null, NaN and infinities are counted apart.
            seed: another one for each array.
        """
        self.rows += len(array)
        self.null += array.null_count
        if not pa.types.is_integer(array.type):
            self.distinct = None
            array = array.cast(pa.float64())
        values = array.drop_null()
        if pa.types.is_floating(values.type):
            finite = pc.is_finite(values)
            nan = int(pc.sum(pc.is_nan(values)).as_py() or 0)
            kept = values.filter(finite)
            self.nan += nan
            self.infinite += len(values) - len(kept) - nan
            values = kept
        if len(values) == 0:
            return
        self._add_finite(values, seed)

    def merge(self, other: NumberSketch) -> None:
        """Adds what another sketch saw."""
        for name in ("rows", "null", "nan", "infinite", "count"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.total += other.total
        self._widen(other.minimum, other.maximum)
        self._count_distinct(other.distinct)
        self._keep(other._kept)

    def compact(self) -> None:
        """Lets go of what is no longer in the sample; whoever holds many sketches calls it."""
        self._shrink(SAMPLE)

    @property
    def exact(self) -> bool:
        """Whether the sample holds every finite value."""
        return self.count <= SAMPLE

    @property
    def mean(self) -> float | None:
        """Mean of the finite values; None without any."""
        return self.total / self.count if self.count else None

    @property
    def sample(self) -> pa.ChunkedArray:
        """The values that stayed, as float64."""
        self._shrink(SAMPLE)
        return pa.chunked_array([chunk for table in self._kept for chunk in table["value"].chunks], pa.float64())

    def quantiles(self, shares: Sequence[float] = QUANTILES) -> dict[float, float]:
        """Returns the sample's quantile at each share, 0-1, between values in proportion; empty without values."""
        sample = self.sample
        if len(sample) == 0:
            return {}
        found = cast("list[float]", pc.quantile(sample, q=list(shares)).to_pylist())
        return dict(zip(shares, found, strict=True))

    def histogram(self, bins: int = _BINS) -> Histogram | None:
        """Returns the shape of the values; None without any. What lies far from all others is not drawn."""
        sample = self.sample
        if len(sample) == 0 or self.minimum is None or self.maximum is None:
            return None
        low, high = self._shown_range()
        if not self.exact or low > float(self.minimum) or high < float(self.maximum):
            scale = self.count / len(sample)
        else:
            scale = 1.0
        inside = sample.filter(pc.and_(pc.greater_equal(sample, low), pc.less_equal(sample, high)))
        below = scale * int(pc.sum(pc.less(sample, low)).as_py() or 0)
        above = scale * int(pc.sum(pc.greater(sample, high)).as_py() or 0)
        whole = self.distinct is not None or bool(pc.all(pc.equal(pc.floor(sample), sample)).as_py())
        if whole and high - low < bins:  # one bin a whole number
            bins = int(high - low) + 1
            low, high = low - 0.5, low + bins - 0.5
        counts = _bin_counts(inside, low, high, bins)
        return Histogram(low, high, tuple(scale * count for count in counts), below, above)

    def _add_finite(self, values: pa.Array, seed: str) -> None:
        self.count += len(values)
        bounds = pc.min_max(values)
        self._widen(bounds["min"].as_py(), bounds["max"].as_py())
        if self.distinct is not None:
            found = pc.value_counts(values)
            few = len(found) <= MAX_DISTINCT
            self._count_distinct({each["values"]: each["counts"] for each in found.to_pylist()} if few else None)
        numbers = values.cast(pa.float64(), safe=False)
        self.total += pc.sum(numbers).as_py()
        table = pa.table({"value": numbers, "ticket": pc.random(len(numbers), initializer=_seed(seed))})
        self._keep([table])

    def _widen(self, minimum: float | None, maximum: float | None) -> None:
        if minimum is not None:
            self.minimum = minimum if self.minimum is None else min(self.minimum, minimum)
        if maximum is not None:
            self.maximum = maximum if self.maximum is None else max(self.maximum, maximum)

    def _count_distinct(self, found: Mapping[int, int] | None) -> None:
        if self.distinct is None:
            return
        if found is None:
            self.distinct = None
            return
        for value, count in found.items():
            self.distinct[value] = self.distinct.get(value, 0) + count
        if len(self.distinct) > MAX_DISTINCT:
            self.distinct = None

    def _keep(self, tables: Sequence[pa.Table]) -> None:
        for table in tables:
            chosen = table
            if self._limit is not None:
                chosen = table.filter(pc.less(table["ticket"], self._limit))
            if chosen.num_rows:
                self._kept.append(chosen)
                self._kept_rows += chosen.num_rows
        if self._kept_rows > 2 * SAMPLE:
            self._shrink(SAMPLE)

    def _shrink(self, rows: int) -> None:
        """Leaves the smallest tickets."""
        if self._kept_rows <= rows:
            return
        table = pa.concat_tables(self._kept)
        smallest = pc.select_k_unstable(table, rows, sort_keys=[("ticket", "ascending")])
        table = table.take(smallest)
        self._kept, self._kept_rows = [table], table.num_rows
        self._limit = cast("float", pc.max(table["ticket"]).as_py())

    def _shown_range(self) -> tuple[float, float]:
        """Returns the range that the histogram covers: all values, but for those far out on either side."""
        low, high = float(cast("float", self.minimum)), float(cast("float", self.maximum))
        tail = max(_TAIL, min(_SMALL_TAIL, _FAR_VALUES / self.count))
        inner_low, inner_high = self.quantiles((tail, 1 - tail)).values()
        span = inner_high - inner_low
        if not 0 < span < math.inf:
            return low, high
        return (
            inner_low if inner_low - low > _FAR_SPANS * span else low,
            inner_high if high - inner_high > _FAR_SPANS * span else high,
        )


def _bin_counts(values: pa.ChunkedArray, low: float, high: float, bins: int) -> list[int]:
    width = high / bins - low / bins  # the difference itself may overflow
    if not (width > 0 and math.isfinite(1 / width)) or len(values) == 0:
        return [len(values)]
    places = pc.floor(pc.divide(pc.subtract(pc.divide(values, 2.0), low / 2), width / 2))
    places = pc.min_element_wise(pc.max_element_wise(places, 0.0), float(bins - 1)).cast(pa.int32())
    counts = [0] * bins
    for each in pc.value_counts(places).to_pylist():
        counts[each["values"]] = each["counts"]
    return counts


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=7).digest(), "big")
