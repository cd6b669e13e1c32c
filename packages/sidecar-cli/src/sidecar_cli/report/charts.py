"""Geometry of the page's charts: plain numbers for inline SVG, in a drawing of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar_core.problems import counted

from sidecar_cli.report.extremes import number_text
from sidecar_cli.report.figures import Histogram, MeasureFigures

WIDTH, HEIGHT = 320.0, 88.0
_LEAST_BAR = 1.5  # a bin with few values must not look empty
_GAP = 0.6
MARKED = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Bar:
    """One bar: its place in the drawing, and what it says."""

    x: float
    y: float
    width: float
    height: float
    words: str


@dataclass(frozen=True)
class Marker:
    """A vertical line at a quantile."""

    x: float
    words: str
    middle: bool


def bars(histogram: Histogram, *, exact: bool) -> list[Bar]:
    """Returns the bars of a histogram; heights are in proportion to counts."""
    step = WIDTH / len(histogram.counts)
    tallest = max(histogram.counts) or 1.0
    width = histogram.upper / len(histogram.counts) - histogram.lower / len(histogram.counts)
    found: list[Bar] = []
    for index, count in enumerate(histogram.counts):
        if count <= 0:
            continue
        height = max(_LEAST_BAR, count / tallest * HEIGHT)
        low = histogram.lower + index * width
        edges = f"{number_text(low)} to {number_text(low + width)}"
        about = "" if exact else "about "
        rows = f"{edges}: {about}{counted(round(count), 'row')}"
        gap = min(_GAP, step / 4)
        x, w = round(index * step + gap, 2), round(step - 2 * gap, 2)
        found.append(Bar(x, round(HEIGHT - height, 2), w, round(height, 2), rows))
    return found


def markers(measure: MeasureFigures) -> list[Marker]:
    """Returns lines at p5, the median and p95, where they lie in the drawing."""
    histogram = measure.histogram
    if histogram is None or not histogram.upper > histogram.lower:
        return []
    span = histogram.upper - histogram.lower
    found: list[Marker] = []
    for share in MARKED:
        value = measure.quantiles.get(share)
        if value is not None and histogram.lower <= value <= histogram.upper:
            x = (value - histogram.lower) / span * WIDTH
            name = "median" if share == 0.5 else f"p{100 * share:.0f}"
            found.append(Marker(round(x, 2), f"{name} {number_text(value)}", share == 0.5))
    return found


def summary(measure: MeasureFigures) -> str:
    """Returns a histogram in a sentence, for those who cannot see it."""
    if not measure.quantiles:
        return "no values"
    shares = {0.05: "p5", 0.5: "median", 0.95: "p95"}
    parts = [f"{name} {number_text(measure.quantiles[share])}" for share, name in shares.items()]
    ends = f"from {number_text(measure.minimum)} to {number_text(measure.maximum)}"
    return f"Histogram of {counted(measure.count, 'value')} {ends}; " + ", ".join(parts)


def share_width(part: float, whole: float, *, full: float = 100.0) -> float:
    """Returns the length of a bar that stands for a share; never nothing for something, nor all for less than all."""
    if not whole or part <= 0:
        return 0.0
    if part >= whole:
        return full
    return round(min(max(part / whole * full, full / 100), full * 0.99), 2)


def tallest(counts: Sequence[float]) -> float:
    """Returns the greatest of some counts, at least 1."""
    return max([*counts, 1])
