"""The goldens and properties of the target size."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_resize.geometry import candidate_sizes, cover_size, exceeds_crop_loss, is_scaled_to_cover, target_size

AREA_512, AREA_1024 = 512 * 512, 1024 * 1024
SIDES = st.integers(1, 40_000)
AREAS = st.sampled_from([AREA_512, AREA_1024, 768 * 768, 300 * 300])


@pytest.mark.parametrize(
    ("source", "small", "large"),
    [
        ((4000, 3000), (608, 448), (1184, 896)),
        ((3000, 4000), (448, 608), (896, 1184)),
        ((512, 512), (512, 512), (1024, 1024)),
        ((1024, 1024), (512, 512), (1024, 1024)),
        ((1, 1), (512, 512), (1024, 1024)),
        ((1920, 1080), (672, 384), (1376, 768)),
        ((6000, 4000), (640, 416), (1248, 832)),
        ((1000, 333), (864, 288), (1728, 576)),
    ],
)
def test_goldens(source, small, large):
    for area, wanted in ((AREA_512, small), (AREA_1024, large)):
        size = target_size(*source, area)
        assert (size.width, size.height) == wanted
        assert not exceeds_crop_loss(size, 0.25)


def test_a_strip_fits_one_target_and_not_the_other():
    small, large = target_size(10_000, 100, AREA_512), target_size(10_000, 100, AREA_1024)
    assert (small.width, small.height) == (4480, 64)
    assert small.crop_loss == pytest.approx(0.30)
    assert exceeds_crop_loss(small, 0.25)
    assert (large.width, large.height) == (9856, 96)
    assert not exceeds_crop_loss(large, 0.25)


def test_squares_lose_nothing():
    for side in (1, 512, 1024):
        size = target_size(side, side, AREA_512)
        assert (size.crop_loss, size.crop_left, size.crop_top) == (0, 0, 0)


def test_a_loss_of_exactly_the_bound_passes():
    size = target_size(4, 3, 32 * 32)  # the only candidate is 32 x 32
    assert size.crop_loss == 0.25
    assert not exceeds_crop_loss(size, 0.25)


def test_upscaled_says_when_a_side_grows():
    assert not target_size(608, 448, AREA_512).upscaled
    assert target_size(607, 448, AREA_512).upscaled
    assert target_size(512, 512, AREA_1024).upscaled


@pytest.mark.parametrize(("width", "height"), [(16_384, 4), (4, 20_000), (1, 65_535), (2_000_000, 1)])
def test_extreme_shapes_get_a_size_within_the_limits_and_a_loss_that_tells(width, height):
    size = target_size(width, height, AREA_512)
    assert max(size.width, size.height) <= 16_383
    assert exceeds_crop_loss(size, 0.25)


def test_what_cannot_be_met_is_an_error():
    with pytest.raises(ValueError, match="no pixels"):
        target_size(0, 10, AREA_512)
    with pytest.raises(ValueError, match="multiples of 32 px"):
        target_size(10, 10, 40 * 40)


@given(SIDES, SIDES, AREAS, st.sampled_from([8, 16, 32, 64]))
@settings(max_examples=300, deadline=None)
def test_every_result_keeps_the_rules(width, height, area, patch):
    size = target_size(width, height, area, patch)
    assert size.width % patch == size.height % patch == 0
    assert 0.9 * area <= size.width * size.height <= 1.1 * area
    assert max(size.width, size.height) <= 16_383
    assert size.resized_width >= size.width
    assert size.resized_height >= size.height
    assert size.width == size.resized_width or size.height == size.resized_height
    assert size.crop_left == (size.resized_width - size.width) // 2
    assert size.crop_top == (size.resized_height - size.height) // 2
    assert 0 <= size.crop_loss < 1


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 700), st.integers(1, 700))
@settings(max_examples=300, deadline=None)
def test_only_the_nearest_pixels_are_a_cover(width, height, across, down):
    cover = cover_size(width, height, across, down)
    scale = max(Fraction(across, width), Fraction(down, height))
    half = Fraction(1, 2)
    for wide in range(cover.resized_width - 2, cover.resized_width + 3):
        for high in range(cover.resized_height - 2, cover.resized_height + 3):
            near = abs(wide - scale * width) <= half and abs(high - scale * height) <= half
            assert is_scaled_to_cover(width, height, (across, down), (wide, high)) == near
    assert is_scaled_to_cover(width, height, (across, down), (cover.resized_width, cover.resized_height))


@given(SIDES, SIDES, AREAS)
@settings(max_examples=300, deadline=None)
def test_swapping_the_sides_swaps_the_result(width, height, area):
    if width == height:
        return
    one, other = target_size(width, height, area), target_size(height, width, area)
    assert (one.width, one.height) == (other.height, other.width)
    assert (one.resized_width, one.resized_height) == (other.resized_height, other.resized_width)
    assert (one.crop_left, one.crop_top, one.crop_loss) == (other.crop_top, other.crop_left, other.crop_loss)


@given(SIDES, SIDES, AREAS, st.sampled_from([16, 32]))
@settings(max_examples=150, deadline=None)
def test_no_candidate_is_better_than_the_one_chosen(width, height, area, patch):
    costs = {}
    for across, down in candidate_sizes(area, patch):
        q = (across * height) / (down * width)
        costs[across, down] = 1 - min(q, 1 / q) + 0.25 * abs(across * down / area - 1)
    lowest = min(costs.values())
    tied = [size for size, cost in costs.items() if cost <= lowest + 1e-12]
    wanted = max(tied, key=lambda size: (size[0] * size[1], size[0] if width >= height else size[1]))
    size = target_size(width, height, area, patch)
    assert (size.width, size.height) == wanted


@pytest.mark.parametrize(("area", "worst", "mean"), [(AREA_512, 0.038, 0.012), (AREA_1024, 0.020, 0.006)])
def test_losses_over_usual_shapes(area, worst, mean):
    losses = [target_size(round(10_000 * 4 ** (step / 400)), 10_000, area).crop_loss for step in range(-400, 401)]
    assert max(losses) <= worst
    assert sum(losses) / len(losses) <= mean
