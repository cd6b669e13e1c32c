"""Which values of a description are boxes, and what they are called."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_resize.boxes import LabelledBox, find_boxes

BOX = [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("description", "labels"),
    [
        ({"label": "cat", "box_2d": BOX}, ["cat"]),
        ({"box_2d": BOX, "name": " dog "}, ["dog"]),
        ({"text": "STOP", "description": "a sign", "bbox": BOX}, ["STOP"]),
        ({"label": " ", "caption": "a cat", "bbox": BOX}, ["a cat"]),
        ({"color": "red", "bbox": BOX}, ["red"]),
        ({"label": 7, "bbox": BOX}, [None]),
        ({"label": "cats", "bbox": [BOX, BOX]}, ["cats", "cats"]),
        ({"label": "cat", "location": {"bbox": BOX}}, ["cat"]),
        ({"label": "cat", "bbox": {"box_2d": BOX}}, ["cat"]),
        ({"description": "all of it", "objects": [{"bbox": BOX}, {"label": "x", "bbox": BOX}]}, [None, "x"]),
        ([[{"bbox": BOX}]], [None]),
    ],
)
def test_a_box_is_called_what_its_object_says(description, labels):
    expected = [LabelledBox((10, 20, 30, 40), label) for label in labels]
    assert find_boxes(description) == expected
    assert find_boxes(json.dumps(description)) == expected


def test_bad_boxes_are_left_out():
    bad = [[1, 2, 3], "1 2 3 4", [4, 3, 2, 1], [0, 0, 1001, 5], {"y": 1}, 5, True, None, []]
    assert find_boxes({"bbox": bad}) == []
    assert find_boxes({"bbox": [*bad, BOX]}) == [LabelledBox((10, 20, 30, 40), None)]


@pytest.mark.parametrize(
    "description",
    [None, 5, 1.5, True, "", "{", "\ufeff{}", '"', "\ud800", b"\xff\xfe", b"", object(), {1: 2, None: [3]}, [[]], ()],
)
def test_nothing_that_is_no_description_raises(description):
    assert find_boxes(description) == []


def test_keys_are_what_one_says():
    assert find_boxes({"rect": BOX, "bbox": [0, 0, 1, 1]}, bbox_keys=["rect"]) == [LabelledBox((10, 20, 30, 40), None)]


def test_values_of_an_arrow_struct_are_read():
    array = pa.array([{"objects": [{"label": "a", "bbox": [1.5, 2.0, 3.0, 4.0]}, {"label": None, "bbox": None}]}, None])
    assert find_boxes(array[0].as_py()) == [LabelledBox((1.5, 2.0, 3.0, 4.0), "a")]
    assert find_boxes(array[1].as_py()) == []


def test_bytes_and_huge_numbers_are_read():
    text = '{"n": ' + "9" * 5000 + ', "bbox": [10, 20, 30, 40]}'
    assert find_boxes(text) == find_boxes(text.encode()) == [LabelledBox((10, 20, 30, 40), None)]


def test_depth_is_no_matter():
    value = {"bbox": BOX}
    for _ in range(20_000):
        value = [value]
    assert find_boxes(value) == [LabelledBox((10, 20, 30, 40), None)]


@given(st.text() | st.binary())
def test_nothing_raises(description):
    assert find_boxes(description) == []
