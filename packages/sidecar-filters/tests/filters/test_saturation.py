"""Saturation and colourfulness against their published formulas."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_filters.base import Picture
from sidecar_filters.filters.saturation import measure_saturation
from sidecar_filters.testing.pictures import encoded, scene


def saturation(pixels):
    return measure_saturation(Picture(encoded(pixels, "PNG")))


def colorfulness(bgr):
    """Hasler and Süsstrunk 2003, equations for rg, yb and M3, in floating point."""
    blue, green, red = (bgr[..., channel].astype(float) for channel in range(3))
    rg, yb = red - green, (red + green) / 2 - blue
    return np.hypot(rg.std(), yb.std()) + 0.3 * np.hypot(rg.mean(), yb.mean())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1), st.integers(1, 256))
def test_colorfulness_is_the_published_one(width, height, seed, spread):
    pixels = np.random.default_rng(seed).integers(0, spread, (height, width, 3), dtype=np.uint8)
    assert saturation(pixels)["colorfulness"] == pytest.approx(colorfulness(pixels), rel=1e-6, abs=1e-6)


def test_saturation_is_the_spread_over_the_largest_channel():
    pixels = np.array([[(0, 0, 255), (128, 128, 128), (100, 200, 150), (0, 0, 0)]], np.uint8)
    expected = np.array([1.0, 0.0, 0.5, 0.0])
    found = saturation(pixels)
    assert found["mean"] == pytest.approx(expected.mean(), abs=1 / 255)
    assert found["std"] == pytest.approx(expected.std(), abs=1 / 255)
    assert found["p95"] == 1.0


def test_more_saturated_pictures_have_more_of_it():
    hsv = cv2.cvtColor(scene(), cv2.COLOR_BGR2HSV)
    ladder = []
    for factor in (0.0, 0.25, 0.5, 0.75, 1.0):
        scaled = hsv.copy()
        scaled[..., 1] = (hsv[..., 1] * factor).astype(np.uint8)
        ladder.append(saturation(cv2.cvtColor(scaled, cv2.COLOR_HSV2BGR)))
    for field in ("mean", "p95", "colorfulness"):
        values = [row[field] for row in ladder]
        assert values == sorted(values)
        assert values[0] < values[-1] / 4
    assert [row["is_grayscale"] for row in ladder] == [True, False, False, False, False]


@pytest.mark.parametrize(("coloured", "gray"), [(1, True), (2, False)])
def test_grayscale_allows_one_pixel_in_a_hundred(coloured, gray):
    pixels = np.full((10, 10, 3), 90, np.uint8)
    pixels.reshape(-1, 3)[:coloured] = (90, 90, 98)
    assert saturation(pixels)["is_grayscale"] is gray


def test_a_spread_of_seven_looks_gray_and_eight_does_not():
    for spread, gray in ((7, True), (8, False)):
        assert saturation(np.full((5, 5, 3), (100, 100 + spread, 100), np.uint8))["is_grayscale"] is gray
