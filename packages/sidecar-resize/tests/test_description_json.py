"""Boxes in JSON text: only they change, whatever the text is."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sidecar_resize.box_geometry import BoxCounts, BoxProblem, MovedBox, TargetFrame, move_box
from sidecar_resize.boxes import DEFAULT_BBOX_KEYS, find_boxes
from sidecar_resize.description_json import replace_boxes, scan_boxes

HALF = TargetFrame(1000, 1000, 0, 0, 2000, 2000)  # every coordinate is halved
SAME = TargetFrame(640, 480, 0, 0, 640, 480)


def moved(text, frame=HALF, keys=DEFAULT_BBOX_KEYS):
    return replace_boxes(text, scan_boxes(text, keys), lambda box: move_box(box, frame))


def problems(text):
    return [box.problem for box in scan_boxes(text, DEFAULT_BBOX_KEYS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"box_2d": [10, 20, 30, 40]}', '{"box_2d": [5, 10, 15, 20]}'),
        ('{"bbox":[ 10,\n20 ,30.0,4e1 ] }', '{"bbox":[ 5,\n10 ,15.0,20.0 ] }'),
        (
            '[{"bbox": [10, 20, 30, 40]}, {"a": {"bounding_box": [0, 0, 1000, 1000]}}]',
            '[{"bbox": [5, 10, 15, 20]}, {"a": {"bounding_box": [0, 0, 500, 500]}}]',
        ),
        ('{"bbox": [[10, 20, 30, 40], null, [20, 20, 40, 40]]}', '{"bbox": [[5, 10, 15, 20], null, [10, 10, 20, 20]]}'),
        ('{"bbox": [[[10, 20, 30, 40]]]}', '{"bbox": [[[5, 10, 15, 20]]]}'),
        ('{"bbox": {"box_2d": [10, 20, 30, 40]}}', '{"bbox": {"box_2d": [5, 10, 15, 20]}}'),
        (
            '{"bbox": [{"bbox": [10, 20, 30, 40], "x": [10, 20, 30, 40]}]}',
            '{"bbox": [{"bbox": [5, 10, 15, 20], "x": [10, 20, 30, 40]}]}',
        ),
        (r'{"\u0062box": [10, 20, 30, 40]}', r'{"\u0062box": [5, 10, 15, 20]}'),
        ('{"bbox": [10, 20, 30, 40], "bbox": [20, 20, 40, 40]}', '{"bbox": [5, 10, 15, 20], "bbox": [10, 10, 20, 20]}'),
        ('{"a":{"bbox":null},"bbox":[]}', '{"a":{"bbox":null},"bbox":[]}'),
    ],
)
def test_boxes_are_found_wherever_they_stand(text, expected):
    result, counts = moved(text)
    assert result == expected
    assert counts.dropped == 0
    assert counts.boxes == sum(1 for box in scan_boxes(text, DEFAULT_BBOX_KEYS) if box.problem is None)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": [1.0, 1e5, 1E+2, -0, 0.10, 123456789012345678901234567890, 1e400]}',
        r'{"s": "\u00e9 \ud800 \/ \" { [ bbox", "bbox ": [1,2,3,4], "Bbox": [1,2,3,4]}',
        '{"ü": "漢字 \u2028 \x7f", "x": {}, "y": [ ], "z": [[], {}]}',
        r'{"s": "\"bbox\": [10, 20, 30, 40]"}',
        " \n{\t}\r\n",
        "[NaN, Infinity, -Infinity]",
        "[1, 2, 3, 4]",
        "null",
        "17",
        '"bbox"',
        "[]",
    ],
)
def test_everything_else_keeps_its_text(text):
    assert moved(text) == (text, BoxCounts())


@pytest.mark.parametrize(
    ("text", "expected", "problem"),
    [
        ('{"bbox": [1, 2, 3]}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": [1, 2, 3, "4"]}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": [1, 2, null, 4]}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": "[1, 2, 3, 4]"}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": 7}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": true, "a": 1}', '{"bbox": null, "a": 1}', BoxProblem.COUNT),
        ('{"bbox": {"y1": 1, "x1": [2, {}]}}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": {}}', '{"bbox": null}', BoxProblem.COUNT),
        ('{"bbox": [-1, 2, 3, 4]}', '{"bbox": null}', BoxProblem.RANGE),
        ('{"bbox": [NaN, 2, 3, 4]}', '{"bbox": null}', BoxProblem.RANGE),
        ('{"bbox": [1, 2, 3, Infinity]}', '{"bbox": null}', BoxProblem.RANGE),
        ('{"bbox": [1, 2, 3, 1e999]}', '{"bbox": null}', BoxProblem.RANGE),
        (f'{{"bbox": [1, 2, 3, {"9" * 6000}]}}', '{"bbox": null}', BoxProblem.RANGE),
        ('{"bbox": [30, 20, 10, 40]}', '{"bbox": null}', BoxProblem.ORDER),
        ('{"bbox": [ [1, 2, 3] ]}', '{"bbox": [ null ]}', BoxProblem.COUNT),
        ('{"bbox": [[], 5]}', '{"bbox": [[], null]}', BoxProblem.COUNT),
    ],
)
def test_a_bad_box_becomes_null_and_is_counted(text, expected, problem):
    assert problems(text) == [problem]
    assert moved(text) == (expected, BoxCounts(1, 0, 1))


def test_a_dropped_box_becomes_null_where_it_stood():
    cropped = TargetFrame(2000, 1000, 1000, 0, 1000, 1000)  # the left half is gone
    text = '{"bbox": [[0, 0, 1000, 400], [0, 400, 1000, 700], [0, 600, 1000, 700]], "box_2d": [0, 0, 9, 9]}'
    assert moved(text, cropped) == (
        '{"bbox": [null, [0, 0, 1000, 400], [0, 200, 1000, 400]], "box_2d": null}',
        BoxCounts(boxes=4, clipped=1, dropped=2),
    )


def test_numbers_that_do_not_change_keep_their_spelling():
    text = '{"bbox": [-0, 1.50, 5E2, 1000.000]}'
    assert moved(text, SAME) == (text, BoxCounts(1, 0, 0))


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "{", "[", "{]", "[}", "[1,]", '{"a":}', '{"a":1,}', "{,}", "[,]", "{1:2}", "{'a':1}", '{"a" 1}'),
        *("01", "1.", ".5", "+1", "-", "1e", "0x1", "tru", "nul", "None", "True", "nan", "[1 2]", '["a""b"]', "1 2"),
        *('"a', '"\\x"', '"\\u12g4"', '"a\nb"', '"a\tb"', "\ufeff{}", "{}\x00", "\xa0{}", "{}}", "]", '{"bbox"}'),
        *('{"bbox": [1, 2, 3, 4]', '{"bbox": [1, 2, 3, 4]} trailing', '{"bbox": [1,2,3,٤]}', "/* */ {}"),
    ],
)
def test_what_is_no_json_is_told_from_what_is(text):
    with pytest.raises(ValueError, match=r"."):
        json.loads(text)
    assert scan_boxes(text, DEFAULT_BBOX_KEYS) is None


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"bbox":', '{"bbox":['])
def test_depth_is_no_matter(opening):
    closing = "".join({"[": "]", "{": "}"}[character] for character in opening[::-1] if character in "[{")
    text = opening * 10_000 + '{"bbox": [10, 20, 30, 40]}' + closing * 10_000
    expected = text.replace("[10, 20, 30, 40]", "[5, 10, 15, 20]")
    assert moved(text) == (expected, BoxCounts(1, 0, 0))
    assert [box.box_yxyx_1000 for box in find_boxes(text)] == [(10, 20, 30, 40)]
    assert scan_boxes(text[:-1], DEFAULT_BBOX_KEYS) is None


def test_ten_megabytes_are_read():
    part = '{"label": "a \\"thing\\"", "box_2d": [10, 20, 30, 40], "score": 0.50, "note": "' + "x" * 900 + '"}'
    text = "[" + ", ".join([part] * 10_000) + "]"
    assert len(text) > 9_500_000
    result, counts = moved(text)
    assert counts == BoxCounts(10_000, 0, 0)
    assert result == text.replace("[10, 20, 30, 40]", "[5, 10, 15, 20]")
    one = json.dumps("\\" * 5_000_000)
    assert scan_boxes(one, DEFAULT_BBOX_KEYS) == []


keys = st.sampled_from(["bbox", "box_2d", "a", "b"])
scalars = st.none() | st.booleans() | st.integers(-5, 2000) | st.floats(0, 1000) | st.text(max_size=6)
good = st.tuples(st.integers(0, 400), st.integers(0, 400), st.integers(500, 1000), st.floats(500, 1000)).map(list)
values = st.recursive(
    scalars | good, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=20
)
written = st.builds(
    json.dumps, values, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 1]), separators=st.just((",", ": "))
)


@given(written)
def test_the_result_is_what_moving_the_decoded_value_gives(text):
    """Compared as values with a plain recursive implementation of the same rules."""
    result, counts = moved(text)
    expected, boxes, dropped = moved_value(json.loads(text))
    assert json.loads(result) == expected
    assert (counts.boxes, counts.dropped) == (boxes, dropped)


@given(written)
def test_identity_changes_nothing_but_bad_boxes(text):
    found = scan_boxes(text, DEFAULT_BBOX_KEYS)
    result, counts = moved(text, SAME)
    expected = text
    for box in reversed(found):
        if box.problem is not None:
            expected = expected[: box.start] + "null" + expected[box.end :]
    assert result == expected
    assert counts == BoxCounts(len(found), 0, sum(1 for box in found if box.problem is not None))


@given(written)
def test_find_boxes_finds_those_of_the_text_and_of_its_value(text):
    good_ones = [tuple(box.values) for box in scan_boxes(text, DEFAULT_BBOX_KEYS) if box.problem is None]
    assert [box.box_yxyx_1000 for box in find_boxes(json.loads(text))] == good_ones
    assert [box.box_yxyx_1000 for box in find_boxes(text)] == good_ones


@given(st.text(alphabet=string.printable + '{}[]",:\\' * 8, max_size=40))
@example('{"a":[1,{"b":null}]}')
def test_any_text_is_judged_as_python_does(text):
    try:
        json.loads(text)
    except ValueError:
        assert scan_boxes(text, DEFAULT_BBOX_KEYS) is None
    else:
        assert scan_boxes(text, DEFAULT_BBOX_KEYS) is not None


@given(written, st.data())
def test_a_cut_or_changed_text_is_judged_as_python_does(text, data):
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.sampled_from(["", ",", "]", "}", '"', "1", " ", "\\"])) + text[at + 1 :]
    try:
        json.loads(text)
    except ValueError:
        assert scan_boxes(text, DEFAULT_BBOX_KEYS) is None
    else:
        assert scan_boxes(text, DEFAULT_BBOX_KEYS) is not None


def moved_value(value, *, in_box=False):
    """Returns the value with its boxes moved, and how many were found and dropped."""
    if isinstance(value, dict):
        before_keys = has_box_key(value)
        if in_box and not before_keys:
            return None, 1, 1
        parts = {key: moved_value(child, in_box=key in DEFAULT_BBOX_KEYS) for key, child in value.items()}
        return {key: part[0] for key, part in parts.items()}, *totals(parts.values())
    if isinstance(value, list):
        if in_box and value and not any(isinstance(item, (list, dict)) for item in value):
            if all(item is None for item in value):
                return value, 0, 0
            problem = box_problem_of(value)
            new = None if problem else move_box(value, HALF)
            return (list(new.box_yxyx_1000) if isinstance(new, MovedBox) else None), 1, int(new is None)
        parts = [moved_value(item, in_box=in_box) for item in value]
        return [part[0] for part in parts], *totals(parts)
    return (None, 1, 1) if in_box and value is not None else (value, 0, 0)


def box_problem_of(value):
    numbers = [item for item in value if isinstance(item, (int, float)) and not isinstance(item, bool)]
    if len(value) != 4 or len(numbers) != 4 or any(not 0 <= item <= 1000 for item in numbers):
        return True
    return value[0] >= value[2] or value[1] >= value[3]


def has_box_key(value):
    if isinstance(value, dict):
        return any(key in DEFAULT_BBOX_KEYS or has_box_key(child) for key, child in value.items())
    return isinstance(value, list) and any(has_box_key(item) for item in value)


def totals(parts):
    parts = list(parts)
    return sum(part[1] for part in parts), sum(part[2] for part in parts)
