"""Luma against numpy on hand-made pictures, and against what must rise or fall."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_filters.base import Picture
from sidecar_filters.filters.luma import measure_luma
from sidecar_filters.testing.pictures import encoded, scene


def luma(pixels, kind="PNG"):
    return measure_luma(Picture(encoded(pixels, kind)))


def smallest_level_not_exceeded(values, percent):
    """The definition, word for word: the smallest level that so many percent of the pixels do not exceed."""
    return next(level for level in range(256) if 100 * (values <= level).sum() >= percent * values.size)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_every_field_is_what_the_definition_says(width, height, seed):
    values = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    found = luma(values)
    expected = {f"p{percent:02d}": smallest_level_not_exceeded(values, percent) for percent in (1, 5, 50, 95, 99)}
    expected |= {
        "mean": values.mean(),
        "std": values.std(),
        "contrast": (expected["p95"] - expected["p05"]) / 255,
        "dark_fraction": (values < 16).mean(),
        "bright_fraction": (values > 239).mean(),
    }
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_edges_of_dark_and_bright():
    found = luma(np.array([[15, 16, 239, 240]], np.uint8))
    assert (found["dark_fraction"], found["bright_fraction"]) == (0.25, 0.25)


def test_primaries_weigh_as_bt601_says():
    for color, weight in (((0, 0, 255), 0.299), ((0, 255, 0), 0.587), ((255, 0, 0), 0.114)):
        assert luma(np.full((4, 4, 3), color, np.uint8))["mean"] == pytest.approx(255 * weight, abs=0.5)


def test_brighter_pictures_have_more_luma():
    means = [luma(cv2.convertScaleAbs(scene(), alpha=factor))["mean"] for factor in (0.2, 0.4, 0.6, 0.8, 1.0)]
    assert means == sorted(means)
    assert means[0] < means[-1] / 3
