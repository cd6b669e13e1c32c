"""Which rows of a column hold a NaN or an infinity, however deep."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

_TRUE = pa.scalar(value=True)


def rows_not_finite(values: pa.Array) -> pa.BooleanArray | None:
    """Returns which rows hold a NaN or an infinity: in fields of structs, items of lists, keys and values of maps.

    Only the numbers are looked at, never what lies beside them: Arrow can do little with some types.

    Args:
        values: any column that Parquet can hold.

    Returns:
        One boolean a row, without nulls; None for a type that holds no floating-point numbers.
    """
    dtype = values.type
    if pa.types.is_floating(dtype):
        return cast("pa.BooleanArray", pc.invert(pc.fill_null(pc.is_finite(values), _TRUE)))
    if isinstance(values, pa.ExtensionArray):
        return rows_not_finite(values.storage)
    if isinstance(values, pa.DictionaryArray):
        return rows_not_finite(values.dictionary_decode()) if pa.types.is_floating(values.type.value_type) else None
    if isinstance(values, pa.StructArray):
        inside = _any_of([values.field(index) for index in range(dtype.num_fields)])
    elif (listed := _items(values)) is not None:
        items, starts, ends = listed
        inside = _any_of(items)
        if inside is not None:
            inside = _any_between(inside, starts, ends)
    else:
        return None
    return None if inside is None else pc.and_(inside, values.is_valid())  # what lies behind a null counts to no row


def _any_of(children: list[pa.Array]) -> pa.BooleanArray | None:
    result: pa.BooleanArray | None = None
    for child in children:
        found = rows_not_finite(child)
        if found is not None:
            result = found if result is None else pc.or_(result, found)
    return result


def _items(lists: Any) -> tuple[list[pa.Array], pa.Array, pa.Array] | None:  # noqa: ANN401 - the stubs lack some lists
    """Returns the arrays that hold the items of lists, and where each list begins and ends there; None for no lists."""
    types, dtype = pa.types, lists.type
    if types.is_map(dtype):
        return [lists.keys, lists.items], lists.offsets[:-1], lists.offsets[1:]
    if types.is_list(dtype) or types.is_large_list(dtype):
        return [lists.values], lists.offsets[:-1], lists.offsets[1:]
    if types.is_list_view(dtype) or types.is_large_list_view(dtype):
        return [lists.values], lists.offsets, pc.add(lists.offsets, lists.sizes)
    if types.is_fixed_size_list(dtype):
        first, size = lists.offset, dtype.list_size
        bounds = pa.array([row * size for row in range(first, first + len(lists) + 1)], pa.int64())
        return [lists.values], bounds[:-1], bounds[1:]
    return None


def _any_between(mask: pa.BooleanArray, starts: pa.Array, ends: pa.Array) -> pa.BooleanArray:
    """Returns for each part of a mask whether any of it is true."""
    counts = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(mask.cast(pa.int64()))])
    return pc.greater(counts.take(ends), counts.take(starts))
