"""How bright a picture is, and how its brightness is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Measures, Picture

DARK, BRIGHT = 16, 239


def measure_luma(picture: Picture) -> Measures:
    """Moments and percentiles of BT.601 luma, 0-255, and the fractions of dark and bright pixels.

    Source: luma of ITU-R BT.601; fields and thresholds are in schemas/filters.yaml.
    """
    from sidecar_filters.histograms import mean_and_std, percentile

    counts = picture.gray_histogram
    total = int(counts.sum())
    mean, std = mean_and_std(counts)
    levels = {f"p{percent:02d}": percentile(counts, percent) for percent in (1, 5, 50, 95, 99)}
    return {
        "mean": mean,
        "std": std,
        **levels,
        "contrast": (levels["p95"] - levels["p05"]) / 255,
        "dark_fraction": int(counts[:DARK].sum()) / total,
        "bright_fraction": int(counts[BRIGHT + 1 :].sum()) / total,
    }


LUMA = register_filter(Filter("luma", struct="filter_luma_v1", needs=Need.ANALYSIS, measure=measure_luma, version=2))
