"""Entropies against SciPy."""

import cv2
import numpy as np
import pytest
from scipy.stats import entropy
from sidecar_filters.base import Picture
from sidecar_filters.filters.color_entropy import measure_color_entropy
from sidecar_filters.testing.pictures import encoded, scene


def color_entropy(pixels):
    return measure_color_entropy(Picture(encoded(pixels, "PNG")))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_what_scipy_says_of_the_histograms(seed):
    pixels = scene(200, 150, seed)
    found = color_entropy(pixels)
    colors, _ = np.histogramdd(pixels.reshape(-1, 3), bins=[np.arange(0, 257, 32)] * 3)
    gray = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    hsv = cv2.cvtColor(pixels, cv2.COLOR_BGR2HSV)
    hues = hsv[..., 0][hsv[..., 1] / 255 > 0.1]
    assert found["entropy"] == pytest.approx(entropy(colors.ravel(), base=2), rel=1e-9)
    assert found["luma_entropy"] == pytest.approx(entropy(np.bincount(gray.ravel()), base=2), rel=1e-9)
    assert found["hue_entropy"] == pytest.approx(entropy(np.bincount(hues // 5, minlength=36), base=2), rel=1e-9)


def test_one_color_has_none_and_all_colors_have_all():
    assert color_entropy(np.full((9, 9, 3), 77, np.uint8)) == {"entropy": 0, "luma_entropy": 0, "hue_entropy": 0}
    cube = np.stack(np.meshgrid(*[np.arange(16, 256, 32, dtype=np.uint8)] * 3), axis=-1).reshape(16, 32, 3)
    assert color_entropy(cube)["entropy"] == pytest.approx(9)
    assert color_entropy(np.arange(256, dtype=np.uint8).reshape(16, 16))["luma_entropy"] == pytest.approx(8)


def test_evenly_spread_hues_have_the_most():
    hsv = np.full((10, 180, 3), 255, np.uint8)
    hsv[..., 0] = np.arange(180)
    found = color_entropy(cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR))
    assert found["hue_entropy"] == pytest.approx(np.log2(36), abs=0.02)


def test_noise_adds_entropy():
    random = np.random.default_rng(5)
    base = np.full((80, 80, 3), 128.0)
    ladder = [
        color_entropy(np.clip(base + random.normal(0, sigma, base.shape), 0, 255).astype(np.uint8))
        for sigma in (0, 5, 20, 60)
    ]
    for field in ("entropy", "luma_entropy"):
        values = [row[field] for row in ladder]
        assert values == sorted(values)
        assert values[-1] > values[0] + 2
