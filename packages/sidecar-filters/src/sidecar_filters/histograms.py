"""Counts of levels, and what is read from them: exact, whatever the machine. Used in isolated children only."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sidecar_filters.base import Image


def byte_histogram(plane: Image, *, mask: Image | None = None) -> NDArray[np.int64]:
    """Returns (256,) the number of pixels at each level of a (h, w) uint8 plane, where `mask` is not 0.

    Exact for planes below 2^24 pixels, as analysis images are: OpenCV counts in float32.
    """
    counts = cv2.calcHist([plane], [0], mask, [256], [0, 256])
    return cast("NDArray[np.int64]", counts.ravel().astype(np.int64))


def percentile(counts: NDArray[np.int64], percent: int) -> int:
    """Returns the smallest level that `percent` % of the pixels do not exceed."""
    cumulated = np.cumsum(counts)
    return int(np.searchsorted(cumulated * 100, percent * cumulated[-1]))


def mean_and_std(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Returns the mean level, and the population's standard deviation."""
    levels = np.arange(len(counts))
    total = int(counts.sum())
    first = int((counts * levels).sum())
    second = int((counts * levels * levels).sum())
    return first / total, max(0, total * second - first * first) ** 0.5 / total


def entropy_bits(counts: NDArray[np.int64]) -> float:
    """Returns the entropy of a histogram in bits; 0 for an empty one."""
    total = int(counts.sum())
    if not total:
        return 0.0
    shares = counts[counts > 0] / total
    return max(0.0, float(-(shares * np.log2(shares)).sum()))
