"""Boxes in Arrow values: moved as in JSON, and no type changes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_resize.box_geometry import BoxCounts, BoxProblem, TargetFrame, move_box
from sidecar_resize.boxes import DEFAULT_BBOX_KEYS
from sidecar_resize.description_arrow import ArrowBoxes, move_boxes, moved_type
from sidecar_resize.description_json import replace_boxes, scan_boxes

HALF = TargetFrame(1000, 1000, 0, 0, 2000, 2000)
SAME = TargetFrame(640, 480, 0, 0, 640, 480)
KEYS = DEFAULT_BBOX_KEYS


def moved(array, frame=HALF):
    into = ArrowBoxes([frame] * len(array))
    result = move_boxes(array, KEYS, into)
    result.validate(full=True)
    return result, into


NUMBERS = [pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.float16(), pa.float32(), pa.float64()]
LISTS = [pa.list_, pa.large_list, lambda value: pa.list_(value, 4)]


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("make", LISTS)
def test_every_type_of_box_is_kept(number, make):
    dtype = pa.struct([("n", pa.int8()), ("bbox", make(number))])
    rows = [{"n": 1, "bbox": [10, 20, 30, 40]}, {"n": 2, "bbox": None}, None, {"n": 4, "bbox": [40, 0, 30, 5]}]
    result, into = moved(pa.array(rows, dtype))
    assert result.type == dtype
    assert result.to_pylist() == [
        {"n": 1, "bbox": [5, 10, 15, 20]},
        {"n": 2, "bbox": None},
        None,
        {"n": 4, "bbox": None},
    ]
    assert [into.counts(row) for row in range(4)] == [BoxCounts(1), BoxCounts(), BoxCounts(), BoxCounts(1, 0, 1)]
    assert into.problems == [None, None, None, BoxProblem.ORDER]


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list, lambda value: pa.list_(value, 2)])
@pytest.mark.parametrize("inner", LISTS)
def test_lists_of_boxes_and_of_objects_are_moved(outer, inner):
    dtype = outer(pa.struct([("label", pa.string()), ("bbox", outer(inner(pa.int32())))]))
    two = [[10, 20, 30, 40], None]
    rows = [
        [{"label": "a", "bbox": two}, None],
        None,
        [{"label": "b", "bbox": two[::-1]}, {"label": "c", "bbox": None}],
    ]
    result, into = moved(pa.array(rows, dtype))
    assert result.type == dtype
    half = [[5, 10, 15, 20], None]
    assert result.to_pylist() == [
        [{"label": "a", "bbox": half}, None],
        None,
        [{"label": "b", "bbox": half[::-1]}, {"label": "c", "bbox": None}],
    ]
    assert into.boxes == [1, 0, 1]


def test_slices_and_what_lies_under_null_slots_are_no_matter():
    boxes = pa.array([[10, 20, 30, 40], [1, 1, 1, 1], [20, 20, 40, 40], [7, 7, 7, 7]], pa.list_(pa.int32(), 4))
    garbage = pa.StructArray.from_arrays([boxes], names=["bbox"], mask=pa.array([False, True, False, True]))
    outer = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4]), garbage, mask=pa.array([False, True, False]))
    result, into = moved(outer.slice(1))
    assert result.to_pylist() == [None, [{"bbox": [10, 10, 20, 20]}, None]]
    assert into.boxes == [0, 1]
    assert into.dropped == [0, 0]
    fixed = pa.FixedSizeListArray.from_arrays(garbage, 2)
    result, into = moved(fixed.slice(1))
    assert result.to_pylist() == [[{"bbox": [10, 10, 20, 20]}, None]]


def test_everything_else_is_the_same_whatever_its_type():
    others = {
        "when": pa.array([2**60 + 1, None], pa.timestamp("ns")),
        "price": pa.array([None, 5], pa.decimal128(30, 2)),
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "tags": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
        "deep": pa.array([[[1.5]], []], pa.list_(pa.list_(pa.float32()))),
    }
    children = [*others.values(), pa.array([[10, 20, 30, 40]] * 2, pa.list_(pa.int32()))]
    array = pa.StructArray.from_arrays(children, names=[*others, "box_2d"], mask=pa.array([False, True]))
    result, _ = moved(array)
    assert result.type == array.type
    for index, column in enumerate(others.values()):
        assert result.field(index).equals(column)


def test_what_is_no_list_of_numbers_is_a_bad_box():
    dtype = pa.struct(
        [
            ("a", pa.struct([("bbox", pa.string())])),
            ("bbox", pa.struct([("y1", pa.int32())])),
            ("bounding_box", pa.list_(pa.string())),
            ("box_2d", pa.list_(pa.list_(pa.int32()))),
        ]
    )
    rows = [
        {"a": {"bbox": "1 2 3 4"}, "bbox": {"y1": 5}, "bounding_box": ["1", "2", "3", "4"], "box_2d": [[1, 2, 3], []]},
        {"a": {"bbox": None}, "bbox": None, "bounding_box": [None], "box_2d": [[None, None], None]},
    ]
    result, into = moved(pa.array(rows, dtype))
    assert result.to_pylist() == [
        {"a": {"bbox": None}, "bbox": None, "bounding_box": None, "box_2d": [None, []]},
        rows[1],
    ]
    assert (into.boxes, into.dropped) == ([4, 0], [4, 0])
    assert into.problems == [BoxProblem.COUNT, None]


def test_rows_without_a_frame_are_left_alone():
    array = pa.array([{"bbox": [10, 20, 30, 40]}, {"bbox": [9, 9, 9, 9]}, {"bbox": [10, 20, 30, 40]}])
    into = ArrowBoxes([None, None, HALF])
    result = move_boxes(array, KEYS, into)
    assert result.to_pylist() == [{"bbox": [10, 20, 30, 40]}, {"bbox": [9, 9, 9, 9]}, {"bbox": [5, 10, 15, 20]}]
    assert into.boxes == [0, 0, 1]


def test_boxes_that_must_not_be_null_may_be_so_afterwards():
    box = pa.field("bbox", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False)
    dtype = pa.struct([pa.field("n", pa.int8(), nullable=False), box])
    array = pa.array([{"n": 1, "bbox": [3, 3, 3, 3]}], dtype)
    result, _ = moved(array)
    assert result.type == pa.struct([pa.field("n", pa.int8(), nullable=False), box.with_nullable(True)])
    assert result.to_pylist() == [{"n": 1, "bbox": None}]


def test_a_box_that_is_empty_in_the_columns_precision_is_dropped():
    tiny = pa.array([{"bbox": [900.0, 0, 900.5, 1000]}], pa.struct([("bbox", pa.list_(pa.float16()))]))
    result, into = moved(tiny, TargetFrame(1000, 581, 0, 0, 1000, 1000))  # 522.9 and 523.2, in steps of 0.5
    assert result.to_pylist() == [{"bbox": None}]
    assert into.counts(0) == BoxCounts(1, 0, 1)


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (pa.struct([("a", pa.int32())]), "no field named bbox"),
        (pa.list_(pa.list_(pa.float32())), "no field named"),
        (pa.struct([("bbox", pa.list_(pa.uint8()))]), "wider int"),
        (pa.struct([("bbox", pa.list_(pa.decimal128(5, 1)))]), "wider int"),
        (pa.struct([("bbox", pa.map_(pa.string(), pa.int32()))]), "structs and lists"),
        (pa.map_(pa.string(), pa.struct([("bbox", pa.list_(pa.int32()))])), "structs and lists"),
        (pa.list_view(pa.struct([("bbox", pa.list_(pa.int32()))])), "structs and lists"),
        (pa.struct([("bbox", pa.fixed_shape_tensor(pa.float32(), (4,)))]), "structs and lists"),
    ],
)
def test_types_that_cannot_be_moved_are_named(dtype, said):
    with pytest.raises(ValueError, match=said):
        moved_type(dtype, KEYS)


numbers = st.none() | st.integers(-10, 1010)
boxes = st.none() | st.lists(numbers, max_size=5) | st.tuples(*[st.integers(0, 400)] * 2, *[st.integers(500, 1000)] * 2)
objects = st.fixed_dictionaries({"label": st.text(max_size=3), "bbox": boxes, "box_2d": st.none() | st.lists(boxes)})
DTYPE = pa.struct(
    [
        ("bounding_box", pa.list_(pa.int32())),
        (
            "objects",
            pa.list_(
                pa.struct(
                    [
                        ("label", pa.string()),
                        ("bbox", pa.list_(pa.int32())),
                        ("box_2d", pa.large_list(pa.list_(pa.int32()))),
                    ]
                )
            ),
        ),
    ]
)
rows = st.lists(
    st.none() | st.fixed_dictionaries({"bounding_box": boxes, "objects": st.none() | st.lists(st.none() | objects)}),
    max_size=5,
)


@given(rows, st.sampled_from([HALF, SAME, TargetFrame(700, 600, 50, 40, 608, 512)]))
def test_arrow_and_json_agree(values, frame):
    array = pa.array(values, DTYPE)
    result, into = moved(array, frame)
    assert result.type == DTYPE
    for row, (before, after) in enumerate(zip(array.to_pylist(), result.to_pylist(), strict=True)):
        text = json.dumps(before)
        found = scan_boxes(text, KEYS)
        moved_text, counts = replace_boxes(text, found, lambda box: move_box(box, frame))
        assert after == json.loads(moved_text)
        assert into.counts(row) == counts
        assert bool(into.problems[row]) == any(box.problem for box in found)
