"""One box through resize and crop."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_resize.box_geometry import BoxProblem, TargetFrame, box_problem, move_box
from sidecar_resize.geometry import target_size


def frame_of(width, height, area_px=512 * 512):
    size = target_size(width, height, area_px)
    return TargetFrame(size.resized_width, size.resized_height, size.crop_left, size.crop_top, size.width, size.height)


sides = st.integers(40, 6000)
frames = st.builds(frame_of, sides, sides, st.sampled_from([512 * 512, 1024 * 1024]))
whole = st.integers(0, 1000)
decimal = st.floats(0, 1000, allow_subnormal=False)


@st.composite
def boxes(draw, values):
    (top, bottom), (left, right) = (
        sorted(draw(st.lists(values, min_size=2, max_size=2, unique=True))) for _ in range(2)
    )
    return top, left, bottom, right


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([1, 2, 3, 4], None),
        ([0, 0.5, 1000, 1000.0], None),
        ([], BoxProblem.COUNT),
        ([1, 2, 3], BoxProblem.COUNT),
        ([1, 2, 3, 4, 5], BoxProblem.COUNT),
        ([1, 2, 3, None], BoxProblem.COUNT),
        ([1, 2, 3, "4"], BoxProblem.COUNT),
        ([False, False, True, True], BoxProblem.COUNT),
        ([1, 2, 3, 4, None], BoxProblem.COUNT),
        ([-1, 2, 3, 4], BoxProblem.RANGE),
        ([1, 2, 3, 1000.001], BoxProblem.RANGE),
        ([1, 2, 3, float("nan")], BoxProblem.RANGE),
        ([1, 2, 3, float("inf")], BoxProblem.RANGE),
        ([1, 2, 10**400, 4], BoxProblem.RANGE),
        ([3, 2, 3, 4], BoxProblem.ORDER),
        ([1, 5, 3, 4], BoxProblem.ORDER),
        ([5, 2, 3, 2000], BoxProblem.RANGE),
    ],
)
def test_what_is_wrong_with_a_box_is_said(values, problem):
    assert box_problem(values) == problem


def test_a_box_is_moved_by_the_formula():
    # 2000 x 1000 scaled to 1000 x 500, cropped to 960 x 480 at (20, 10)
    frame = TargetFrame(1000, 500, 20, 10, 960, 480)
    moved = move_box((100.0, 200.0, 500.0, 600.0), frame)
    assert moved.box_yxyx_1000 == pytest.approx((40 / 480 * 1000, 180 / 960 * 1000, 240 / 480 * 1000, 580 / 960 * 1000))
    assert not moved.clipped
    assert move_box((100, 200, 500, 600), frame).box_yxyx_1000 == (83, 188, 500, 604)


def test_whole_and_decimal_numbers_stay_what_they_are():
    moved = move_box((100, 200.0, 500.5, 600), TargetFrame(1000, 500, 20, 10, 960, 480))
    assert [type(value) for value in moved.box_yxyx_1000] == [int, float, float, int]


@pytest.mark.parametrize(("top", "expected"), [(11, 12), (13, 12), (15, 16), (17, 16)])
def test_halves_are_rounded_to_even(top, expected):
    # y' = y * 2 - 9.5 ... chosen so that each value ends on a half
    frame = TargetFrame(1000, 1100, 0, 1, 1000, 2000)  # y' = (1100 y - 1000) / 2000
    exact = Fraction(1100 * top * 20 - 1000, 2000)
    moved = move_box((top * 20, 0, 1000, 1000), frame)
    assert moved.box_yxyx_1000[0] == round(exact)
    half = TargetFrame(1000, 500, 0, 0, 1000, 1000)  # y' = y / 2
    assert move_box((2 * expected + 1, 0, 1000, 1000), half).box_yxyx_1000[0] == round(Fraction(2 * expected + 1, 2))


def test_what_is_cropped_away_is_cut_off_or_dropped():
    frame = TargetFrame(1000, 1000, 100, 0, 800, 1000)
    kept = move_box((0, 50, 1000, 300), frame)
    assert kept.box_yxyx_1000 == (0, 0, 1000, 250)
    assert kept.clipped
    assert move_box((0, 0, 1000, 100), frame) is None  # no area left: its edge is the frame's
    assert move_box((0, 910, 1000, 1000), frame) is None
    assert move_box((0, 0, 1000, 110), frame, min_visible=0.0).box_yxyx_1000 == (0, 0, 1000, 12)
    assert move_box((0, 0, 1000, 110), frame) is None  # a tenth of 110 is 11, and 10 are left
    assert move_box((0, 10, 1000, 110), frame).clipped  # exactly a tenth is enough
    assert move_box((0, 0, 1000, 100), frame, min_visible=0.0) is None


def test_a_small_box_does_not_become_empty():
    frame = TargetFrame(400, 400, 0, 0, 1000, 1000)  # 1/1000 of the source is 0.4/1000 of the result
    assert move_box((1, 1, 2, 2), frame).box_yxyx_1000 == (0, 0, 1, 1)
    assert move_box((999, 999, 1000, 1000), frame).box_yxyx_1000 == (399, 399, 400, 400)
    huge = TargetFrame(400, 400, 0, 0, 400, 400)
    assert move_box((999, 999, 1000, 1000), huge).box_yxyx_1000 == (999, 999, 1000, 1000)


@given(boxes(whole), frames)
def test_whole_boxes_stay_whole_good_and_within_half_a_step(box, frame):
    moved = move_box(box, frame, min_visible=0.0)
    exact = exact_move(box, frame)
    if moved is None:
        assert exact is None
        return
    assert all(isinstance(value, int) for value in moved.box_yxyx_1000)
    assert box_problem(moved.box_yxyx_1000) is None
    for value, wanted in zip(moved.box_yxyx_1000, exact, strict=True):
        assert abs(value - wanted) <= 1
    if min(exact[2] - exact[0], exact[3] - exact[1]) > 1:
        assert moved.box_yxyx_1000 == tuple(round(value) for value in exact)


@given(boxes(decimal | whole), frames)
def test_any_box_ends_good_and_where_the_formula_says(box, frame):
    moved = move_box(box, frame, min_visible=0.0)
    exact = exact_move(box, frame)
    if moved is None:
        assert exact is None or min(exact[2] - exact[0], exact[3] - exact[1]) < 1e-9
        return
    assert box_problem(moved.box_yxyx_1000) is None
    for value, given_, wanted in zip(moved.box_yxyx_1000, box, exact, strict=True):
        assert type(value) is type(given_)
        assert abs(value - wanted) <= (1 if isinstance(given_, int) else 1e-9)


@given(boxes(decimal | whole), sides, sides)
def test_a_picture_that_is_not_changed_changes_no_box(box, width, height):
    moved = move_box(box, TargetFrame(width, height, 0, 0, width, height))
    assert moved.box_yxyx_1000 == box
    assert not moved.clipped


@given(boxes(whole), sides, sides, st.sampled_from([512 * 512, 1024 * 1024]))
def test_a_box_covers_the_same_pixels(box, width, height, area_px):
    """Its edges, in pixels of the result, are those of the source's edges scaled and shifted, within one pixel."""
    frame = frame_of(width, height, area_px)
    moved = move_box(box, frame, min_visible=0.0)
    if moved is None:
        return
    source_px = (box[0] * height / 1000, box[1] * width / 1000, box[2] * height / 1000, box[3] * width / 1000)
    scale_y, scale_x = frame.resized_height / height, frame.resized_width / width
    expected_px = (
        min(max(source_px[0] * scale_y - frame.crop_top, 0), frame.height),
        min(max(source_px[1] * scale_x - frame.crop_left, 0), frame.width),
        min(max(source_px[2] * scale_y - frame.crop_top, 0), frame.height),
        min(max(source_px[3] * scale_x - frame.crop_left, 0), frame.width),
    )
    y1, x1, y2, x2 = moved.box_yxyx_1000
    got_px = (y1 * frame.height / 1000, x1 * frame.width / 1000, y2 * frame.height / 1000, x2 * frame.width / 1000)
    step_y, step_x = frame.height / 1000, frame.width / 1000  # a whole box cannot be finer than this
    for got, expected, step in zip(got_px, expected_px, (step_y, step_x, step_y, step_x), strict=True):
        assert abs(got - expected) <= max(1, step)


def exact_move(box, frame):
    scaled = []
    for index, value in enumerate(box):
        resized, crop, target = (
            (frame.resized_width, frame.crop_left, frame.width)
            if index % 2
            else (frame.resized_height, frame.crop_top, frame.height)
        )
        scaled.append(min(max((Fraction(value) / 1000 * resized - crop) / target * 1000, 0), 1000))
    return scaled if scaled[0] < scaled[2] and scaled[1] < scaled[3] else None
