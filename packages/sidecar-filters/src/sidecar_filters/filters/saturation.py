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
    differences = cv2.absdiff(red, green), cv2.absdiff(red, blue), cv2.absdiff(green, blue)
    spread = cv2.max(cv2.max(differences[0], differences[1]), differences[2])
    gray_looking = red.size - cv2.countNonZero(cv2.threshold(spread, GRAY_SPREAD - 1, 1, cv2.THRESH_BINARY)[1])
    return {
        "mean": mean / 255,
        "std": std / 255,
        "p95": percentile(counts, 95) / 255,
        "colorfulness": _colorfulness(
            [cv2.sumElems(plane)[0] for plane in (red, green, blue)],
            [cv2.norm(plane, cv2.NORM_L2SQR) for plane in differences],
            red.size,
        ),
        "is_grayscale": gray_looking * 100 >= 99 * red.size,
    }


def _colorfulness(sums: list[float], squares: list[float], count: int) -> float:
    """M3 from whole numbers: the sums of R, G, B, and of (R−G)², (R−B)², (G−B)².

    With rg = R−G and yb = (R+G)/2 − B: 2·yb = (R−B) + (G−B), so Σ(2·yb)² = 2Σ(R−B)² + 2Σ(G−B)² − Σ(R−G)².
    """
    red, green, blue = sums
    rg_mean, yb_mean = (red - green) / count, (red + green - 2 * blue) / 2 / count
    rg_square, yb_square = squares[0] / count, (2 * squares[1] + 2 * squares[2] - squares[0]) / 4 / count
    deviation = max(0.0, rg_square - rg_mean**2) + max(0.0, yb_square - yb_mean**2)
    return deviation**0.5 + 0.3 * (rg_mean**2 + yb_mean**2) ** 0.5


SATURATION = register_filter(
    Filter("saturation", struct="filter_saturation_v1", needs=Need.ANALYSIS, measure=measure_saturation, version=2)
)
