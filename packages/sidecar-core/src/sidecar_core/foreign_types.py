"""Types of columns that other datasets hold, and how they become columns of an output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_arrow: Any = pa  # the stubs know few of the types that these functions take


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """Returns a type as outputs have it: dictionaries decoded, everything inside nullable, no metadata.

    A struct whose children may not be null could not stand for a row without a value.
    """
    return _rebuilt(dtype, plain_type)


def same_values(one: pa.DataType, other: pa.DataType) -> bool:
    """Returns whether two types hold the same values, only laid out otherwise.

    Nullability, dictionaries, the order of struct fields, and 32 or 64 bit offsets and views make no difference;
    the width of numbers, units, time zones and missing or further struct fields do.
    """
    return _canonical(one) == _canonical(other)


def has_untyped_nulls(dtype: pa.DataType) -> bool:
    """Returns whether a type is Arrow's null, or has it inside: it says nothing about the values of other shards."""
    inner = (dtype.field(index).type for index in range(dtype.num_fields))
    return pa.types.is_null(dtype) or any(has_untyped_nulls(each) for each in inner)


def with_types_of(dtype: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Returns a type with what `other` has in the places where it has only Arrow's null; else it stays as it is.

    A struct keeps its fields, and a list its kind.
    """
    types = pa.types
    if types.is_null(dtype):
        return other
    if isinstance(dtype, pa.StructType) and isinstance(other, pa.StructType):
        known = {field.name: field.type for field in other}
        return pa.struct(
            [field.with_type(with_types_of(field.type, known.get(field.name, field.type))) for field in dtype]
        )
    if isinstance(dtype, pa.MapType) and isinstance(other, pa.MapType):
        return _arrow.map_(
            with_types_of(dtype.key_type, other.key_type),
            dtype.item_field.with_type(with_types_of(dtype.item_type, other.item_type)),
        )
    if not (is_list(dtype) and is_list(other)):
        return dtype
    item = dtype.field(0).with_type(with_types_of(dtype.field(0).type, other.field(0).type))
    if types.is_fixed_size_list(dtype):
        return _arrow.list_(item, dtype.list_size)
    return _arrow.large_list(item) if types.is_large_list(dtype) else pa.list_(item)


def is_list(dtype: pa.DataType) -> bool:
    """Returns whether a type is a list of one of Arrow's three layouts; a map is none."""
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype)


def holds_pictures(dtype: pa.DataType) -> bool:
    """Returns whether a column of this type may hold pictures: binary, or a struct with a binary field `bytes`."""
    if isinstance(dtype, pa.StructType):
        return dtype.get_field_index("bytes") >= 0 and holds_pictures(dtype.field("bytes").type)
    return pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_binary_view(dtype)


def _canonical(dtype: pa.DataType) -> pa.DataType:
    dtype = _rebuilt(dtype, _canonical)
    types = pa.types
    if isinstance(dtype, pa.StructType):
        fields = {field.name: field for field in dtype}
        return pa.struct([fields[name] for name in sorted(fields)])
    if types.is_large_list(dtype):
        return pa.list_(dtype.value_type)
    if types.is_large_string(dtype) or types.is_string_view(dtype):
        return pa.string()
    return pa.binary() if types.is_large_binary(dtype) or types.is_binary_view(dtype) else dtype


def _rebuilt(dtype: pa.DataType, inner: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Returns the type with `inner` applied to the types inside it."""
    types = pa.types
    if isinstance(dtype, pa.DictionaryType):
        return inner(dtype.value_type)
    if isinstance(dtype, pa.StructType):
        return pa.struct([pa.field(field.name, inner(field.type)) for field in dtype])
    if types.is_list(dtype):
        return pa.list_(inner(dtype.value_type))
    if types.is_large_list(dtype):
        return _arrow.large_list(inner(dtype.value_type))
    if types.is_fixed_size_list(dtype):
        return _arrow.list_(inner(dtype.value_type), dtype.list_size)
    if isinstance(dtype, pa.MapType):
        return _arrow.map_(dtype.key_type, inner(dtype.item_type))
    return dtype
