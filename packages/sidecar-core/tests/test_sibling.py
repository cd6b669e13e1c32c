from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import AlignmentError, ShardError, StorageNotFoundError
from sidecar_core.op import OpContext
from sidecar_core.sibling import SiblingReader
from sidecar_core.testing.example_dataset import example_dataset

REL_PATH = "a b/part-0.parquet"
SCHEMA = pa.schema([("score", pa.int64())])


def keys_of(rows, first=0):
    return pa.chunked_array([pa.array([f"key-{row}" for row in range(first, first + rows)], pa.string())])


def sibling_table(rows=10, **columns):
    held = {"image_key": keys_of(rows), "score": pa.array(range(rows), pa.int64())}
    return pa.table({**held, **columns})


def write(folder, table, **options):
    path = folder / REL_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return f"{folder}/"


class Shard:
    """Stands for the engine: the contexts of one shard's batches."""

    def __init__(self, rows=10):
        self.rows = rows
        self.scope = ExitStack()
        self.state = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.scope.close()

    def at(self, first_row=0):
        return OpContext(
            dataset=example_dataset(),
            rel_path=REL_PATH,
            first_row=first_row,
            isolation=None,
            side_inputs={},
            shard_rows=self.rows,
            shard_scope=self.scope,
            shard_state=self.state,
        )


def test_rows_come_beside_the_main_batches_whatever_the_row_groups(tmp_path):
    prefix = write(tmp_path, sibling_table(other=pa.array([b"x"] * 10)), row_group_size=3)
    with Shard() as shard:
        for first, count in ((0, 4), (4, 1), (5, 5)):
            reader = SiblingReader.of_shard(shard.at(first), prefix, SCHEMA)
            found = reader.rows(first, keys_of(count, first))
            assert found.schema == SCHEMA
            assert found.column("score").to_pylist() == list(range(first, first + count))


def test_file_is_opened_once_a_shard_and_closed_with_its_scope(tmp_path, monkeypatch):
    prefix = write(tmp_path, sibling_table())
    with Shard() as shard:
        context = shard.at()
        storage = context.open_storage(prefix)
        opened = []
        monkeypatch.setattr(
            storage, "open_input", lambda path: opened.append(type(storage).open_input(storage, path)) or opened[-1]
        )
        first = SiblingReader.of_shard(context, prefix, SCHEMA)
        assert SiblingReader.of_shard(shard.at(3), prefix, SCHEMA) is first
        assert len(opened) == 1
        assert not opened[0].closed
    assert opened[0].closed


def test_two_ops_may_read_the_same_rows(tmp_path):
    prefix = write(tmp_path, sibling_table(), row_group_size=2)
    with Shard() as shard:
        for first in (0, 5):
            for _ in range(2):
                reader = SiblingReader.of_shard(shard.at(first), prefix, SCHEMA)
                found = reader.rows(first, keys_of(5, first))
                assert found.column("score").to_pylist() == list(range(first, first + 5))


@pytest.mark.parametrize("row_group_size", [1, 3, 100])
def test_jumps_forward_and_back(tmp_path, row_group_size):
    prefix = write(tmp_path, sibling_table(50), row_group_size=row_group_size)
    with Shard(50) as shard:
        reader = SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
        for first, count in ((3, 1), (7, 2), (40, 10), (0, 50), (49, 1), (20, 0), (20, 3)):
            found = reader.rows(first, keys_of(count, first))
            assert found.column("score").to_pylist() == list(range(first, first + count))


@given(
    rows=st.integers(0, 60),
    row_group_size=st.integers(1, 70),
    asked=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6),
)
def test_any_ranges_of_any_row_groups(tmp_path_factory, rows, row_group_size, asked):
    prefix = write(tmp_path_factory.mktemp("any"), sibling_table(rows), row_group_size=row_group_size)
    with Shard(rows) as shard:
        reader = SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
        for one, other in asked:
            first, end = sorted((min(one, rows), min(other, rows)))
            found = reader.rows(first, keys_of(end - first, first))
            assert found.column("score").to_pylist() == list(range(first, end))


def test_first_other_key_is_named_with_shard_row_and_both_keys(tmp_path):
    table = sibling_table()
    prefix = write(
        tmp_path, pa.concat_tables([table.slice(0, 6), table.slice(7, 1), table.slice(6, 1), table.slice(8)])
    )
    with Shard() as shard:
        reader = SiblingReader.of_shard(shard.at(4), prefix, SCHEMA)
        with pytest.raises(AlignmentError) as caught:
            reader.rows(4, keys_of(6, 4))
    assert str(caught.value).startswith(
        f"{REL_PATH} row 6: 'image_key' is 'key-6' in the main shard and 'key-7' at {prefix}"
    )


