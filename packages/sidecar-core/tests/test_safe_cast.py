from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.nulls import null_column, null_rows
from sidecar_core.safe_cast import CastError, cast_or_null, check_castable, safe_cast

LOSSY = [
    ([1, 1.5], pa.int32(), 1),
    ([float("nan")], pa.int32(), 0),
    ([0, 1, 2], pa.bool_(), 2),
    ([0.0, 0.5], pa.bool_(), 1),
    ([1.0, 1e300], pa.float32(), 1),
    ([0.5, float("nan"), 0.1], pa.float32(), 2),
    ([1.0, 2049.0], pa.float16(), 1),
    ([0.25, 0.125], pa.decimal128(5, 2), 1),
    ([decimal.Decimal("0.5"), decimal.Decimal("0.12345678901234567891")], pa.float64(), 1),
    (["1", "1e400"], pa.float64(), 1),
    ([16_777_217], pa.float32(), 0),
    ([127, 128], pa.int8(), 1),
    ([-1], pa.uint8(), 0),
    ([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 5)], pa.date32(), 1),  # noqa: DTZ001 - Arrow's naive timestamps
    ([b"ok", b"\xff"], pa.string(), 1),
    (["1", "1.5"], pa.int32(), 1),
    ([[1], [300], [2]], pa.list_(pa.int8()), 1),
    ([{"a": 1.0}, {"a": 1e300}], pa.struct([("a", pa.float32())]), 1),
    ([{"a": [0.5]}, {"a": [0.5, 0.1]}], pa.struct([("a", pa.list_(pa.float32()))]), 1),
    ([{"a": [1]}, {"a": [2, 999]}], pa.struct([("a", pa.list_(pa.uint8()))]), 1),
]


@pytest.mark.parametrize(("values", "dtype", "row"), LOSSY)
def test_a_value_that_does_not_fit_is_named_with_its_row(values, dtype, row):
    with pytest.raises(CastError) as caught:
        safe_cast(pa.array(values), dtype)
    assert caught.value.row == row
    assert pickle.loads(pickle.dumps(caught.value)).row == row


def test_text_that_is_no_utf8_is_named_by_its_bytes():
    values = pa.Array.from_buffers(pa.string(), 2, pa.array([b"1", b"\xff"]).buffers())
    with pytest.raises(CastError, match=r"^b'\\xff' does not fit int32"):
        safe_cast(values, pa.int32())


@pytest.mark.parametrize(("values", "dtype", "row"), LOSSY)
def test_rows_count_over_chunks(values, dtype, row):
    good = pa.array([values[0]] * 3 if row else [None] * 3, pa.array(values).type)
    with pytest.raises(CastError) as caught:
        safe_cast(pa.chunked_array([good, good.slice(0, 0), pa.array(values)]), dtype)
    assert caught.value.row == 3 + row


def test_what_fits_is_cast_with_its_nulls():
    cases = [
        ([1.0, None, -3.0], pa.int8(), [1, None, -3]),
        ([float("inf"), 0.5, None, -0.0], pa.float32(), [float("inf"), 0.5, None, -0.0]),
        ([decimal.Decimal("1.25"), None], pa.float32(), [1.25, None]),
        (["inf", "-Infinity", "2.5"], pa.float32(), [float("inf"), float("-inf"), 2.5]),
        ([0, 1, None], pa.bool_(), [False, True, None]),
        ([{"b": 1, "a": 2}, None], pa.struct([("a", pa.int8()), ("b", pa.int8())]), [{"a": 2, "b": 1}, None]),
        ([{"a": 2}], pa.struct([("a", pa.int8()), ("z", pa.string())]), [{"a": 2, "z": None}]),
        ([[1], [], None], pa.large_list(pa.float32()), [[1.0], [], None]),
        (["a", None], pa.large_string(), ["a", None]),
    ]
    for values, dtype, expected in cases:
        result = safe_cast(pa.array(values), dtype)
        assert result.type == dtype
        result.validate(full=True)
        assert result.to_pylist() == expected


def test_dictionary_columns_are_decoded():
    result = safe_cast(pa.array(["1", "2", "1"]).dictionary_encode(), pa.int32())
    assert result.to_pylist() == [1, 2, 1]


def test_values_outside_a_slice_or_below_a_null_do_not_matter():
    lists = pa.array([["x"], ["1"], ["y"]])
    assert safe_cast(lists.slice(1, 1), pa.list_(pa.int32())).to_pylist() == [[1]]
    hidden = pa.StructArray.from_arrays([pa.array(["x", "1"])], ["a"], mask=pa.array([True, False]))
    assert safe_cast(hidden, pa.struct([("a", pa.int32())])).to_pylist() == [None, {"a": 1}]


