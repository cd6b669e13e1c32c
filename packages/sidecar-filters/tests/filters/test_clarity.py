"""Sharpness against scikit-image and SciPy, and against blur that is put in."""

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import ndimage
from sidecar_filters.base import Picture
from sidecar_filters.filters.clarity import measure_clarity
from sidecar_filters.testing.pictures import encoded, scene
from skimage.filters import sobel
from skimage.measure import blur_effect


def clarity(pixels):
    return measure_clarity(Picture(encoded(pixels, "PNG")))


def axis_blurs(gray):
    """scikit-image's blur along each axis that has a gradient; along others its releases differ, NaN or 1."""
    inside = (slice(2, gray.shape[0] - 1), slice(2, gray.shape[1] - 1))
    slopes = [np.abs(sobel(gray.astype(float), axis=axis))[inside].sum() for axis in (0, 1)]
    with np.errstate(invalid="ignore"):
        blurs = blur_effect(gray.astype(float) / 255, h_size=11, reduce_func=None)
    return [blur for blur, slope in zip(blurs, slopes, strict=True) if slope]


@settings(max_examples=40, deadline=None)
@example(6, 6, 279, 3.0)  # no gradient along one axis
@given(st.integers(6, 60), st.integers(6, 60), st.integers(0, 2**32 - 1), st.floats(0, 4))
def test_blur_is_scikit_images(width, height, seed, sigma):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width)).astype(float)
    gray = np.clip(ndimage.gaussian_filter(noise, sigma), 0, 255).astype(np.uint8)
    by_axis = axis_blurs(gray)
    assert clarity(gray)["blur"] == pytest.approx(max(by_axis, default=1.0), rel=1e-6, abs=1e-9)


def test_an_axis_without_gradient_is_left_out():
    stripes = np.tile(np.array([0, 0, 255, 255] * 10, np.uint8), (40, 1))
    (across,) = axis_blurs(stripes)
    assert 0 < across < 1
    assert clarity(stripes)["blur"] == pytest.approx(across, rel=1e-6)
    assert clarity(np.full((40, 40), 9, np.uint8))["blur"] == 1.0


def test_laplacian_and_tenengrad_are_their_convolutions():
    gray = cv2.cvtColor(scene(60, 50), cv2.COLOR_BGR2GRAY).astype(float)
    found = clarity(gray.astype(np.uint8))
    laplacian = ndimage.convolve(gray, [[0, 1, 0], [1, -4, 1], [0, 1, 0]], mode="mirror")
    gx, gy = (ndimage.sobel(gray, axis=axis, mode="mirror") for axis in (1, 0))
    assert found["laplacian_variance"] == pytest.approx(laplacian.var(), rel=1e-9)
    assert found["tenengrad"] == pytest.approx((gx**2 + gy**2).mean(), rel=1e-9)
    assert found["score"] == pytest.approx(np.log10(1 + laplacian.var()) / 4, rel=1e-9)


def test_a_score_stays_within_its_range():
    assert clarity(np.full((20, 20), 3, np.uint8))["score"] == 0
    checkers = np.indices((64, 64)).sum(axis=0) % 2 * 255
    assert clarity(checkers.astype(np.uint8))["score"] == 1


def test_blurred_pictures_are_less_clear():
    sharp = scene(400, 300)
    sigmas = (0.5, 1, 1.5, 2, 3, 4)
    ladder = [clarity(sharp), *(clarity(cv2.GaussianBlur(sharp, (0, 0), sigma)) for sigma in sigmas)]
    for field in ("laplacian_variance", "tenengrad", "score"):
        values = [row[field] for row in ladder]
        assert values == sorted(values, reverse=True)
        assert values[-1] < values[0] / 1.5
    blurs = [row["blur"] for row in ladder]
    assert blurs == sorted(blurs)
    assert blurs[-1] > blurs[0] + 0.2
