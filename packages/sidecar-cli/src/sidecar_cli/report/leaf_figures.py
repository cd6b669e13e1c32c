"""What is kept of one leaf while shards are read, and its figures in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from sidecar_cli.report.extremes import Extremes
from sidecar_cli.report.figures import MeasureFigures, ValueFigures
from sidecar_cli.report.leaves import Leaf, describe_type
from sidecar_cli.report.number_sketch import NumberSketch
from sidecar_cli.report.shown_text import shown
from sidecar_cli.report.value_counts import TimeRange, ValueCounts


@dataclass
class LeafFigures:
    """Figures of one leaf; which of them are filled depends on its kind."""

    leaf: Leaf
    numbers: NumberSketch = field(default_factory=NumberSketch)
    values: ValueCounts = field(default_factory=ValueCounts)
    times: TimeRange = field(default_factory=TimeRange)
    extremes: Extremes = field(default_factory=lambda: Extremes(0))

    def merge(self, other: LeafFigures) -> None:
        """Adds the figures of a shard that comes later."""
        self.numbers.merge(other.numbers)
        self.values.merge(other.values)
        self.times.merge(other.times)
        self.extremes.merge(other.extremes)


def measure_figures(figures: LeafFigures, doc: str) -> MeasureFigures:
    """Returns the figures of a leaf of numbers or of lists."""
    numbers, leaf = figures.numbers, figures.leaf
    items = leaf.kind == "items"
    return MeasureFigures(
        path=shown(f"{leaf.name} (items)" if items else leaf.name),
        column=shown(leaf.path[0]),
        type=shown(describe_type(leaf.type)),
        doc=doc,
        rows=numbers.rows,
        null=numbers.null,
        nan=numbers.nan,
        infinite=numbers.infinite,
        count=numbers.count,
        minimum=numbers.minimum,
        maximum=numbers.maximum,
        mean=numbers.mean,
        quantiles=numbers.quantiles(),
        exact=numbers.exact,
        sample=len(numbers.sample),
        histogram=numbers.histogram(),
        distinct=dict(sorted((numbers.distinct or {}).items())),
        lowest=figures.extremes.lowest(),
        highest=figures.extremes.highest(),
    )


def value_figures(figures: LeafFigures, doc: str) -> ValueFigures:
    """Returns the figures of any other leaf."""
    leaf = figures.leaf
    counts, times = figures.values, figures.times
    first, last = times.shown()
    top = counts.top()
    return ValueFigures(
        path=shown(leaf.name),
        column=shown(leaf.path[0]),
        type=shown(describe_type(leaf.type)),
        doc=doc,
        rows=counts.rows or times.rows,
        null=counts.null or times.null,
        top=top,
        other=sum((counts.counts or {}).values()) - sum(count for _, count in top),
        distinct=len(counts.counts) if counts.counts is not None and leaf.kind != "time" else None,
        shortest=counts.shortest,
        longest=counts.longest,
        first=first,
        last=last,
        examples=tuple(counts.examples),
    )
