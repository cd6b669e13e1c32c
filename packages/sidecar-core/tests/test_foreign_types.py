from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.foreign_types import has_untyped_nulls, holds_pictures, plain_type, same_values, with_types_of
from sidecar_core.nulls import null_column
from sidecar_core.safe_cast import safe_cast


def required(name, dtype):
    return pa.field(name, dtype, nullable=False, metadata={"PARQUET:field_id": "1"})


NESTED = [
    pa.struct([required("a", pa.int32()), ("b", pa.dictionary(pa.int8(), pa.string()))]),
    pa.list_(required("element", pa.struct([required("a", pa.int32())]))),
    pa.large_list(required("element", pa.float32())),
    pa.list_(required("element", pa.float32()), 2),
    pa.map_(pa.string(), required("value", pa.int8())),
    pa.dictionary(pa.int16(), pa.string()),
]


def fields_below(dtype):
    """Yields every field inside a type; a map's entries and keys are never null by definition."""
    for index in range(dtype.num_fields):
        field = dtype.field(index)
        if not pa.types.is_map(dtype):
            yield field
        yield from fields_below(field.type)


@pytest.mark.parametrize("dtype", NESTED, ids=str)
def test_plain_types_are_nullable_everywhere_and_hold_the_same_values(dtype):
    plain = plain_type(dtype)
    assert plain_type(plain) == plain
    assert same_values(dtype, plain)
    if not pa.types.is_map(dtype):
        assert all(field.nullable for field in fields_below(plain))
    assert null_column(plain, 2).type == plain


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (NESTED[0], [{"a": 1, "b": "x"}, None]),
        (NESTED[1], [[{"a": 1}], None, []]),
        (NESTED[2], [[1.5], None]),
        (NESTED[3], [[1.5, 2.5], [3.5, 4.5]]),
        (NESTED[5], ["x", None, "x"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_columns_can_be_cast_to_their_plain_type(dtype, values):
    held = pa.array(values, dtype)
    assert safe_cast(held, plain_type(dtype)).to_pylist() == values


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (pa.string(), pa.large_string(), True),
        (pa.string(), pa.string_view(), True),
        (pa.binary(), pa.large_binary(), True),
        (pa.string(), pa.binary(), False),
        (pa.int32(), pa.int64(), False),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (
            pa.struct([("a", pa.int8()), ("b", pa.string())]),
            pa.struct([("b", pa.large_string()), ("a", pa.int8())]),
            True,
        ),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.string())]), False),
        (pa.list_(pa.int8()), pa.large_list(pa.int8()), True),
        (pa.list_(pa.int8()), pa.list_(pa.int16()), False),
    ],
    ids=str,
)
def test_same_values(one, other, same):
    assert same_values(one, other) is same
    assert same_values(other, one) is same


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (pa.binary(), True),
        (pa.large_binary(), True),
        (pa.binary_view(), True),
        (pa.struct([("bytes", pa.binary()), ("path", pa.string())]), True),
        (pa.struct([("path", pa.string())]), False),
        (pa.string(), False),
        (pa.list_(pa.binary()), False),
    ],
    ids=str,
)
def test_what_may_hold_pictures(dtype, expected):
    assert holds_pictures(dtype) is expected


@pytest.mark.parametrize("dtype", NESTED, ids=str)
def test_types_that_are_said_stay_as_they_are(dtype):
    assert not has_untyped_nulls(dtype)
    assert with_types_of(dtype, pa.struct([("other", pa.string())])) == dtype
    assert with_types_of(pa.null(), dtype) == dtype


def test_only_what_is_not_said_is_taken_from_another_type():
    dtype = pa.struct([("a", pa.null()), ("b", pa.int8()), ("c", pa.large_list(pa.null())), ("d", pa.null())])
    other = pa.struct([("c", pa.list_(pa.string())), ("b", pa.int64()), ("a", pa.float32()), ("e", pa.int8())])
    expected = pa.struct([("a", pa.float32()), ("b", pa.int8()), ("c", pa.large_list(pa.string())), ("d", pa.null())])
    assert has_untyped_nulls(dtype)
    assert with_types_of(dtype, other) == expected
    assert has_untyped_nulls(expected)
    assert with_types_of(dtype, pa.string()) == dtype
