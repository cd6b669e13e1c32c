from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.parquet_index.row_file import RowFile, RowFileWriter

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string()), ("both", pa.struct([("a", pa.int32())]))])


def write(path, tables, batch_bytes=2**20):
    with RowFileWriter(path, SCHEMA, batch_bytes=batch_bytes) as writer:
        for table in tables:
            writer.write(pa.Table.from_pylist(table, SCHEMA).combine_chunks().to_batches()[0].columns)
    return RowFile(path)


ROWS = [
    {"key": number, "text": "x" * (number % 5), "both": {"a": number} if number % 3 else None} for number in range(90)
]


@given(st.lists(st.integers(-1, 89), max_size=40), st.sampled_from([1, 300, 2**20]))
def test_rows_come_in_the_order_asked_for(tmp_path_factory, numbers, batch_bytes):
    path = tmp_path_factory.mktemp("rows") / "rows.arrow"
    file = write(path, [ROWS[:10], ROWS[10:11], ROWS[11:]], batch_bytes)
    (taken,) = file.take(np.array(numbers, np.int64), (0, 2))
    nothing = {"key": None, "both": None}
    expected = [{name: ROWS[n][name] for name in nothing} if n >= 0 else nothing for n in numbers]
    assert taken.to_pylist() == expected
    assert file.num_rows == 90


def test_batches_are_as_large_as_they_may_be(tmp_path):
    write(tmp_path / "one", [ROWS[:10], ROWS[10:20]], 2**20)
    write(tmp_path / "two", [ROWS[:10], ROWS[10:20]], 1)
    assert pa.ipc.open_file(pa.memory_map(str(tmp_path / "one"))).num_record_batches == 1
    assert pa.ipc.open_file(pa.memory_map(str(tmp_path / "two"))).num_record_batches == 2


def test_no_rows(tmp_path):
    file = write(tmp_path / "rows", [])
    assert file.num_rows == 0
    assert file.take(np.array([-1, -1]), (1,))[0].to_pylist() == [{"text": None}] * 2
    assert file.take(np.array([], np.int64), (1,))[0].num_rows == 0


def test_an_unfinished_file_is_none(tmp_path):
    path = tmp_path / "rows"

    def fail():
        with RowFileWriter(path, SCHEMA) as writer:
            writer.write(pa.Table.from_pylist(ROWS, SCHEMA).to_batches()[0].columns)
            raise KeyError("something else")

    with pytest.raises(KeyError, match="something else"):
        fail()
    with pytest.raises(pa.ArrowInvalid):
        RowFile(path)


def test_values_are_mapped_and_not_copied(tmp_path):
    before = pa.total_allocated_bytes()
    file = write(tmp_path / "rows", [ROWS] * 500)
    assert file.num_rows == 45_000
    assert pa.total_allocated_bytes() - before < 10_000


@pytest.mark.slow
@pytest.mark.usefixtures("much_memory")
def test_an_answer_of_more_than_two_gib(tmp_path):
    schema = pa.schema([("key", pa.int64()), ("image", pa.binary())])
    with RowFileWriter(tmp_path / "rows", schema) as writer:
        writer.write([pa.array([0]), pa.array([b"\1" * 2**28], pa.binary())])
    pieces = RowFile(tmp_path / "rows").take(np.array([0, 0, -1, 0, 0, 0, 0, 0, 0, 0]), (1,))
    assert len(pieces) > 1
    lengths = [value for piece in pieces for value in pa.compute.binary_length(piece.column(0)).to_pylist()]
    assert lengths == [2**28, 2**28, None, *[2**28] * 7]
