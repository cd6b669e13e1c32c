"""The leaves of a schema: what a report makes figures of, and of which kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Kind = Literal["number", "text", "flag", "time", "items", "other"]


@dataclass(frozen=True)
class Leaf:
    """One leaf of a column.

    Attributes:
        path: column and field names.
        type: its Arrow type, after dictionaries are decoded.
        kind: what figures it gets; `items` is a list, measured by its length.
    """

    path: tuple[str, ...]
    type: pa.DataType
    kind: Kind

    @property
    def name(self) -> str:
        """The path joined by dots."""
        return ".".join(self.path)


def split_leaves(name: str, array: pa.Array) -> Iterator[tuple[Leaf, pa.Array]]:
    """Yields the leaves of a column with their arrays; a value below a null struct is null.

    Args:
        name: the column's name.
        array: one chunk of it.
    """
    yield from _split((name,), array)


def leaf_kind(name: str, dtype: pa.DataType) -> Kind:
    """Returns what figures a leaf of this name and type gets."""
    if pa.types.is_boolean(dtype):
        return "flag"
    if pa.types.is_integer(dtype):  # hashes are names, not amounts
        return "other" if name.lower().endswith(("hash", "sha256", "md5")) else "number"
    if pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "number"
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return "text"
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype) or pa.types.is_time(dtype):
        return "time"
    if is_list(dtype):
        return "items"
    return "other"


def is_list(dtype: pa.DataType) -> bool:
    """Returns whether the type is one of Arrow's lists."""
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype)


def is_bytes(dtype: pa.DataType) -> bool:
    """Returns whether the type holds bytes, as pictures are stored."""
    return pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_binary_view(dtype)


def describe_type(dtype: pa.DataType) -> str:
    """Returns a type in a few words: of a struct, its number of fields."""
    if isinstance(dtype, pa.StructType):
        return f"struct of {dtype.num_fields} fields" if dtype.num_fields != 1 else "struct of 1 field"
    if isinstance(dtype, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        return f"list of {describe_type(dtype.value_type)}"
    if isinstance(dtype, pa.DictionaryType):
        return describe_type(dtype.value_type)
    return str(dtype)


def _split(path: tuple[str, ...], array: pa.Array) -> Iterator[tuple[Leaf, pa.Array]]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if isinstance(array, pa.StructArray):
        for child, values in zip(array.type, array.flatten(), strict=True):
            yield from _split((*path, child.name), values)
        return
    yield Leaf(path, array.type, leaf_kind(path[-1], array.type)), array
