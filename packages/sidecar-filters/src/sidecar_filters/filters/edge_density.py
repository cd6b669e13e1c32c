"""How many edges a picture has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Measures, Picture

LOW, HIGH = 100.0, 200.0
BELOW_MEDIAN, ABOVE_MEDIAN = 0.67, 1.33


def measure_edge_density(picture: Picture) -> Measures:
    """Fractions of pixels on a Canny edge: with thresholds 100 and 200, and with thresholds by the median luma.

    Source: Canny 1986, after a 5×5 Gaussian (1 4 6 4 1), aperture 3, L2 gradient.
    """
    import cv2

    from sidecar_filters.histograms import percentile

    blurred = cv2.GaussianBlur(picture.gray, (5, 5), 0)  # sigma 0 selects the kernel 1 4 6 4 1
    dx = cv2.Sobel(blurred, cv2.CV_16S, 1, 0, borderType=cv2.BORDER_REPLICATE)  # what Canny would compute, twice
    dy = cv2.Sobel(blurred, cv2.CV_16S, 0, 1, borderType=cv2.BORDER_REPLICATE)
    median = percentile(picture.gray_histogram, 50)
    low, high = max(0.0, BELOW_MEDIAN * median), min(255.0, ABOVE_MEDIAN * median)

    def fraction(low: float, high: float) -> float:
        return cv2.countNonZero(cv2.Canny(dx, dy, low, high, L2gradient=True)) / blurred.size

    return {"fraction": fraction(LOW, HIGH), "fraction_auto": fraction(low, high)}


EDGE_DENSITY = register_filter(
    Filter(
        "edge_density", struct="filter_edge_density_v1", needs=Need.ANALYSIS, measure=measure_edge_density, version=2
    )
)
