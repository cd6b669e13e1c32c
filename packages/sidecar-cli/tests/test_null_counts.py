"""Null counts from the footer and from the rows are the same."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from sidecar_cli.null_counts import count_nulls, leaf_types
from sidecar_core.nulls import null_rows

NUMBERS = st.none() | st.integers(0, 3)
STRUCTS = st.none() | st.fixed_dictionaries(
    {
        "a": NUMBERS,
        "in": st.none() | st.fixed_dictionaries({"l": st.none() | st.lists(NUMBERS, max_size=2), "s": NUMBERS}),
    }
)
INNER = pa.struct([("l", pa.list_(pa.int8())), ("s", pa.int8())])
TYPES = {"n": pa.int8(), "l": pa.list_(pa.int8()), "s": pa.struct([("a", pa.int8()), ("in", INNER)]), "b": pa.binary()}


def counted(path, array):
    yield path, null_rows(array).true_count
    if isinstance(array, pa.StructArray):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from counted(f"{path}.{field.name}", child)


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "n": NUMBERS,
                "l": st.none() | st.lists(NUMBERS, max_size=2),
                "s": STRUCTS,
                "b": st.none() | st.binary(max_size=3),
            }
        ),
        max_size=12,
    ),
    row_groups=st.integers(1, 13),
    statistics=st.booleans(),
)
def test_counts_are_those_of_the_rows(rows, row_groups, statistics):
    table = pa.Table.from_pylist(rows, pa.schema(list(TYPES.items())))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=row_groups, write_statistics=statistics)
    found = count_nulls(pq.ParquetFile(pa.BufferReader(sink.getvalue())))
    expected = dict(pair for name in TYPES for pair in counted(name, table.column(name).combine_chunks()))
    if not statistics and rows:
        expected["b"] = None
    assert found == expected
    assert list(found) == [path for name, dtype in TYPES.items() for path, _ in leaf_types(name, dtype)]


def test_types_from_elsewhere():
    number = pa.float32()
    columns = {
        "map": pa.array([[("a", 1.0)], None, []], pa.map_(pa.string(), number)),
        "fixed": pa.array([[1.0], None, [None]], pa.list_(number, 1)),
        "view": pa.array([[1.0], None, []], pa.list_view(number)),
        "large": pa.array([[1.0], None, []], pa.large_list(number)),
        "inside": pa.array([{"m": [("a", None)]}, None, {"m": None}], pa.struct([("m", pa.map_(pa.string(), number))])),
        "tensor": pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(number, (1,)), pa.array([[1.0], None, [2.0]], pa.list_(number, 1))
        ),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    found = count_nulls(pq.ParquetFile(pa.BufferReader(sink.getvalue())))
    assert found == {"map": 1, "fixed": 1, "view": 1, "large": 1, "inside": 2, "inside.m": 2, "tensor": 1}