@given(st.lists(st.one_of(st.none(), st.integers(-300, 300)), max_size=40), st.data())
def test_or_null_nulls_exactly_what_does_not_fit(values, data):
    array = pa.array([None if value is None else [value] for value in values], pa.list_(pa.int64()))
    start = data.draw(st.integers(0, len(values)))
    result = cast_or_null(array.slice(start), pa.list_(pa.int8()))
    assert result.to_pylist() == [
        [value] if value is not None and -128 <= value <= 127 else None for value in values[start:]
    ]


def test_impossible_casts_are_known_from_the_types():
    with pytest.raises(ValueError, match="string cannot be cast to list"):
        check_castable(pa.string(), pa.list_(pa.string()))
    with pytest.raises(ValueError, match="has no field 'b'"):
        check_castable(pa.struct([("a", pa.int8()), ("b", pa.int8())]), pa.struct([("a", pa.int8())]))
    with pytest.raises(ValueError, match="has no field 'b'"):
        check_castable(pa.list_(pa.struct([("b", pa.int8())])), pa.list_(pa.struct([("a", pa.int8())])))
    check_castable(pa.int64(), pa.string())


def test_floats_are_rounded_for_those_who_ask_and_for_nobody_else():
    values = pa.array([0.1, None, math.nan, math.inf])
    rounded = safe_cast(values, pa.float32(), round_floats=True)
    assert rounded.to_pylist()[:2] == [pa.array([0.1], pa.float32())[0].as_py(), None]
    assert cast_or_null(values, pa.float32()).to_pylist()[:2] == rounded.to_pylist()[:2]
    with pytest.raises(CastError, match=r"^0\.1 does not fit float$"):
        safe_cast(values, pa.float32())
    with pytest.raises(CastError, match=r"1e\+300 does not fit"):
        safe_cast(pa.array([0.1, 1e300]), pa.float32(), round_floats=True)
    assert math.isnan(safe_cast(values[2:3], pa.float32())[0].as_py())


@pytest.mark.parametrize(
    ("fits", "does_not", "dtype"),
    [
        (
            pa.array([[0.5, 1.5], None, [2.5, None]], pa.list_(pa.float64(), 2)),
            pa.array([[0.5, 0.1]], pa.list_(pa.float64(), 2)),
            pa.list_(pa.float32(), 2),
        ),
        (
            pa.array([[("a", 0.5)], None, []], pa.map_(pa.string(), pa.float64())),
            pa.array([[("a", 0.1)]], pa.map_(pa.string(), pa.float64())),
            pa.map_(pa.string(), pa.float32()),
        ),
        (
            pa.array([[{"a": 0.5}], None], pa.list_(pa.struct([("a", pa.float64())]), 1)),
            pa.array([[{"a": 0.1}]], pa.list_(pa.struct([("a", pa.float64())]), 1)),
            pa.list_(pa.struct([("a", pa.float32())]), 1),
        ),
        (pa.array([0.5, None]).dictionary_encode(), pa.array([0.1]).dictionary_encode(), pa.float32()),
    ],
    ids=["fixed size list", "map", "fixed size list of structs", "dictionary"],
)
def test_floats_inside_types_that_arrow_casts_whole(fits, does_not, dtype):
    assert safe_cast(fits, dtype).to_pylist() == fits.to_pylist()
    whole = pa.concat_arrays([fits, does_not])
    assert safe_cast(whole.slice(0, len(fits)), dtype).to_pylist() == fits.to_pylist()
    with pytest.raises(CastError) as caught:
        safe_cast(whole, dtype)
    assert caught.value.row == len(fits)
    assert len(safe_cast(whole, dtype, round_floats=True)) == len(whole)


@pytest.mark.parametrize(
    "dtype",
    [
        pa.struct([("a", pa.string())]),
        pa.list_(pa.struct([("a", pa.string())])),
        pa.map_(pa.string(), pa.int8()),
        pa.list_(pa.float32(), 2),
        pa.uuid(),
        pa.string_view(),
        pa.timestamp("us", "UTC"),
    ],
    ids=str,
)
def test_a_column_of_nothing_but_nulls_and_a_dictionary_can_be_any_type(dtype):
    check_castable(pa.null(), dtype)
    result = safe_cast(pa.nulls(2), dtype)
    assert (result.type, len(result)) == (dtype, 2)
    assert null_rows(result).to_pylist() == [True, True]
    if not pa.types.is_string_view(dtype):  # Arrow cannot decode a dictionary of those
        check_castable(pa.dictionary(pa.int8(), dtype), dtype)
        held = pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), null_column(dtype, 1))
        assert safe_cast(held, dtype).type == dtype
