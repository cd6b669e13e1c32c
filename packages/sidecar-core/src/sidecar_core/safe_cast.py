"""Casts that lose nothing in silence: what Arrow's own safe casts let pass is refused here too."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from sidecar_core.errors import SidecarError
from sidecar_core.foreign_types import is_list, plain_type, with_types_of
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
    held = source if isinstance(target, pa.DictionaryType) else with_types_of(plain_type(source), target)
    try:
        pa.nulls(0, held).cast(target)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{source} cannot be cast to {target}") from error


def safe_cast(values: pa.Array | pa.ChunkedArray, dtype: pa.DataType, *, round_floats: bool = False) -> pa.ChunkedArray:
    """Casts a column; a null stays null, and a value that the type cannot hold as it is does not fit.

    Args:
        values: the column.
        dtype: the type to have.
        round_floats: whether a float may become the nearest of a narrower type, for people who ask for that type.

    Raises:
        CastError: a value does not fit; names the first, with its position.
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    done: list[pa.Array] = []
    first_row = 0
    for chunk in chunks:
        try:
            done.append(_cast(chunk, dtype, round_floats=round_floats))
        except pa.ArrowInvalid as error:
            row = _first_unfit(chunk, dtype, round_floats=round_floats)
            text = repr(python_value(chunk[row]))
            quoted = text if len(text) <= 80 else f"{text[:77]}…"
            raise CastError(f"{quoted} does not fit {dtype}", first_row + row) from error
        first_row += len(chunk)
    return _chunked(done, dtype)


