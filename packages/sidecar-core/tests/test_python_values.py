from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.python_values import python_value, python_values

NOT_TEXT = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\xfe", b"ok"]).buffers())
FAR = pa.array([2**62, 0], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, None]), [1, None]),
        (NOT_TEXT, [b"\xff\xfe", "ok"]),
        (pa.chunked_array([NOT_TEXT, NOT_TEXT]), [b"\xff\xfe", "ok"] * 2),
        (pa.DictionaryArray.from_arrays(pa.array([0, None]), NOT_TEXT), [b"\xff\xfe", None]),
        (pa.StructArray.from_arrays([NOT_TEXT], ["a"]), [{"a": b"\xff\xfe"}, {"a": "ok"}]),
        (pa.ListArray.from_arrays([0, 2], NOT_TEXT), [[b"\xff\xfe", "ok"]]),
        (pa.LargeListArray.from_arrays([0, 1], NOT_TEXT), [[b"\xff\xfe"]]),
        (pa.FixedSizeListArray.from_arrays(NOT_TEXT, 2), [[b"\xff\xfe", "ok"]]),
        (
            pa.MapArray.from_arrays([0, 1], pa.array(["k"]), NOT_TEXT.slice(0, 1)),
            [[{"key": "k", "value": b"\xff\xfe"}]],
        ),
        (pa.ExtensionArray.from_storage(pa.json_(), NOT_TEXT), [b"\xff\xfe", "ok"]),
    ],
)
def test_values_are_python_s_and_bytes_where_text_is_none(values, expected):
    assert python_values(values) == expected
    assert [python_value(value) for value in values] == expected


def test_a_time_that_python_cannot_hold_is_text():
    assert python_value(FAR[0]) == FAR.cast(pa.string())[0].as_py()
