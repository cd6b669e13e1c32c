"""Texture against scikit-image and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from sidecar_filters.base import Picture
from sidecar_filters.filters.texture import measure_texture
from sidecar_filters.testing.pictures import encoded, scene
from skimage.feature import graycomatrix, graycoprops

ANGLES = (0, np.pi / 4, np.pi / 2, 3 * np.pi / 4)


def texture(gray):
    return measure_texture(Picture(encoded(gray, "PNG")))


def smooth_noise(width, height, seed, sigma):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width)).astype(float)
    return np.clip(ndimage.gaussian_filter(noise, sigma), 0, 255).astype(np.uint8)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 50), st.integers(2, 50), st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_cooccurrence_is_scikit_images(width, height, seed, sigma):
    gray = smooth_noise(width, height, seed, sigma)
    matrix = graycomatrix(gray >> 3, [1], ANGLES, levels=32, symmetric=True, normed=True)
    found = texture(gray)
    for name in ("contrast", "homogeneity", "energy", "entropy"):
        assert found[f"glcm_{name}"] == pytest.approx(graycoprops(matrix, name).mean(), rel=1e-6, abs=1e-9), name


def test_angles_without_any_pair_are_left_out():
    row = np.array([[0, 8, 8, 255]], np.uint8)
    matrix = graycomatrix(row >> 3, [1], [0], levels=32, symmetric=True, normed=True)
    assert texture(row)["glcm_contrast"] == pytest.approx(graycoprops(matrix, "contrast").item())
    single = texture(row[:, :1])
    assert [single[f"glcm_{name}"] for name in ("contrast", "homogeneity", "energy", "entropy")] == [0, 1, 1, 0]


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 50), st.integers(4, 50), st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_local_std_is_the_mean_of_the_windows(width, height, seed, sigma):
    gray = smooth_noise(width, height, seed, sigma)
    windows = ndimage.generic_filter(gray.astype(float), np.std, size=7, mode="mirror")
    assert texture(gray)["local_std"] == pytest.approx(windows.mean(), rel=1e-5, abs=1e-6)


def test_blocks_are_flat_below_a_standard_deviation_of_two():
    flat, just_flat, not_flat = np.full((16, 16), 9), np.full((16, 16), 9), np.full((16, 16), 9)
    just_flat[::2] += 3  # std 1.5
    not_flat[::2] += 4  # std 2
    blocks = np.concatenate([flat, just_flat, not_flat, not_flat], axis=1).astype(np.uint8)
    assert texture(blocks)["flat_fraction"] == 0.5
    assert texture(np.pad(blocks, ((0, 9), (0, 9)), mode="edge"))["flat_fraction"] == 0.5  # whole blocks only


@pytest.mark.parametrize("shape", [(5, 5), (5, 40), (40, 5)])
def test_a_smaller_picture_is_a_block_of_its_own(shape):
    flat = np.full(shape, 200, np.uint8)
    assert texture(flat)["flat_fraction"] == 1
    rough = flat.copy()
    rough[::2] = 100
    assert texture(rough)["flat_fraction"] == 0


def test_noise_adds_texture():
    random = np.random.default_rng(7)
    ladder = [
        texture(np.clip(128 + random.normal(0, sigma, (120, 120)), 0, 255).astype(np.uint8)) for sigma in (0, 4, 12, 40)
    ]
    for field, rises in (
        ("local_std", True),
        ("glcm_contrast", True),
        ("glcm_entropy", True),
        ("flat_fraction", False),
    ):
        values = [row[field] for row in ladder]
        assert values == sorted(values, reverse=not rises)
        assert values[0] != values[-1]


def test_values_are_whole_numbers_until_the_end():
    """One flat picture of each level: no rounding may leave a trace of texture."""
    for level in range(0, 256, 5):
        found = texture(np.full((50, 50), level, np.uint8))
        assert (found["local_std"], found["flat_fraction"], found["glcm_entropy"]) == (0, 1, 0)
    assert texture(scene(100, 80)[..., 0])["local_std"] > 1
