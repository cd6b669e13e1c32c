"""How many different colours, levels and hues a picture has, as entropies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_filters.base import Image, Measures, Picture

HUE_LEVELS_PER_BIN = 5  # OpenCV's 8-bit hue has 180 levels
LEAST_SATURATION = 25  # of 255: a pixel counts when it is above, which is a saturation above 0.1


def measure_color_entropy(picture: Picture) -> Measures:
    """Entropies in bits: of the 8×8×8 RGB histogram (0-9), of luma (0-8), of the hues of coloured pixels.

    Source: Shannon 1948.
    """
    import cv2
    import numpy as np

    from sidecar_filters.histograms import byte_histogram, entropy_bits

    planes: Sequence[Image] = cv2.split(picture.analysis)
    blue, green, red = planes
    blue_green = (blue >> 5 << 3) | (green >> 5)  # one plane of 64 levels: two planes count faster than three
    colors = cv2.calcHist([blue_green, red], [0, 1], None, [64, 8], [0, 64, 0, 256])
    hue, saturation, _ = cv2.split(picture.hsv)
    _, coloured = cv2.threshold(saturation, LEAST_SATURATION, 255, cv2.THRESH_BINARY)
    hues = byte_histogram(hue, mask=coloured)[:180].reshape(-1, HUE_LEVELS_PER_BIN).sum(axis=1)
    return {
        "entropy": entropy_bits(colors.ravel().astype(np.int64)),
        "luma_entropy": entropy_bits(picture.gray_histogram),
        "hue_entropy": entropy_bits(hues),
    }


COLOR_ENTROPY = register_filter(
    Filter(
        "color_entropy", struct="filter_color_entropy_v1", needs=Need.ANALYSIS, measure=measure_color_entropy, version=2
    )
)