def test_null_key_matches_only_null(tmp_path):
    held = [f"key-{row}" for row in range(10)]
    without = [None if row == 5 else key for row, key in enumerate(held)]
    prefix = write(tmp_path, sibling_table().set_column(0, "image_key", pa.array(without)))
    with Shard() as shard:
        reader = SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
        assert reader.rows(0, pa.array(without)).num_rows == 10
        with pytest.raises(AlignmentError, match=r"row 5: 'image_key' is 'key-5' in the main shard and None at "):
            reader.rows(0, pa.array(held))


def test_keys_of_another_encoding_match_and_of_another_kind_do_not(tmp_path):
    keys = keys_of(10).cast(pa.large_string())
    prefix = write(tmp_path, sibling_table().set_column(0, "image_key", keys.dictionary_encode()))
    with Shard() as shard:
        reader = SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
        assert reader.rows(2, keys_of(8, 2)).num_rows == 8
        with pytest.raises(AlignmentError, match=r"part-0\.parquet: column 'image_key' .*cannot be compared"):
            reader.rows(0, pa.array(range(10)))


def test_other_row_count(tmp_path):
    prefix = write(tmp_path, sibling_table(9))
    with Shard() as shard, pytest.raises(AlignmentError) as caught:
        SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
    assert f"{REL_PATH}: 10 rows in the main shard, 9 in {prefix}{REL_PATH}" in str(caught.value)


def test_absent_shard(tmp_path):
    prefix = f"{tmp_path}/"
    with Shard() as shard:
        assert SiblingReader.of_shard(shard.at(), prefix, SCHEMA, required=False) is None
        assert SiblingReader.of_shard(shard.at(5), prefix, SCHEMA, required=False) is None
        with pytest.raises(ShardError) as caught:
            SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
    assert not isinstance(caught.value, StorageNotFoundError)
    assert f"{REL_PATH}: the sidecar at {prefix} has no such shard" in str(caught.value)
    assert "fix: " in str(caught.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"score": [1] * 10}), "no key column 'image_key'"),
        (pa.table({"image_key": keys_of(10)}), "no column 'score'"),
        (
            sibling_table(score=pa.array(["many"] * 10)),
            "row 0: column 'score' is string, and 'many' does not fit int64",
        ),
        (sibling_table(score=pa.array([[1]] * 10)), r"column 'score' is not as in the plan: list<.*> cannot be cast"),
    ],
)
def test_shards_that_do_not_fit_are_named(tmp_path, table, said):
    prefix = write(tmp_path, table)
    with Shard() as shard, pytest.raises(ShardError, match=said) as caught:
        SiblingReader.of_shard(shard.at(), prefix, SCHEMA).rows(0, keys_of(10))
    assert f"{prefix}{REL_PATH}" in str(caught.value)


def test_unfit_value_is_named_with_its_row_in_the_shard(tmp_path):
    scores = pa.array([float(row) for row in range(9)] + [0.5])
    prefix = write(tmp_path, sibling_table(score=scores), row_group_size=4)
    with Shard() as shard:
        reader = SiblingReader.of_shard(shard.at(), prefix, SCHEMA)
        assert reader.rows(0, keys_of(9)).column("score").to_pylist() == list(range(9))
        with pytest.raises(ShardError, match=r"row 9: column 'score' is double, and 0\.5 does not fit int64"):
            reader.rows(8, keys_of(2, 8))


def test_damaged_file_is_named(tmp_path):
    path = tmp_path / REL_PATH
    path.parent.mkdir()
    path.write_bytes(b"no parquet at all")
    with Shard() as shard, pytest.raises(ShardError, match=r"part-0\.parquet: not a readable Parquet file"):
        SiblingReader.of_shard(shard.at(), f"{tmp_path}/", SCHEMA, required=False)


@pytest.mark.parametrize("row_groups", [0, 1])
def test_empty_shards(tmp_path, row_groups):
    prefix = f"{tmp_path}/"
    (tmp_path / REL_PATH).parent.mkdir()
    with pq.ParquetWriter(tmp_path / REL_PATH, sibling_table(0).schema) as writer:
        for _ in range(row_groups):
            writer.write_table(sibling_table(0))
    with Shard(0) as shard:
        found = SiblingReader.of_shard(shard.at(), prefix, SCHEMA).rows(0, keys_of(0))
    assert found.num_rows == 0
    assert found.schema == SCHEMA


def test_memory_follows_the_range_and_not_the_shard(tmp_path):
    wide = pa.schema([("text", pa.large_string())])
    text = pa.array(["x" * 65_000 + str(row) for row in range(1000)], pa.large_string())
    table = pa.table({"image_key": keys_of(1000), "text": text})
    prefix = write(tmp_path, table, row_group_size=1000, write_batch_size=8, use_dictionary=False)
    size = text.nbytes
    del text, table
    with Shard(1000) as shard:
        before = pa.total_allocated_bytes()
        most = 0
        for first in range(0, 1000, 50):
            reader = SiblingReader.of_shard(shard.at(first), prefix, wide)
            found = reader.rows(first, keys_of(50, first))
            most = max(most, pa.total_allocated_bytes() - before)
            assert found.column("text")[0].as_py().endswith(str(first))
    assert most < size / 2
