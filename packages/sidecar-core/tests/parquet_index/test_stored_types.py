from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.parquet_index.stored_types import as_type, stored_type

WORDS = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (pa.int32(), pa.int32()),
        (WORDS, pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.large_binary(), pa.large_binary()),
        (pa.struct([("a", WORDS)]), pa.struct([("a", pa.string())])),
        (pa.list_(pa.struct([("a", WORDS)])), pa.list_(pa.struct([("a", pa.string())]))),
        (pa.large_list(pa.string_view()), pa.large_list(pa.string())),
        (pa.list_(WORDS, 2), pa.list_(pa.string(), 2)),
        (pa.map_(pa.string(), WORDS), pa.map_(pa.string(), pa.string())),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_types_without_dictionaries_and_views(dtype, stored):
    assert stored_type(dtype) == stored


def test_nullability_inside_is_kept():
    dtype = pa.struct([pa.field("a", WORDS, nullable=False)])
    assert stored_type(dtype) == pa.struct([pa.field("a", pa.string(), nullable=False)])


@pytest.mark.parametrize("dtype", [WORDS, pa.string_view(), pa.string()], ids=str)
def test_values_get_their_type_back(dtype):
    pieces = [pa.array(["a", None]), pa.array(["b", "a"])]
    column = as_type(pieces, dtype, held=pa.string())
    assert column.type == dtype
    assert column.to_pylist() == ["a", None, "b", "a"]


def test_no_values_have_a_type_too():
    assert as_type([], WORDS, held=pa.string()).type == WORDS
