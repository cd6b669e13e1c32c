from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sidecar_runtimes.not_finite import rows_not_finite

NAN, INF = float("nan"), float("inf")
FLOAT = pa.float32()
LISTS = [
    pa.list_(FLOAT),
    pa.large_list(FLOAT),
    pa.list_(FLOAT, 2),
    pa.list_view(FLOAT),
    pa.large_list_view(FLOAT),
]


def held(values):
    found = rows_not_finite(values)
    assert found.null_count == 0
    assert len(found) == len(values)
    return found.to_pylist()


@pytest.mark.parametrize("dtype", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_of_numbers(dtype):
    values = pa.array([1.0, None, NAN, -INF], pa.float64()).cast(dtype)
    assert held(values) == [False, False, True, True]
    assert held(values[2:]) == [True, True]


@pytest.mark.parametrize("dtype", LISTS, ids=str)
def test_a_row_with_several_in_a_list_counts_once(dtype):
    values = pa.array([[1.0, 2.0], None, [NAN, INF], [None, 3.0], [3.0, -INF]], dtype)
    assert held(values) == [False, False, True, False, True]
    assert held(values[1:3]) == [False, True]


def test_of_maps():
    dtype = pa.map_(pa.field("of", pa.float64(), nullable=False), pa.field("to", pa.map_(pa.string(), FLOAT)))
    rows = [[(1.0, [("a", NAN)])], None, [], [(INF, None)], [(2.0, [("a", 1.0), ("b", None)])]]
    values = pa.array(rows, dtype)
    assert held(values) == [True, False, False, True, False]
    assert held(values[2:]) == [False, True, False]


def test_of_what_holds_these():
    inner = pa.struct([("lists", pa.list_(pa.list_(FLOAT, 1))), ("number", pa.float64()), ("text", pa.string())])
    rows = [
        {"lists": [[1.0], None, [NAN]], "number": 1.0},
        {"lists": [], "number": INF},
        None,
        {"lists": [[1.0]], "number": 1.0, "text": "nan"},
    ]
    assert held(pa.array(rows, inner)) == [True, True, False, False]
    views = pa.list_(pa.struct([("label", pa.string_view()), ("score", FLOAT)]))
    rows = [[{"label": "a", "score": 1.0}], None, [{"label": "long enough for a view", "score": NAN}, None]]
    assert held(pa.array(rows, views)) == [False, False, True]
    maps = pa.array([[[("a", NAN)], None], [[("a", 1.0)]], None], pa.list_(pa.map_(pa.string(), FLOAT)))
    assert held(maps) == [True, False, False]


def test_what_lies_behind_a_null_is_not_held():
    items = pa.array([1.0, NAN, NAN])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), items, mask=pa.array([False, True]))
    assert lists.to_pylist() == [[1.0], None]
    assert held(lists) == [False, False]
    structs = pa.StructArray.from_arrays([items], names=["x"], mask=pa.array([False, False, True]))
    assert held(structs) == [False, True, False]


def test_of_tensors_and_of_dictionaries():
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.array([[1.0, NAN], [2.0, 3.0]]))
    assert held(tensors) == [True, False]
    assert held(pa.array([1.0, None, INF]).dictionary_encode()) == [False, False, True]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["nan"]),
        pa.array([[1], None]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.array([{"a": b"x"}]),
        pa.nulls(2),
        pa.array([[None]], pa.list_(pa.null())),
        pa.array(["a"]).dictionary_encode(),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"])]),
    ],
    ids=lambda values: str(values.type),
)
def test_types_without_such_numbers_are_not_looked_through(values):
    assert rows_not_finite(values) is None
