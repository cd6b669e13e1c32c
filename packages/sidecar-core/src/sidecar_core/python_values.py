"""Arrow values as Python has them, also those that Arrow itself refuses to convert."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

_REFUSALS = (ValueError, OverflowError, pa.ArrowException)


def python_value(value: pa.Scalar[Any]) -> object:
    """Returns a value as Python has it.

    Text that is not UTF-8, as foreign writers leave it, comes as its bytes, and a time that Python cannot hold as
    text; so do those inside structs, lists and maps.
    """
    try:
        return value.as_py()
    except _REFUSALS:
        held = cast("Any", value)
    if isinstance(value, pa.StructScalar):
        return {field.name: python_value(held[position]) for position, field in enumerate(held.type)}
    if isinstance(value, (pa.ListScalar, pa.LargeListScalar, pa.FixedSizeListScalar)):  # a map is a list too
        return [python_value(each) for each in held.values]
    if isinstance(value, (pa.DictionaryScalar, pa.ExtensionScalar, pa.RunEndEncodedScalar)):
        return python_value(held.value)
    if hasattr(value, "as_buffer"):
        return held.as_buffer().to_pybytes()
    return held.cast(pa.string()).as_py()


def python_values(values: pa.Array | pa.ChunkedArray) -> list[object]:
    """Returns all values of a column, as `python_value` does."""
    try:
        return cast("list[object]", values.to_pylist())
    except _REFUSALS:
        return [python_value(value) for value in cast("Any", values)]
