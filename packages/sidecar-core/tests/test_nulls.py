from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.nulls import null_column, null_rows, null_scalar_for

LEAVES = [
    pa.bool_(),
    pa.int32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.timestamp("us"),
    pa.list_(pa.string()),
    pa.list_(pa.struct([("x", pa.int32())])),
]
types = st.recursive(
    st.sampled_from(LEAVES),
    lambda below: st.lists(below, min_size=1, max_size=3).map(
        lambda children: pa.struct([(f"f{index}", child) for index, child in enumerate(children)])
    ),
    max_leaves=6,
)


def values_of(dtype):
    """Strategy for Python values of a type, with nulls at every level."""
    if pa.types.is_struct(dtype):
        present = st.fixed_dictionaries({field.name: values_of(field.type) for field in dtype})
        return st.one_of(st.none(), st.just(null_scalar_for(dtype)), present)
    if pa.types.is_list(dtype):
        return st.one_of(st.none(), st.lists(values_of(dtype.value_type), max_size=2))
    if pa.types.is_boolean(dtype):
        return st.one_of(st.none(), st.booleans())
    if pa.types.is_string(dtype):
        return st.one_of(st.none(), st.text(max_size=3))
    if pa.types.is_binary(dtype):
        return st.one_of(st.none(), st.binary(max_size=3))
    return st.one_of(st.none(), st.integers(0, 9))


def is_null(value, dtype):
    if pa.types.is_struct(dtype):
        return value is None or all(is_null(value[field.name], field.type) for field in dtype)
    return value is None


def through_parquet(array):
    sink = io.BytesIO()
    pq.write_table(pa.table({"column": array}), sink)
    return pq.ParquetFile(sink).read().column("column")


@given(types, st.integers(0, 5))
def test_null_structs_have_no_null_slot_and_only_null_leaves(dtype, length):
    array = null_column(dtype, length)
    array.validate(full=True)
    assert array.type == dtype
    assert len(array) == length
    assert array.equals(pa.array([null_scalar_for(dtype)] * length, type=dtype))
    if pa.types.is_struct(dtype):
        assert array.null_count == 0
        for child in array.flatten():
            assert null_rows(child).to_pylist() == [True] * length
    else:
        assert array.null_count == length
    assert null_rows(array).to_pylist() == [True] * length


@given(types, st.integers(1, 5))
def test_null_structs_survive_parquet(dtype, length):
    array = null_column(dtype, length)
    read = through_parquet(array)
    assert read.to_pylist() == array.to_pylist()
    assert null_rows(read).to_pylist() == [True] * length


@given(types.flatmap(lambda dtype: st.tuples(st.just(dtype), st.lists(values_of(dtype), max_size=8))), st.data())
def test_a_row_is_null_when_every_leaf_is(dtype_and_rows, data):
    dtype, rows = dtype_and_rows
    expected = [is_null(row, dtype) for row in rows]
    array = pa.array(rows, type=dtype)
    assert null_rows(array).to_pylist() == expected
    start = data.draw(st.integers(0, len(rows)))
    assert null_rows(array.slice(start)).to_pylist() == expected[start:]
    chunked = pa.chunked_array([array.slice(0, start), array.slice(start)], type=dtype)
    assert null_rows(chunked).to_pylist() == expected
    assert null_rows(through_parquet(array)).to_pylist() == expected


def test_a_null_slot_hides_its_children():
    hidden = pa.StructArray.from_arrays([pa.array([7, 8], pa.int32())], ["w"], mask=pa.array([True, False]))
    assert hidden.field("w").null_count == 0
    assert null_rows(hidden).to_pylist() == [True, False]
    nested = pa.StructArray.from_arrays([hidden], ["inner"], mask=pa.array([False, True]))
    assert null_rows(nested).to_pylist() == [True, True]


def test_all_three_kinds_of_rows_survive_parquet():
    dtype = pa.struct([("w", pa.int32()), ("h", pa.int32())])
    rows = [{"w": None, "h": None}, None, {"w": 1, "h": 2}]
    read = through_parquet(pa.array(rows, dtype))
    assert read.to_pylist() == rows
    assert null_rows(read).to_pylist() == [True, True, False]


def test_leaves_that_only_look_null_are_none():
    assert null_rows(pa.array([[], None, [None]], pa.list_(pa.int8()))).to_pylist() == [False, True, False]
    assert null_rows(pa.array([float("nan"), None])).to_pylist() == [False, True]
    assert null_rows(pa.array(["", None])).to_pylist() == [False, True]
    assert null_rows(pa.nulls(2)).to_pylist() == [True, True]


def test_a_null_in_a_dictionary_is_null():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert null_rows(array).to_pylist() == [False, True, True]


def test_empty_columns():
    assert null_rows(pa.chunked_array([], type=pa.int8())).to_pylist() == []
    assert len(null_column(pa.struct([]), 3)) == 3


def test_a_child_that_cannot_be_null_is_named():
    with pytest.raises(pa.ArrowInvalid, match="'w'"):
        null_column(pa.struct([pa.field("w", pa.int32(), nullable=False)]), 2)
