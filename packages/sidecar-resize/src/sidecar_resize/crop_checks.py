"""What `verify` holds cropped descriptions to: good boxes, as many as were kept, and sizes in their meta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from sidecar_core.nulls import null_rows
from sidecar_core.output_checks import OutputCheck
from sidecar_core.problems import counted
from sidecar_core.python_values import python_values

from sidecar_resize.box_geometry import BoxProblem, TargetFrame
from sidecar_resize.boxes import DEFAULT_BBOX_KEYS
from sidecar_resize.crop_meta import COUNT_NAMES, FRAME_NAMES, META_COLUMN, DescriptionState, meta_type
from sidecar_resize.cropped_columns import is_text
from sidecar_resize.description_arrow import ArrowBoxes, move_boxes
from sidecar_resize.description_json import scan_boxes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

CHECK_NAME = "cropped descriptions"
_TARGET = "target_"
_CROP = "_crop_"
_UNCHANGED = TargetFrame(1000, 1000, 0, 0, 1000, 1000)
_WITHOUT_DESCRIPTION = (DescriptionState.NONE.value, DescriptionState.BAD_JSON.value)
_WITH_DESCRIPTION = (DescriptionState.OK.value, *(problem.value for problem in BoxProblem))
_STATUS = (*_WITH_DESCRIPTION, *_WITHOUT_DESCRIPTION)
_WRONG_BOX = {
    BoxProblem.COUNT: "holds a box that is not four numbers",
    BoxProblem.RANGE: "holds a box that is not within 0-1000",
    BoxProblem.ORDER: "holds a box that ends before it begins",
}

FoundBoxes = tuple[int, str | None]


def crop_check(crop_columns: Mapping[int, str], bbox_keys: Collection[str] | None) -> OutputCheck:
    """Returns the check of the columns that `crop_structured_description` made.

    Args:
        crop_columns: name of each target's column, by its side.
        bbox_keys: keys under which its boxes stand; None when they are not known, so that the usual ones are
            looked at and not counted.
    """

    def check(table: pa.Table) -> Iterator[tuple[int, str]]:
        if wrong_types := list(_wrong_types(table.schema, crop_columns)):
            if table.num_rows:
                yield from ((0, said) for said in wrong_types)
            return
        names = table.schema.names
        found = {
            side: _boxes(table.column(name), bbox_keys or DEFAULT_BBOX_KEYS)
            for side, name in crop_columns.items()
            if name in names
        }
        texts = {side for side in found if is_text(table.schema.field(crop_columns[side]).type)}
        metas = cast("list[Any]", python_values(table.column(META_COLUMN))) if META_COLUMN in names else None
        for row in range(table.num_rows):
            for side, boxes in found.items():
                here = boxes[row]
                if here is not None and here[1] is not None:
                    yield row, f"{crop_columns[side]} {here[1]}"
            if metas is not None:
                at_row = {side: boxes[row] for side, boxes in found.items()}
                for said in _wrong_in_row(metas[row], at_row, crop_columns, texts, counted=bbox_keys is not None):
                    yield row, said

    return OutputCheck(CHECK_NAME, (*crop_columns.values(), META_COLUMN), check)


def recognise_crop(schema: pa.Schema) -> list[OutputCheck]:
    """Returns the check for an output that has `bbox_resize_meta`, or columns named as those beside it."""
    crops = {name: int(side) for name in schema.names if (side := _side_of(name, _CROP)) is not None}
    meta = schema.field(META_COLUMN).type if META_COLUMN in schema.names else None
    if not isinstance(meta, pa.StructType):
        stem = "structured_description"  # whatever else ends with _crop_512 may be anybody's
        named = {side: name for name, side in crops.items() if name.startswith(f"{stem}{_CROP}")}
        return [crop_check(named, None)] if named else []
    stem = next(iter(crops), "structured_description").rpartition(_CROP)[0] or "structured_description"
    sides = [int(side) for each in meta if (side := _side_of(each.name, _TARGET)) is not None]
    return [crop_check({side: f"{stem}{_CROP}{side}" for side in sides}, None)]


def _wrong_types(schema: pa.Schema, crop_columns: Mapping[int, str]) -> Iterator[str]:
    """Yields which columns cannot be what they are called, whatever stands in them."""
    for name in crop_columns.values():
        if name in schema.names and not (is_text(dtype := schema.field(name).type) or _holds_struct(dtype)):
            yield f"{name} is {dtype}, where descriptions are JSON text, or structs and lists"
    if META_COLUMN in schema.names:
        dtype = schema.field(META_COLUMN).type
        if not _holds(dtype, meta_type(list(crop_columns))):
            yield f"{META_COLUMN} is {dtype}, where {meta_type(list(crop_columns))} is expected"


def _holds(dtype: pa.DataType, expected: pa.DataType) -> bool:
    """Returns whether a type has all fields of another, with whole numbers and text of any width."""
    if isinstance(expected, pa.StructType):
        if not isinstance(dtype, pa.StructType):
            return False
        have = {each.name: each.type for each in dtype}
        return all(each.name in have and _holds(have[each.name], each.type) for each in expected)
    return is_text(dtype) if is_text(expected) else pa.types.is_integer(dtype)


def _holds_struct(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.StructType):
        return True
    value_type = getattr(dtype, "value_type", None)  # of every kind of list
    return isinstance(value_type, pa.DataType) and _holds_struct(value_type)


def _side_of(name: str, before: str) -> str | None:
    _, found, side = name.rpartition(before)
    return side if found and side.isascii() and side.isdigit() else None


def _boxes(column: pa.ChunkedArray, bbox_keys: Collection[str]) -> list[FoundBoxes | None]:
    """Returns the number of each description's boxes and what is wrong in it; None for a null."""
    if is_text(column.type):
        return [_boxes_of_text(text, bbox_keys) for text in python_values(column)]
    found: list[FoundBoxes | None] = []
    for chunk in column.chunks:
        into = ArrowBoxes([_UNCHANGED] * len(chunk), min_visible=0)
        try:
            move_boxes(chunk, bbox_keys, into)
        except ValueError:  # its boxes stand under keys that are not known here
            into = ArrowBoxes([_UNCHANGED] * len(chunk))
        absent = null_rows(chunk).to_pylist()
        found += [None if absent[row] else (into.boxes[row], _said_of(into.problems[row])) for row in range(len(chunk))]
    return found


