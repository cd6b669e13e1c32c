from __future__ import annotations

import os
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import ShardError
from sidecar_core.parquet_index import IndexSpec, value_schema
from sidecar_core.parquet_index.source import SourceRows, find_source, read_first_file
from sidecar_core.shard_reader import open_parquet


def rows_of(folder, **kwargs):
    spec = IndexSpec(**{"source": f"{folder}/", "key_column": "key", **kwargs})
    source = find_source(spec.source, None)
    schema = read_first_file(source).schema
    return SourceRows(source, spec, schema, value_schema(schema, spec))


def test_files_are_read_in_the_order_of_their_paths(tmp_path):
    for name in ("b", "a", "a/c", "d"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"key": [name], "value": [0]}), path)
    rows = rows_of(tmp_path)
    assert [batch[0][0].as_py() for batch in rows.batches()] == [b"a", b"a/c", b"b", b"d"]
    assert rows.file_rows == [1, 1, 1, 1]


@pytest.mark.parametrize("repeated", [False, True], ids=["different", "repeated"])
def test_batches_are_bounded_by_bytes_whatever_a_dictionary_hides(tmp_path, repeated):
    images = [b"x" * 200_000 if repeated else bytes([number % 256, number // 256]) * 100_000 for number in range(400)]
    pq.write_table(pa.table({"key": range(400), "image": images}), tmp_path / "a.parquet", row_group_size=300)
    sizes = [sum(column.nbytes for column in batch) for batch in rows_of(tmp_path).batches()]
    assert sum(sizes) > 80_000_000
    assert max(sizes) < 17 * 2**20


def test_columns_that_nobody_asks_for_are_not_read(tmp_path):
    table = pa.table({"unread": ["x" * 1000] * 1000, "key": range(1000), "value": range(1000)})
    pq.write_table(table, tmp_path / "a.parquet")
    first = read_first_file(find_source(f"{tmp_path}/", None))
    assert first.column_bytes.keys() == {"unread", "key", "value"}
    (batch,) = rows_of(tmp_path, columns=["value"]).batches()
    assert [column.type for column in batch] == [pa.int64(), pa.int64()]


def test_a_damaged_page_is_named_with_its_file(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"key": range(10_000)})
    pq.write_table(table, path, write_page_checksum=True, use_dictionary=False, compression="none")
    data = bytearray(path.read_bytes())
    data[40_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ShardError, match=r"a\.parquet: unreadable after row 0: .*checksum"):
        list(rows_of(tmp_path).batches())


def test_a_file_that_is_cut_after_it_was_opened_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": [f"{row:0100}" for row in range(20_000)]}), path)
    rows = rows_of(tmp_path)

    @contextmanager
    def open_and_cut(storage, rel_path):
        with open_parquet(storage, rel_path) as file:
            os.truncate(path, 4)
            yield file

    monkeypatch.setattr("sidecar_core.parquet_index.source.open_parquet", open_and_cut)
    with pytest.raises(ShardError, match=r"a\.parquet: (unreadable after row 0|0 rows read)"):
        list(rows.batches())


def test_a_version_is_that_of_all_files(tmp_path):
    pq.write_table(pa.table({"key": [1]}), tmp_path / "a.parquet")
    version = find_source(f"{tmp_path}/", None).version()
    assert find_source(f"{tmp_path}/", None).version() == version
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    assert find_source(f"{tmp_path}/", None).version() != version
