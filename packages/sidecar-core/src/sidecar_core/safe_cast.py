"""Casts that lose nothing in silence: what Arrow's own safe casts let pass is refused here too."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from sidecar_core.errors import SidecarError
from sidecar_core.nulls import null_column
from sidecar_core.python_values import python_value

if TYPE_CHECKING:
    from collections.abc import Callable

_INFINITY = r"(?i)^\s*[+-]?inf(inity)?\s*$"


class CastError(SidecarError, ValueError):
    """A value does not fit the type it was to be cast to.

    Attributes:
        row: position of the first such value.
    """

    def __init__(self, message: str, row: int = 0) -> None:
        Exception.__init__(self, message, row)
        self.message = message
        self.expected = None
        self.fix = None
        self.row = row


def check_castable(source: pa.DataType, target: pa.DataType) -> None:
    """Raises ValueError when no value of `source` can be cast to `target`, or struct fields would be lost."""
    _check_fields(source, target)
    try:
        pa.nulls(0, source).cast(target)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{source} cannot be cast to {target}") from error


def safe_cast(values: pa.Array | pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    """Casts a column; a null stays null, and a float may be rounded to the nearest of a narrower type.

    Args:
        values: the column.
        dtype: the type to have.

    Raises:
        CastError: a value does not fit; names the first, with its position.
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    done: list[pa.Array] = []
    first_row = 0
    for chunk in chunks:
        try:
            done.append(_cast_exactly(chunk, dtype))
        except pa.ArrowInvalid as error:
            row = _first_unfit(chunk, dtype)
            text = repr(python_value(chunk[row]))
            quoted = text if len(text) <= 80 else f"{text[:77]}…"
            raise CastError(f"{quoted} does not fit {dtype}", first_row + row) from error
        first_row += len(chunk)
    return _chunked(done, dtype)


def cast_or_null(values: pa.Array | pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    """Casts a column; a value that does not fit becomes null."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return _chunked([piece for chunk in chunks for piece in _cast_pieces(chunk, dtype)], dtype)


def _chunked(arrays: list[pa.Array], dtype: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(arrays, type=dtype)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types


def _cast_pieces(values: pa.Array, dtype: pa.DataType) -> list[pa.Array]:
    """Casts by halves, until what does not fit stands alone."""
    try:
        return [_cast_exactly(values, dtype)]
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [null_column(dtype, 1)]
    half = len(values) // 2
    return [*_cast_pieces(values.slice(0, half), dtype), *_cast_pieces(values.slice(half), dtype)]


def _first_unfit(values: pa.Array, dtype: pa.DataType) -> int:
    """Returns the position of the first value that does not fit; there is one."""
    first, last = 0, len(values)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            _cast_exactly(values.slice(first, middle - first), dtype)
            first = middle
        except pa.ArrowInvalid:
            last = middle
    return first


def _cast_exactly(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Casts leaf by leaf: Arrow's cast of a nested array also looks at values outside a slice and below nulls."""
    if values.type == dtype:
        return values
    import pyarrow.compute as pc  # slow to load, and most shards need no cast

    if isinstance(values, pa.StructArray) and isinstance(dtype, pa.StructType) and dtype.num_fields:
        children = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
        arrays = [
            _cast_exactly(children[field.name], field.type)
            if field.name in children
            else null_column(field.type, len(values))
            for field in dtype
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(dtype), mask=values.is_null())
    if _is_list(values.type) and (pa.types.is_list(dtype) or pa.types.is_large_list(dtype)):
        wide = pa.types.is_large_list(dtype)
        lengths = pc.fill_null(pc.list_value_length(values).cast(pa.int64()), pa.scalar(0, pa.int64()))
        ends = pa.concat_arrays([pa.array([0], pa.int64()), cast("pa.Int64Array", pc.cumulative_sum(lengths))])  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs want an expression
        items = _cast_exactly(cast("pa.ListArray", values).flatten(), dtype.field(0).type)
        make = cast("Callable[..., pa.Array]", pa.LargeListArray.from_arrays if wide else pa.ListArray.from_arrays)
        return make(ends.cast(pa.int64() if wide else pa.int32()), items, type=dtype, mask=values.is_null())
    result = values.cast(dtype)
    if _loses(values, result):
        raise pa.ArrowInvalid(f"a value of {values.type} is not the same as {dtype}")
    return result


def _loses(before: pa.Array, after: pa.Array) -> bool:
    import pyarrow.compute as pc

    source, target = before.type, after.type
    if isinstance(before, pa.DictionaryArray):
        before = before.dictionary_decode()
        source = before.type
    is_number = pa.types.is_integer(source) or pa.types.is_floating(source)
    if (pa.types.is_boolean(target) and is_number) or (pa.types.is_date(target) and pa.types.is_timestamp(source)):
        unlike = pc.not_equal(after.cast(source), before)
    elif pa.types.is_floating(target) and pa.types.is_floating(source):
        unlike = pc.and_not(pc.is_inf(after), pc.is_inf(before))
    elif pa.types.is_floating(target) and (pa.types.is_string(source) or pa.types.is_large_string(source)):
        unlike = pc.and_not(pc.is_inf(after), pc.match_substring_regex(before, _INFINITY))
    else:
        return False
    return bool(pc.any(unlike).as_py())


def _check_fields(source: pa.DataType, target: pa.DataType) -> None:
    """Raises ValueError for struct fields that the target lacks."""
    if isinstance(source, pa.StructType) and isinstance(target, pa.StructType):
        kept = {field.name: field.type for field in target}
        lost = [field.name for field in source if field.name not in kept]
        if lost:
            raise ValueError(f"{target} has no field {lost[0]!r}, which {source} has")
        for field in source:
            _check_fields(field.type, kept[field.name])
    elif _is_list(source) and _is_list(target):
        _check_fields(source.field(0).type, target.field(0).type)


def _is_list(dtype: pa.DataType) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype)