def _boxes_of_text(text: object, bbox_keys: Collection[str]) -> FoundBoxes | None:
    if text is None:
        return None
    found = scan_boxes(text, bbox_keys) if isinstance(text, str) else None  # it may not be UTF-8
    if found is None:
        return 0, "is not JSON"
    return len(found), _said_of(next((box.problem for box in found if box.problem is not None), None))


def _said_of(problem: BoxProblem | None) -> str | None:
    return None if problem is None else _WRONG_BOX[problem]


def _wrong_in_row(
    meta: Mapping[str, Any] | None,
    found: Mapping[int, FoundBoxes | None],
    names: Mapping[int, str],
    texts: Collection[int],
    *,
    counted: bool,
) -> Iterator[str]:
    """Yields what a row's meta lacks, or says otherwise than the descriptions beside it.

    Of a struct with nothing but boxes all may have been dropped, and then it is as null as one that is not there.
    """
    status = None if meta is None else meta.get("status")
    if meta is None or status is None:
        yield f"{META_COLUMN} has no status"
        return
    if status not in _STATUS and not any(str(status).startswith(f"{side}: ") for side in names):
        yield f"{META_COLUMN}.status is {status!r}"
    for side, name in names.items():
        target = meta.get(f"{_TARGET}{side}") or {}
        is_valid = target.get("width") is not None
        all_dropped = bool(target.get("boxes")) and target.get("boxes") == target.get("dropped")
        must_be_null = not is_valid or status in _WITHOUT_DESCRIPTION
        may_be_null = must_be_null or (side not in texts and all_dropped)
        if side in found and (must_be_null if found[side] is not None else not may_be_null):
            there = "null" if found[side] is None else "there"
            size = "a size" if is_valid else "no size"
            yield f"{name} is {there} where the status is {status!r} and target_{side} has {size}"
        if is_valid:
            here = found.get(side) if counted else None
            yield from _wrong_in_target(meta, target, side, None if here is None else here[0])
        elif status in _WITH_DESCRIPTION:
            yield f"{META_COLUMN}.target_{side} has no size where the status is {status!r}"


def _wrong_in_target(
    meta: Mapping[str, Any], target: Mapping[str, Any], side: int, boxes_there: int | None
) -> Iterator[str]:
    if meta.get("source_width") is None or meta.get("source_height") is None:
        yield f"{META_COLUMN} has no size of the source, and target_{side} has one"
    lacking = [name for name in (*FRAME_NAMES, *COUNT_NAMES) if target.get(name) is None]
    if lacking:
        yield f"{META_COLUMN}.target_{side}.{lacking[0]} is null"
        return
    boxes, clipped, dropped = (target[name] for name in COUNT_NAMES)
    counts = f"counts {counted(boxes, 'box', 'boxes')}"
    if not 0 <= clipped <= boxes - dropped <= boxes:
        yield f"{META_COLUMN}.target_{side} {counts}, {clipped} clipped, {dropped} dropped"
    elif boxes_there is not None and boxes_there != boxes - dropped:
        yield f"{META_COLUMN}.target_{side} {counts}, {dropped} dropped, and there are {boxes_there}"
