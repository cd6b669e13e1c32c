"""Boxes in Arrow structs and lists: the same rules as in JSON text, the types kept.

Only the values on the way to a box are made anew, so that every other child stays as it is, whatever its type.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidecar_resize.box_geometry import DEFAULT_MIN_VISIBLE, BoxCounts, BoxProblem, MovedBox, box_problem, move_box

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sidecar_resize.box_geometry import TargetFrame

_ROUNDED_AS = {pa.float16(): "e", pa.float32(): "f"}
_OFFSETS: dict[type, pa.DataType] = {pa.ListArray: pa.int32(), pa.LargeListArray: pa.int64()}
_TOO_SMALL = (pa.int8(), pa.uint8())  # for 0-1000

ListArray = pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray
ListType = pa.ListType | pa.LargeListType | pa.FixedSizeListType


@dataclass
class ArrowBoxes:
    """What became of the boxes of each row.

    Attributes:
        frames: each row's way into the cropped picture, None where there is none and its boxes stay.
        min_visible: share of a box's area, 0-1, that must be left.
        boxes: boxes found, by row.
        clipped: boxes that were cut, by row.
        dropped: boxes that became null, by row.
        problems: what is wrong with the first bad box, by row.
    """

    frames: Sequence[TargetFrame | None]
    min_visible: float = DEFAULT_MIN_VISIBLE
    boxes: list[int] = field(default_factory=list[int])
    clipped: list[int] = field(default_factory=list[int])
    dropped: list[int] = field(default_factory=list[int])
    problems: list[BoxProblem | None] = field(default_factory=list["BoxProblem | None"])

    def __post_init__(self) -> None:
        rows = len(self.frames)
        self.boxes, self.clipped, self.dropped = [0] * rows, [0] * rows, [0] * rows
        self.problems = [None] * rows

    def counts(self, row: int) -> BoxCounts:
        """Returns the counts of one row."""
        return BoxCounts(self.boxes[row], self.clipped[row], self.dropped[row])

    def move(self, row: int, values: Sequence[object], rounded_as: str | None) -> MovedBox | None:
        """Moves one box of a row, or counts it as dropped and returns None."""
        frame = self.frames[row]
        problem = box_problem(values)
        self.boxes[row] += 1
        if problem is None and frame is not None:
            moved = move_box(cast("Sequence[float]", values), frame, min_visible=self.min_visible)
            if moved is not None and not _is_empty_as(rounded_as, moved):
                self.clipped[row] += moved.clipped
                return moved
        self.dropped[row] += 1
        self.problems[row] = self.problems[row] or problem
        return None

    def bad(self, row: int) -> None:
        """Counts what stands where boxes do and is none."""
        self.move(row, (), None)


def moved_type(dtype: pa.DataType, bbox_keys: Collection[str]) -> pa.DataType:
    """Returns the type of a description whose boxes were moved: the same, with boxes that may be null.

    Raises:
        ValueError: it has no boxes, or some whose type cannot hold moved ones.
    """
    if not _holds_boxes(dtype, bbox_keys):
        raise ValueError(f"{dtype} has no field named {' or '.join(sorted(bbox_keys))}")
    return _moved_type(dtype, bbox_keys, in_box=False)


def move_boxes(array: pa.Array, bbox_keys: Collection[str], into: ArrowBoxes) -> pa.Array:
    """Returns a column of structs or lists with each box moved, null where one was dropped.

    Args:
        array: one row per frame of `into`, of a type that `moved_type` takes.
        bbox_keys: keys under which boxes stand.
        into: says how, and is told what became of them. Rows without a frame come back as they are, uncounted.

    Returns:
        An array of the type that `moved_type` says.
    """
    rows = [row if frame is not None else None for row, frame in enumerate(into.frames)]
    return _Mover(bbox_keys, into).move(array, rows, moved_type(array.type, bbox_keys), in_box=False)


class _Mover:
    """Goes down a column's type, with the row of each value."""

    def __init__(self, bbox_keys: Collection[str], into: ArrowBoxes) -> None:
        self._keys = bbox_keys
        self._into = into

    def move(self, array: pa.Array, rows: list[int | None], dtype: pa.DataType, *, in_box: bool) -> pa.Array:
        if not in_box and not _holds_boxes(array.type, self._keys):
            return array
        if isinstance(array, pa.StructArray) and _holds_boxes(array.type, self._keys):
            return self._struct(array, rows, cast("pa.StructType", dtype))
        if isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
            if in_box and not _is_container(array.type.value_type):
                return self._boxes(array, rows, dtype)
            return self._list(array, rows, dtype, in_box=in_box)
        kept: list[bool] = []
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True):
            if valid and row is not None:
                self._into.bad(row)
            kept.append(row is None)
        return pc.if_else(pa.array(kept, pa.bool_()), array, pa.nulls(len(array), array.type))

    def _struct(self, array: pa.StructArray, rows: list[int | None], dtype: pa.StructType) -> pa.Array:
        shown = [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
        children = [
            self.move(array.field(index), shown, each.type, in_box=each.name in self._keys)
            for index, each in enumerate(dtype)
        ]
        return pa.StructArray.from_arrays(children, fields=list(dtype), mask=array.is_null())

    def _list(self, array: ListArray, rows: list[int | None], dtype: pa.DataType, *, in_box: bool) -> pa.Array:
        value_type = cast("ListType", dtype).value_type
        shown = [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
        if isinstance(array, pa.FixedSizeListArray):
            size = array.type.list_size
            values = array.values.slice(array.offset * size, len(array) * size)
            inner = [row for row in shown for _ in range(size)]
            moved = self.move(values, inner, value_type, in_box=in_box)
            return cast("Any", pa.FixedSizeListArray).from_arrays(moved, type=dtype, mask=array.is_null())
        lengths = [length or 0 for length in pc.list_value_length(array).to_pylist()]
        inner = [row for row, length in zip(shown, lengths, strict=True) for _ in range(length)]
        moved = self.move(array.flatten(), inner, value_type, in_box=in_box)
        ends = pa.array(accumulate(lengths, initial=0), _OFFSETS[type(array)])
        return cast("Any", type(array)).from_arrays(ends, moved, type=dtype, mask=array.is_null())

    def _boxes(self, array: ListArray, rows: list[int | None], dtype: pa.DataType) -> pa.Array:
        """Moves lists without lists in them: each is a box, unless it is empty or all null."""
        rounded_as = _ROUNDED_AS.get(array.type.value_type)
        kept: list[object] = []
        for row, values in zip(rows, cast("pa.Array[Any]", array).to_pylist(), strict=True):
            if row is None or values is None or all(value is None for value in values):
                kept.append(values)
            else:
                moved = self._into.move(row, values, rounded_as)
                kept.append(None if moved is None else moved.box_yxyx_1000)
        return pa.array(kept, dtype)


def _is_container(dtype: pa.DataType) -> bool:
    return pa.types.is_nested(dtype)


def _holds_boxes(dtype: pa.DataType, keys: Collection[str]) -> bool:
    """Returns whether boxes may stand somewhere below."""
    if isinstance(dtype, pa.StructType):
        return any(each.name in keys or _holds_boxes(each.type, keys) for each in dtype)
    if isinstance(dtype, pa.MapType):
        return _holds_boxes(dtype.item_type, keys)
    value_type = getattr(dtype, "value_type", None)  # of every kind of list, and of dictionaries
    return isinstance(value_type, pa.DataType) and _holds_boxes(value_type, keys)


def _moved_type(dtype: pa.DataType, keys: Collection[str], *, in_box: bool) -> pa.DataType:
    if not in_box and not _holds_boxes(dtype, keys):
        return dtype
    if isinstance(dtype, pa.StructType):
        if not _holds_boxes(dtype, keys):
            return dtype
        return pa.struct([_moved_field(each, keys, in_box=each.name in keys) for each in dtype])
    if isinstance(dtype, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        if in_box and not _is_container(dtype.value_type):
            return _checked_box(dtype)
        value = _moved_field(dtype.value_field, keys, in_box=in_box)
        if isinstance(dtype, pa.FixedSizeListType):
            return pa.list_(value, dtype.list_size)
        return pa.large_list(value) if isinstance(dtype, pa.LargeListType) else pa.list_(value)
    if pa.types.is_nested(dtype) or isinstance(dtype, pa.BaseExtensionType):
        raise ValueError(f"boxes in a {dtype} cannot be moved; use structs and lists")
    return dtype


def _moved_field(each: pa.Field, keys: Collection[str], *, in_box: bool) -> pa.Field:
    moved = each.with_type(_moved_type(each.type, keys, in_box=in_box))
    return moved.with_nullable(True) if in_box and _is_box_slot(each.type, keys) else moved


def _is_box_slot(dtype: pa.DataType, keys: Collection[str]) -> bool:
    """Returns whether a value of this type under a key of boxes may have to become null."""
    return not (isinstance(dtype, pa.StructType) and _holds_boxes(dtype, keys))


def _checked_box(dtype: ListType) -> pa.DataType:
    if dtype.value_type in _TOO_SMALL or pa.types.is_decimal(dtype.value_type):
        raise ValueError(f"boxes of {dtype.value_type} cannot be moved; give them a wider int or a float")
    return dtype


def _is_empty_as(rounded_as: str | None, moved: MovedBox) -> bool:
    """Returns whether a box has no area left once its numbers are rounded to the column's precision."""
    if rounded_as is None:
        return False
    top, left, bottom, right = struct.unpack(f"4{rounded_as}", struct.pack(f"4{rounded_as}", *moved.box_yxyx_1000))
    return not (top < bottom and left < right)
