"""Edges against a Canny detector written out with SciPy."""

import cv2
import numpy as np
import pytest
from scipy import ndimage
from sidecar_filters.base import Picture
from sidecar_filters.filters.edge_density import measure_edge_density
from sidecar_filters.testing.pictures import encoded, scene

KERNEL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256


def edges(gray):
    return measure_edge_density(Picture(encoded(gray, "PNG")))


def canny(gray, low, high):
    """Canny 1986 with L2 gradient: thinned along the nearest of four directions, then connected from strong edges."""
    blurred = np.floor(ndimage.convolve(gray.astype(float), KERNEL, mode="mirror") + 0.5)
    gx, gy = (ndimage.sobel(blurred, axis=axis, mode="nearest") for axis in (1, 0))
    squared = gx**2 + gy**2
    padded = np.pad(squared, 1)
    around = {
        (dy, dx): padded[1 + dy : 1 + dy + gray.shape[0], 1 + dx : 1 + dx + gray.shape[1]]
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
    }
    steep = np.abs(gy) >= np.tan(np.radians(67.5)) * np.abs(gx)
    level = np.abs(gy) < np.tan(np.radians(22.5)) * np.abs(gx)
    falling = (gx < 0) != (gy < 0)
    thin = np.where(level, (squared > around[0, -1]) & (squared >= around[0, 1]), False)
    thin |= np.where(steep & ~level, (squared > around[-1, 0]) & (squared >= around[1, 0]), False)
    slanted = ~level & ~steep
    thin |= slanted & ~falling & (squared > around[-1, -1]) & (squared > around[1, 1])
    thin |= slanted & falling & (squared > around[-1, 1]) & (squared > around[1, -1])
    weak = thin & (squared > np.floor(low**2))
    labels, _ = ndimage.label(weak, structure=np.ones((3, 3)))
    strong = np.unique(labels[weak & (squared > np.floor(high**2))])
    return np.isin(labels, strong[strong > 0])


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_both_fractions_are_those_of_the_written_out_detector(seed):
    gray = cv2.cvtColor(scene(160, 120, seed), cv2.COLOR_BGR2GRAY)
    median = np.sort(gray.ravel())[(gray.size + 1) // 2 - 1]
    found = edges(gray)
    assert found["fraction"] == pytest.approx(canny(gray, 100, 200).mean(), rel=0.02)
    low, high = 0.67 * median, min(255, 1.33 * median)
    assert found["fraction_auto"] == pytest.approx(canny(gray, low, high).mean(), rel=0.02)


def test_the_blur_before_has_the_kernel_1_4_6_4_1():
    impulse = np.zeros((9, 9), np.uint8)
    impulse[4, 4] = 255
    expected = np.floor(255 * KERNEL + 0.5).astype(np.uint8)
    assert (cv2.GaussianBlur(impulse, (5, 5), 0)[2:7, 2:7] == expected).all()


def test_one_edge_is_one_line_of_pixels():
    step = np.zeros((100, 100), np.uint8)
    step[:, 50:] = 255
    assert edges(step)["fraction"] == pytest.approx(0.01)
    assert edges(np.full((30, 30), 255, np.uint8)) == {"fraction": 0, "fraction_auto": 0}


def test_blur_takes_edges_away():
    sharp = scene(300, 200)
    values = [edges(cv2.GaussianBlur(sharp, (0, 0), sigma))["fraction"] for sigma in (0.3, 2, 4, 8)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0] / 2
