"""Shrinking against OpenCV's INTER_AREA, and against sums written out."""

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_filters.area import shrink_by_area


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 150), st.integers(1, 150), st.integers(0, 2**32 - 1))
def test_it_is_opencvs_but_for_rounding(data, tall, wide, seed):
    height, width = data.draw(st.integers(1, tall)), data.draw(st.integers(1, wide))
    pixels = np.random.default_rng(seed).integers(0, 256, (tall, wide, 3), dtype=np.uint8)
    found = shrink_by_area(pixels, width, height).astype(int)
    expected = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA).astype(int)
    assert found.shape == (height, width, 3)
    assert np.abs(found - expected).max() <= 1
    exact = means(pixels, height, axis=0)
    exact = means(exact, width, axis=1)
    assert np.abs(found - exact).max() <= 0.5 + 1e-3


def means(values, count, axis):
    """Means of `count` equal stretches along an axis, the pixels at the edges weighted by what is covered."""
    values = np.moveaxis(values.astype(float), axis, 0)
    sums = np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])
    edges = np.arange(count + 1) * (len(values) / count)
    whole = np.minimum(edges.astype(int), len(values) - 1)
    at_edges = sums[whole] + (edges - whole).reshape(-1, *[1] * (values.ndim - 1)) * values[whole]
    return np.moveaxis(np.diff(at_edges, axis=0) / (len(values) / count), 0, axis)


def test_rounding_differs_in_hardly_any_pixel():
    pixels = np.random.default_rng(1).integers(0, 256, (1000, 1300, 3), dtype=np.uint8)
    differing = shrink_by_area(pixels, 583, 449) != cv2.resize(pixels, (583, 449), interpolation=cv2.INTER_AREA)
    assert differing.mean() < 1e-4
