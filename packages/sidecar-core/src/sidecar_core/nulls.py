"""The null convention of sidecars: a null struct has null children rather than a null slot."""

from __future__ import annotations

import pyarrow as pa


def null_scalar_for(dtype: pa.DataType) -> dict[str, object] | None:
    """Returns what stands for null in a column of this type.

    Args:
        dtype: any Arrow type.

    Returns:
        For a struct, a dict of its fields, each null in the same sense; for anything else None. So
        `pa.array([null_scalar_for(t)] * n, type=t)` has no null slot, and every child is null.
    """
    if isinstance(dtype, pa.StructType):
        return {field.name: null_scalar_for(field.type) for field in dtype}
    return None


def null_column(dtype: pa.DataType, length: int) -> pa.Array:
    """Returns `length` times what `null_scalar_for` returns, as an array of this type.

    Raises:
        pa.ArrowInvalid: a child of the struct is declared non-nullable, as only foreign files have it.
    """
    if not isinstance(dtype, pa.StructType):
        return pa.nulls(length, dtype)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types
    if dtype.num_fields == 0:
        return pa.array([{}] * length, type=dtype)
    children = [null_column(field.type, length) for field in dtype]
    nullable = pa.StructArray.from_arrays(children, fields=[field.with_nullable(True) for field in dtype])
    return nullable if nullable.type == dtype else nullable.cast(dtype)


def null_rows(array: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Returns which rows are null: those below which every leaf is null.

    A struct's row is null when each of its children is null in the same sense, whether or not the slot
    is null too. A list is a leaf: an empty one is not null. NaN is not null.

    Args:
        array: any column.

    Returns:
        One boolean a row, without nulls.
    """
    import pyarrow.compute as pc  # `sidecar check` makes null columns, and need not wait for this

    if isinstance(array, pa.ChunkedArray):
        chunks = [null_rows(chunk) for chunk in array.chunks]
        return pa.concat_arrays([pa.array([], pa.bool_()), *chunks])
    if isinstance(array, pa.ExtensionArray):
        return null_rows(array.storage)
    if isinstance(array, pa.StructArray):
        result = pa.repeat(pa.scalar(value=True), len(array))
        for child in array.flatten():  # unlike field(), flatten() hides the children of null slots
            result = pc.and_(result, null_rows(child))
        return result
    if isinstance(array, pa.DictionaryArray) and array.dictionary.null_count:
        array = array.dictionary_decode()
    return pc.is_null(array)