def cast_or_null(values: pa.Array | pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    """Casts a column; a value that does not fit becomes null, and a float the nearest of a narrower type."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return _chunked([piece for chunk in chunks for piece in _cast_pieces(chunk, dtype)], dtype)


def _chunked(arrays: list[pa.Array], dtype: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(arrays, type=dtype)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types


def _cast_pieces(values: pa.Array, dtype: pa.DataType) -> list[pa.Array]:
    """Casts by halves, until what does not fit stands alone."""
    try:
        return [_cast(values, dtype, round_floats=True)]
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [null_column(dtype, 1)]
    half = len(values) // 2
    return [*_cast_pieces(values.slice(0, half), dtype), *_cast_pieces(values.slice(half), dtype)]


def _first_unfit(values: pa.Array, dtype: pa.DataType, *, round_floats: bool) -> int:
    """Returns the position of the first value that does not fit; there is one."""
    first, last = 0, len(values)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            _cast(values.slice(first, middle - first), dtype, round_floats=round_floats)
            first = middle
        except pa.ArrowInvalid:
            last = middle
    return first


def _cast(values: pa.Array, dtype: pa.DataType, *, round_floats: bool) -> pa.Array:
    """Casts leaf by leaf: Arrow's cast of a nested array also looks at values outside a slice and below nulls."""
    if values.type == dtype:
        return values
    if pa.types.is_null(values.type):
        return null_column(dtype, len(values))
    if isinstance(values, pa.DictionaryArray) and not isinstance(dtype, pa.DictionaryType):
        return _cast(values.dictionary_decode(), dtype, round_floats=round_floats)
    import pyarrow.compute as pc  # slow to load, and most shards need no cast

    if isinstance(values, pa.StructArray) and isinstance(dtype, pa.StructType) and dtype.num_fields:
        children = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
        arrays = [
            _cast(children[field.name], field.type, round_floats=round_floats)
            if field.name in children
            else null_column(field.type, len(values))
            for field in dtype
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(dtype), mask=values.is_null())
    if is_list(values.type) and (pa.types.is_list(dtype) or pa.types.is_large_list(dtype)):
        wide = pa.types.is_large_list(dtype)
        lengths = pc.fill_null(pc.list_value_length(values).cast(pa.int64()), pa.scalar(0, pa.int64()))
        ends = pa.concat_arrays([pa.array([0], pa.int64()), cast("pa.Int64Array", pc.cumulative_sum(lengths))])  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs want an expression
        items = _cast(cast("pa.ListArray", values).flatten(), dtype.field(0).type, round_floats=round_floats)
        make = cast("Callable[..., pa.Array]", pa.LargeListArray.from_arrays if wide else pa.ListArray.from_arrays)
        return make(ends.cast(pa.int64() if wide else pa.int32()), items, type=dtype, mask=values.is_null())
    result = values.cast(dtype)
    if _loses(values, result, round_floats=round_floats):
        raise pa.ArrowInvalid(f"a value of {values.type} is not the same as {dtype}")
    return result


def _loses(before: pa.Array, after: pa.Array, *, round_floats: bool) -> bool:
    """Returns whether a value became another one. Of nested types, those come here that Arrow has cast whole."""
    if isinstance(before, pa.DictionaryArray):
        before = before.dictionary_decode()
    source, target = before.type, after.type
    if source == target:
        return False
    if isinstance(before, pa.StructArray) and isinstance(after, pa.StructArray):
        children = dict(zip((field.name for field in target), after.flatten(), strict=True))
        pairs = zip((field.name for field in source), before.flatten(), strict=True)
        return any(_loses(each, children[name], round_floats=round_floats) for name, each in pairs if name in children)
    if isinstance(before, pa.MapArray) and isinstance(after, pa.MapArray):
        rows = pa.array(range(len(before)), pa.int64())
        old, new = before.take(rows), after.take(rows)  # a slice's keys and items are those of the whole array
        pairs = ((old.keys, new.keys), (old.items, new.items))
        return any(_loses(one, other, round_floats=round_floats) for one, other in pairs)
    if is_list(source) and is_list(target):
        items, new_items = (cast("pa.ListArray", each).flatten() for each in (before, after))
        return _loses(items, new_items, round_floats=round_floats)
    return _leaf_loses(before, after, round_floats=round_floats)


def _leaf_loses(before: pa.Array, after: pa.Array, *, round_floats: bool) -> bool:
    import pyarrow.compute as pc

    source, target, types = before.type, after.type, pa.types
    is_number = types.is_integer(source) or types.is_floating(source)
    if (types.is_boolean(target) and is_number) or (types.is_date(target) and types.is_timestamp(source)):
        unlike = pc.not_equal(after.cast(source), before)
    elif types.is_floating(target) and types.is_floating(source):
        if source.bit_width <= target.bit_width:
            return False
        unlike = _became_others(before, after.cast(source), round_floats=round_floats)
    elif not round_floats and (
        (types.is_decimal(source) and types.is_floating(target))
        or (types.is_floating(source) and types.is_decimal(target))
    ):
        unlike = pc.not_equal(after.cast(source), before)
    elif types.is_floating(target) and (types.is_string(source) or types.is_large_string(source)):
        unlike = pc.and_not(pc.is_inf(after), pc.match_substring_regex(before, _INFINITY))
    else:
        return False
    return bool(pc.any(unlike).as_py())


def _became_others(before: pa.Array, after: pa.Array, *, round_floats: bool) -> pa.Array:
    """Returns which floats are others now, NaN staying NaN; where they may be rounded, those that became infinite."""
    import pyarrow.compute as pc

    if round_floats:
        return pc.and_not(pc.is_inf(after), pc.is_inf(before))
    return pc.and_not(pc.not_equal(after, before), pc.and_(pc.is_nan(after), pc.is_nan(before)))


def _check_fields(source: pa.DataType, target: pa.DataType) -> None:
    """Raises ValueError for struct fields that the target lacks."""
    if isinstance(source, pa.StructType) and isinstance(target, pa.StructType):
        kept = {field.name: field.type for field in target}
        lost = [field.name for field in source if field.name not in kept]
        if lost:
            raise ValueError(f"{target} has no field {lost[0]!r}, which {source} has")
        for field in source:
            _check_fields(field.type, kept[field.name])
    elif is_list(source) and is_list(target):
        _check_fields(source.field(0).type, target.field(0).type)
