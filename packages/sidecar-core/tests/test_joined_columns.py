from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core import joined_columns
from sidecar_core.errors import ShardError
from sidecar_core.joined_columns import fit_joined, replace_rows
from sidecar_core.op import OpContext
from sidecar_core.testing.example_dataset import example_dataset

POINT = pa.struct([("x", pa.int8()), ("names", pa.list_(pa.string()))])
POINTS = st.none() | st.fixed_dictionaries(
    {
        "x": st.none() | st.integers(0, 9),
        "names": st.none() | st.lists(st.none() | st.text("ab", max_size=3), max_size=2),
    }
)


def chunked(values, cuts, dtype):
    ends = sorted({min(cut, len(values)) for cut in cuts} | {0, len(values)})
    chunks = [pa.array(values[start:end], dtype) for start, end in itertools.pairwise(ends)]
    return pa.chunked_array([pa.array([], dtype), *chunks], type=dtype)


@given(
    rows=st.lists(st.tuples(POINTS, POINTS, st.booleans()), max_size=12),
    old_cuts=st.sets(st.integers(0, 12), max_size=3),
    new_cuts=st.sets(st.integers(0, 12), max_size=3),
    piece_bytes=st.sampled_from([1, 40, 2**30]),
)
def test_rows_are_replaced_whatever_the_chunks_and_pieces(rows, old_cuts, new_cuts, piece_bytes):
    """Pieces of a byte or of some take the way that gigabytes take."""
    old, new, where = ([row[column] for row in rows] for column in range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined_columns, "_PIECE_BYTES", piece_bytes)
        result = replace_rows(chunked(old, old_cuts, POINT), chunked(new, new_cuts, POINT), pa.array(where, pa.bool_()))
    result.validate(full=True)
    assert result.to_pylist() == [yes if taken else no for no, yes, taken in rows]
    if piece_bytes == 1:
        assert all(len(chunk) == 1 for chunk in result.chunks)


@pytest.mark.parametrize("piece_bytes", [1, 2**30])
@pytest.mark.parametrize("cuts", [(), (1,), (2, 3), (4,)])
def test_the_first_value_that_does_not_fit_is_named_with_its_row(piece_bytes, cuts, monkeypatch):
    monkeypatch.setattr(joined_columns, "_PIECE_BYTES", piece_bytes)
    values = chunked([1, 2, 3, 400, 500], cuts, pa.int64())
    context = OpContext(
        dataset=example_dataset(),
        rel_path="a.parquet",
        first_row=100,
        isolation=None,
        side_inputs={},
        shard_rows=200,
        shard_scope=None,
    )
    keys = pa.chunked_array([list("abc"), list("de")])
    with pytest.raises(ShardError) as caught:
        fit_joined(values, pa.int8(), keys, context, "column 'n' of s")
    assert str(caught.value) == "a.parquet row 103, key 'd': column 'n' of s is int64, and 400 does not fit int8"
    assert fit_joined(values, pa.int16(), keys, context, "").to_pylist() == [1, 2, 3, 400, 500]
