"""How colourful a picture is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Measures, Picture

GRAY_SPREAD = 8  # levels between the largest and the smallest of R, G, B, below which a pixel looks gray


def measure_saturation(picture: Picture) -> Measures:
    """HSV saturation as fractions 0-1, colourfulness, and whether 99 % of the pixels look gray.

    Source: Hasler & Süsstrunk, Measuring colourfulness in natural images, 2003 (their M3).
    """
    import cv2

    from sidecar_filters.histograms import byte_histogram, mean_and_std, percentile

    counts = byte_histogram(cv2.extractChannel(picture.hsv, 1))
    mean, std = mean_and_std(counts)
    blue, green, red = cv2.split(picture.analysis)
    spread = cv2.subtract(cv2.max(cv2.max(blue, green), red), cv2.min(cv2.min(blue, green), red))
    red_green = cv2.subtract(red, green, dtype=cv2.CV_16S)
    twice_yellow_blue = cv2.subtract(
        cv2.add(red, green, dtype=cv2.CV_16S), cv2.add(blue, blue, dtype=cv2.CV_16S), dtype=cv2.CV_16S
    )
    (rg_mean,), (rg_std,) = (values.ravel().tolist() for values in cv2.meanStdDev(red_green))
    (yb_mean,), (yb_std,) = (values.ravel().tolist() for values in cv2.meanStdDev(twice_yellow_blue))
    colorfulness = (rg_std**2 + yb_std**2 / 4) ** 0.5 + 0.3 * (rg_mean**2 + yb_mean**2 / 4) ** 0.5
    return {
        "mean": mean / 255,
        "std": std / 255,
        "p95": percentile(counts, 95) / 255,
        "colorfulness": colorfulness,
        "is_grayscale": percentile(byte_histogram(spread), 99) < GRAY_SPREAD,
    }


SATURATION = register_filter(
    Filter("saturation", struct="filter_saturation_v1", needs=Need.ANALYSIS, measure=measure_saturation)
)
