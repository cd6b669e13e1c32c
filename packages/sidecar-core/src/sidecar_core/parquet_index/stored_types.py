"""Types as an index stores them: what Arrow can take rows of, and map from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.safe_cast import safe_cast

if TYPE_CHECKING:
    from collections.abc import Sequence

_arrow: Any = pa  # the stubs know few of the types that these functions take


def stored_type(dtype: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - a case a kind of type
    """Returns the type that holds the same values without dictionaries and views, at any depth.

    Each file of a source has dictionaries of its own, and Arrow takes no rows of views.
    """
    types = pa.types
    if isinstance(dtype, (pa.DictionaryType, pa.RunEndEncodedType)):
        return stored_type(dtype.value_type)
    if types.is_string_view(dtype):
        return pa.string()
    if types.is_binary_view(dtype):
        return pa.binary()
    if isinstance(dtype, pa.StructType):
        return pa.struct([field.with_type(stored_type(field.type)) for field in dtype])
    if types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(stored_type(dtype.value_type)))
    if types.is_large_list(dtype):
        return _arrow.large_list(dtype.value_field.with_type(stored_type(dtype.value_type)))
    if types.is_fixed_size_list(dtype):
        return _arrow.list_(dtype.value_field.with_type(stored_type(dtype.value_type)), dtype.list_size)
    if isinstance(dtype, pa.MapType):
        return _arrow.map_(
            dtype.key_field.with_type(stored_type(dtype.key_type)),
            dtype.item_field.with_type(stored_type(dtype.item_type)),
            dtype.keys_sorted,
        )
    return dtype


def as_type(pieces: Sequence[pa.Array], dtype: pa.DataType, *, held: pa.DataType) -> pa.ChunkedArray:
    """Returns arrays of type `held` as a column of `dtype`, which is it or what `stored_type` made it from.

    Raises:
        CastError: a value does not fit.
    """
    column = _arrow.chunked_array(pieces, type=held)
    return column if held == dtype else safe_cast(column, dtype)
