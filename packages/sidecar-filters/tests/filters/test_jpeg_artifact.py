"""Compression's traces against definitions written out, and against what Pillow was told to write."""

import io

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sidecar_filters.base import Picture
from sidecar_filters.filters.jpeg_artifact import measure_jpeg_artifact
from sidecar_filters.testing.pictures import encoded, scene


def artifact(data):
    return measure_jpeg_artifact(Picture(data))


def blockiness(gray):
    """Mean step across the lines of the 8-pixel grid over the mean step elsewhere, pixel by pixel."""
    ratios = []
    for values in (gray.astype(int), gray.astype(int).T):
        border, inside = [], []
        for x in range(1, values.shape[1]):
            (border if x % 8 == 0 else inside).extend(np.abs(values[:, x] - values[:, x - 1]))
        if border:
            b, i = np.mean(border), np.mean(inside)
            ratios.append(min(100, b / i) if i else (1 if b == 0 else 100))
    return np.mean(ratios) if ratios else None


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 256]))
def test_blockiness_is_what_the_definition_says(width, height, seed, levels):
    gray = np.random.default_rng(seed).integers(0, levels, (height, width), dtype=np.uint8)
    expected = blockiness(gray)
    found = artifact(encoded(gray, "PNG"))["blockiness"]
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-6))


def test_blockiness_at_its_ends():
    blocks = np.kron(np.arange(64).reshape(8, 8), np.ones((8, 8))).astype(np.uint8)
    assert artifact(encoded(blocks, "PNG"))["blockiness"] == 100
    assert artifact(encoded(np.full((32, 32), 5, np.uint8), "PNG"))["blockiness"] == 1
    assert artifact(encoded(scene(8, 8), "PNG"))["blockiness"] is None
    assert artifact(encoded(scene(8, 9), "PNG"))["blockiness"] is not None


def test_stronger_compression_makes_more_blocks():
    pixels = cv2.GaussianBlur(scene(400, 300), (0, 0), 1)
    found = [artifact(encoded(pixels, quality=quality)) for quality in (95, 80, 60, 40, 25, 10)]
    values = [row["blockiness"] for row in found]
    assert values == sorted(values)
    assert artifact(encoded(pixels, "PNG"))["blockiness"] == pytest.approx(1, abs=0.1)
    assert values[-1] > 1.5 * values[0]
    assert [row["quality"] for row in found] == [95, 80, 60, 40, 25, 10]


def test_a_large_picture_is_looked_at_in_full():
    """Reduced, its blocks would be gone."""
    pixels = cv2.resize(scene(400, 300), (2600, 1950), interpolation=cv2.INTER_CUBIC)
    assert artifact(encoded(pixels, quality=10))["blockiness"] > 2


@pytest.mark.parametrize("quality", range(1, 101))
def test_quality_is_what_pillow_was_told(quality):
    assert artifact(encoded(scene(16, 16), quality=quality))["quality"] == quality


@pytest.mark.parametrize(("option", "name"), [("4:4:4", "4:4:4"), ("4:2:2", "4:2:2"), ("4:2:0", "4:2:0")])
def test_subsampling_is_what_pillow_was_told(option, name):
    assert artifact(encoded(scene(32, 32), subsampling=option))["subsampling"] == name


def test_gray_and_progressive_and_other_formats():
    assert artifact(encoded(scene(32, 32)[..., 0]))["subsampling"] == "4:0:0"
    assert artifact(encoded(scene(32, 32)))["progressive"] is False
    assert artifact(encoded(scene(32, 32), progressive=True))["progressive"] is True
    other = artifact(encoded(scene(32, 32), "PNG"))
    assert (other["quality"], other["subsampling"], other["progressive"]) == (None, None, None)
    assert other["blockiness"] is not None


def test_tables_of_no_quality_get_the_nearest():
    table = [min(255, value + 1) for value in (16, *range(20, 83))]
    target = io.BytesIO()
    Image.fromarray(scene(16, 16)).save(target, "JPEG", qtables=[table, table])
    assert 1 <= artifact(target.getvalue())["quality"] <= 100


def banding(gray):
    """Fraction of whole 16×16 blocks with two to four levels that span at least four, block by block."""
    height, width = gray.shape
    tall, wide = min(16, height), min(16, width)
    hits, blocks = 0, 0
    for y in range(0, height - tall + 1, tall):
        for x in range(0, width - wide + 1, wide):
            levels = np.unique(gray[y : y + tall, x : x + wide])
            hits += 2 <= len(levels) <= 4 and int(levels[-1]) - int(levels[0]) >= 4
            blocks += 1
    return hits / blocks


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 64))
def test_banding_is_what_the_definition_says(width, height, seed, count, step):
    random = np.random.default_rng(seed)
    few = (np.sort(random.choice(256 // step, min(count, 256 // step), replace=False)) * step).astype(np.uint8)
    gray = random.choice(few, (height, width))
    gray[: height // 2] = random.choice(few[:2], (height // 2, width))
    assert artifact(encoded(gray, "PNG"))["banding"] == pytest.approx(banding(gray))


def test_levels_that_share_six_bits_are_told_apart():
    gray = np.zeros((16, 16), np.uint8)
    gray[:8] = 64
    gray[4:6] = 128
    gray[6:8] = 192
    assert artifact(encoded(gray, "PNG"))["banding"] == 1
    gray[15, 15] = 32
    assert artifact(encoded(gray, "PNG"))["banding"] == 0


def test_fewer_levels_show_more_bands():
    ramp = np.tile(np.linspace(20, 220, 640), (64, 1))
    values = [artifact(encoded((ramp // step * step).astype(np.uint8), "PNG"))["banding"] for step in (1, 4, 8, 40)]
    assert values[0] == 0
    assert values[1] > 0.9
    assert values[2] > 0.4
