"""One box: what may be wrong with it, and where it ends when its picture is resized and cropped.

A box is (y1, x1, y2, x2), each 0-1000 of the displayed picture's height or width, origin top left. All
arithmetic is exact until the last step, so that a picture that is not changed changes no box.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

FULL = 1000  # boxes are fractions of the picture's sides in thousandths
DEFAULT_MIN_VISIBLE = 0.1
NUMBERS = 4


class BoxProblem(StrEnum):
    """Why a box cannot be used, in the order in which it is asked.

    Attributes:
        COUNT: it has other than four numbers.
        RANGE: a number is outside 0-1000.
        ORDER: y1 is not below y2, or x1 not below x2.
    """

    COUNT = "bad_box_count"
    RANGE = "bad_box_range"
    ORDER = "bad_box_order"


@dataclass(frozen=True, slots=True)
class TargetFrame:
    """How a displayed picture became another: scaled to `resized_*`, then cut to `width` x `height`.

    Attributes:
        resized_width: width in pixels after scaling.
        resized_height: height in pixels after scaling.
        crop_left: columns cut at the left of the scaled picture.
        crop_top: rows cut at its top.
        width: width of the result in pixels, at least 1.
        height: height of the result in pixels, at least 1.
    """

    resized_width: int
    resized_height: int
    crop_left: int
    crop_top: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class MovedBox:
    """A box in the cropped picture.

    Attributes:
        box_yxyx_1000: (y1, x1, y2, x2), each 0-1000 of the cropped picture, int where it was an int.
        clipped: a part of it was cut off.
    """

    box_yxyx_1000: tuple[float, float, float, float]
    clipped: bool


@dataclass(frozen=True, slots=True)
class BoxCounts:
    """What became of the boxes of a description.

    Attributes:
        boxes: all that were found, good and bad; a null is none.
        clipped: those kept of which a part was cut off.
        dropped: those that are bad, or of which too little was left.
    """

    boxes: int = 0
    clipped: int = 0
    dropped: int = 0


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether a value is an int or a float; true and false are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def box_problem(values: Sequence[object]) -> BoxProblem | None:
    """Returns what is wrong with a box, or None.

    Args:
        values: what stands in it: right are four numbers, each 0-1000, y1 < y2 and x1 < x2.
    """
    numbers = [value for value in values if is_number(value)]
    if len(numbers) != NUMBERS or len(values) != NUMBERS:
        return BoxProblem.COUNT
    if not all(0 <= number <= FULL for number in numbers):  # a NaN is neither
        return BoxProblem.RANGE
    top, left, bottom, right = numbers
    return None if top < bottom and left < right else BoxProblem.ORDER


def move_box(
    box_yxyx_1000: Sequence[float], frame: TargetFrame, *, min_visible: float = DEFAULT_MIN_VISIBLE
) -> MovedBox | None:
    """Returns where a box of the displayed picture is in the cropped one, or None when too little of it is left.

    Args:
        box_yxyx_1000: a box that `box_problem` finds nothing wrong with. Its ints stay ints, rounded half
            to even but never to an empty box; its floats stay floats.
        frame: how the picture was resized and cropped.
        min_visible: share of the box's own area, 0-1, that must be left.
    """
    top, left, bottom, right = box_yxyx_1000
    rows = _Span.moved(top, bottom, frame.resized_height, frame.crop_top, frame.height)
    columns = _Span.moved(left, right, frame.resized_width, frame.crop_left, frame.width)
    seen, whole = rows.seen * columns.seen, rows.length * columns.length
    if seen <= 0 or seen / whole < min_visible:
        return None
    y1, y2 = rows.ends(whole_start=isinstance(top, int), whole_end=isinstance(bottom, int))
    x1, x2 = columns.ends(whole_start=isinstance(left, int), whole_end=isinstance(right, int))
    if y1 >= y2 or x1 >= x2:  # decimals so near to each other that floats cannot tell them apart
        return None
    return MovedBox((y1, x1, y2, x2), seen < whole)


@dataclass(frozen=True, slots=True)
class _Span:
    """One side of a moved box as whole numbers over `one`: from `start` to `end`, of 0 to 1000 * one."""

    start: int
    end: int
    one: int

    @classmethod
    def moved(cls, start: float, end: float, resized_px: int, crop_px: int, target_px: int) -> _Span:
        """(value / 1000 * resized - crop) / target * 1000, for both ends."""
        (start_up, start_down), (end_up, end_down) = start.as_integer_ratio(), end.as_integer_ratio()
        shared = max(start_down, end_down)  # both are powers of two
        offset = FULL * crop_px * shared
        return cls(
            start_up * (shared // start_down) * resized_px - offset,
            end_up * (shared // end_down) * resized_px - offset,
            shared * target_px,
        )

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def seen(self) -> int:
        """What is left of the length inside 0-1000; negative when all of it is outside."""
        return min(self.end, FULL * self.one) - max(self.start, 0)

    def ends(self, *, whole_start: bool, whole_end: bool) -> tuple[float, float]:
        """Returns both ends inside 0-1000, each rounded to a whole number where it was one."""
        start, end = max(self.start, 0), min(self.end, FULL * self.one)
        first = round_half_even(start, self.one) if whole_start else start / self.one
        last = round_half_even(end, self.one) if whole_end else end / self.one
        if first < last or not (whole_start or whole_end):
            return first, last
        if whole_start and whole_end:  # the one step of the scale that holds the middle
            first = min((start + end) // (2 * self.one), FULL - 1)
            return first, first + 1
        return (start // self.one, last) if whole_start else (first, -(-end // self.one))


def round_half_even(numerator: int, denominator: int) -> int:
    """Returns round(numerator / denominator) without the division's rounding error."""
    whole, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return whole + (twice > denominator or (twice == denominator and whole % 2 == 1))
