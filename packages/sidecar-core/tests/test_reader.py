from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sidecar_core
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import AlignmentError, ShardError, StorageNotFoundError, UsageError
from sidecar_core.pipeline import build_pipeline
from sidecar_core.reader import AlignedDatasets, open_aligned
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import damage_column
from sidecar_core.testing.engine import run_every_shard
from sidecar_core.testing.example_dataset import example_dataset, example_table


def keys_of(rows, first=0):
    return pa.array([f"key-{row}" for row in range(first, first + rows)], pa.string())


class Folders:
    def __init__(self, folder):
        self.folder = folder

    def write(self, kind, table, rel_path="0.parquet", **options):
        path = self.folder / kind / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        return f"{self.folder / kind}"

    def main(self, *shards, rows=10, **options):
        for rel_path in shards or ("0.parquet",):
            prefix = self.write("main", example_table(rows), rel_path, **options)
        return prefix

    def sidecar(self, columns, rel_path="0.parquet", *, kind="one", keys=None, **options):
        rows = len(next(iter(columns.values())))
        keys = keys_of(rows) if keys is None else keys
        return self.write(kind, pa.table({"image_key": keys, **columns}), rel_path, **options)

    def made(self, *shards, rows=10):
        """Returns prefixes of a main dataset and of a sidecar that a run made of it, with the column byte_length."""
        self.main(*shards, rows=rows)
        dataset = example_dataset(
            main_prefix=f"{self.folder}/main/", sidecar_prefix=f"{self.folder}/made/", schema_extensions=[]
        )
        pipeline = build_pipeline(dataset, [{"type": "measure_bytes"}], plugins=["sidecar_core.testing.ops"])
        run_every_shard(pipeline, {pipeline.outputs[0].name: f"{self.folder}/made"}, workers=1)
        return dataset


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path)


def test_main_and_sidecars_come_side_by_side(folders):
    main = folders.main("0.parquet", "b/1.parquet", row_group_size=4)
    for shard, value in (("0.parquet", 0), ("b/1.parquet", 1)):
        one = folders.sidecar({"n": [value] * 10}, shard, row_group_size=3)
        two = folders.sidecar({"s": [{"a": value}] * 10}, shard, kind="two")
    reader = open_aligned(main, [one, two], key_column="image_key")
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["image_key", "title", "width", "extra", "n", "s"]
    batches = list(reader)
    table = pa.Table.from_batches(batches)
    assert table.column("image_key").to_pylist() == [f"key-{row}" for row in range(10)] * 2
    assert table.column("n").to_pylist() == [0] * 10 + [1] * 10
    assert table.column("s").to_pylist() == [{"a": 0}] * 10 + [{"a": 1}] * 10


def test_a_run_says_which_column_is_the_key_and_datasets_say_where_they_are(folders):
    dataset = folders.made()
    expected = ["image_key", "title", "width", "extra", "byte_length", "byte_length_reason"]
    assert open_aligned(dataset.main_prefix, [dataset.sidecar_prefix]).schema.names == expected
    assert sidecar_core.open_aligned(dataset, [dataset]).read_all().column_names == expected


def test_without_a_known_key_the_caller_is_asked(folders):
    one = folders.sidecar({"n": [1] * 10})
    with pytest.raises(UsageError, match="nothing says which column is the key") as caught:
        open_aligned(folders.main(), [one])
    assert "fix: key_column='…'" in str(caught.value)


def test_first_listed_wins_on_a_name(folders):
    main = folders.main()
    one = folders.sidecar({"title": ["one"] * 10, "n": [1] * 10})
    two = folders.sidecar({"n": [2] * 10, "width": [0.5] * 10}, kind="two")
    held = open_aligned(main, [one, two], key_column="image_key").read_all()
    assert held.column("n").to_pylist() == [1] * 10
    assert held.column("title").to_pylist() == example_table().column("title").to_pylist()
    other = open_aligned(two, [one, main], key_column="image_key").read_all()
    assert other.column("n").to_pylist() == [2] * 10
    assert other.column("title").to_pylist() == ["one"] * 10
    assert other.schema.field("width").type == pa.float64()


def test_columns_come_in_the_order_that_is_asked_for(folders):
    main, one = folders.main(), folders.sidecar({"n": list(range(10))})
    held = open_aligned(main, [one], columns=["n", "image", "image_key"], key_column="image_key").read_all()
    assert held.column_names == ["n", "image", "image_key"]
    assert held.column("image").to_pylist() == example_table().column("image").to_pylist()
    only = open_aligned(main, [one], columns=["n"], key_column="image_key").read_all()
    assert only.column_names == ["n"]


def test_pictures_are_not_read_unless_asked_for(folders):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10, "thumb": [b"t"] * 10})
    damage_column(folders.folder / "main/0.parquet", "image")
    reader = open_aligned(main, [one], key_column="image_key")
    assert reader.schema.names == ["image_key", "title", "width", "extra", "n"]
    assert reader.read_all().num_rows == 10
    with pytest.raises(ShardError, match=r"main/0\.parquet: unreadable after row 0"):
        open_aligned(main, [one], columns=["image"], key_column="image_key").read_all()


@pytest.mark.parametrize("columns", [["n", "nn"], [], ["n", "n"]])
def test_columns_that_cannot_be_had(folders, columns):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10})
    with pytest.raises(UsageError):
        open_aligned(main, [one], columns=columns, key_column="image_key")


def test_unknown_column_says_what_there_is(folders):
    main, one = folders.main(), folders.sidecar({"score": [1] * 10})
    with pytest.raises(UsageError, match="no column 'scor'; did you mean 'score'"):
        open_aligned(main, [one], columns=["scor"], key_column="image_key")


def test_a_prefix_is_no_list_of_prefixes(folders):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10})
    with pytest.raises(UsageError, match="a list of prefixes"):
        open_aligned(main, one, key_column="image_key")
    with pytest.raises(UsageError, match="a list of paths"):
        open_aligned(main, [one], key_column="image_key", shards="0.parquet")
    with pytest.raises(UsageError, match="shards is 5"):
        open_aligned(main, [one], key_column="image_key", shards=5)
    paths = [info.rel_path for info in open_storage(str(main)).list_shards()]
    read = open_aligned(main, [one], key_column="image_key", shards=iter(paths)).read_all()
    assert read == open_aligned(main, [one], key_column="image_key").read_all()
    with pytest.raises(UsageError, match="columns is 'n'"):
        open_aligned(main, [one], key_column="image_key", columns="n")
    with pytest.raises(UsageError, match="missing is 'nulls'"):
        open_aligned(main, [one], key_column="image_key", missing="nulls")


def test_a_column_that_is_there_twice_is_left_out_and_said_to_be(folders):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10})
    path = next(Path(one).rglob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.append_column("n", table.column("n")), path)
    assert "n" not in open_aligned(main, [one], key_column="image_key").schema.names
    with pytest.raises(UsageError, match="column 'n' is there more than once"):
        open_aligned(main, [one], key_column="image_key", columns=["n"])


def test_reordered_sidecar_is_found_before_any_row_of_the_shard_is_given_out(folders):
    main = folders.main("0.parquet", "1.parquet")
    moved = ["key-0", *(f"key-{row}" for row in range(1, 8)), "key-9", "key-8"]
    folders.sidecar({"n": list(range(10))}, "0.parquet")
    one = folders.sidecar({"n": list(range(10))}, "1.parquet", keys=pa.array(moved))
    reader = open_aligned(main, [one], key_column="image_key", batch_rows=2)
    seen = []
    with pytest.raises(AlignmentError) as caught:
        seen.extend(batch.num_rows for batch in reader)
    assert sum(seen) == 10
    assert f"1.parquet row 8: 'image_key' is 'key-8' at {main}/ and 'key-9' at {one}/" in str(caught.value)


def rewrite(path, change, **metadata):
    """Writes a file again, footer keys included."""
    file = pq.ParquetFile(path)
    held = {key.decode(): value for key, value in file.metadata.metadata.items() if key.startswith(b"sidecar.")}
    assert "sidecar.key_digest" in held
    pq.write_table(change(file.read()).replace_schema_metadata({**held, **metadata}), path)


def test_copied_footer_does_not_hide_reordered_rows(folders):
    dataset = folders.made()
    rewrite(folders.folder / "made/0.parquet", lambda table: table.take(pa.array([1, 0, *range(2, 10)])))
    with pytest.raises(AlignmentError, match=r"0\.parquet row 0: 'image_key' is 'key-0' at .* and 'key-1' at "):
        open_aligned(dataset, [dataset]).read_all()


def test_footer_of_other_keys_is_an_error_though_the_keys_are_right(folders):
    dataset = folders.made()
    rewrite(folders.folder / "made/0.parquet", lambda table: table)
    assert open_aligned(dataset, [dataset]).read_all().num_rows == 10
    rewrite(folders.folder / "made/0.parquet", lambda table: table, **{"sidecar.key_digest": "0" * 64})
    with pytest.raises(AlignmentError, match=r"0\.parquet: the keys of .* are not those that its footer tells"):
        open_aligned(dataset, [dataset]).read_all()


@pytest.mark.parametrize("rows", [0, 9, 11])
def test_other_row_count(folders, rows):
    main, one = folders.main(), folders.sidecar({"n": [1] * rows})
    with pytest.raises(AlignmentError, match=rf"0\.parquet: 10 rows in .*main/0\.parquet, {rows} in .*one/0\.parquet"):
        open_aligned(main, [one], key_column="image_key").read_all()


def test_sidecar_of_another_dataset_and_one_without_the_key(folders):
    main = folders.main()
    one = folders.sidecar({"n": [1] * 10}, keys=pa.array([f"other-{row}" for row in range(10)]))
    with pytest.raises(AlignmentError, match=r"row 0: 'image_key' is 'key-0' at .* and 'other-0' at "):
        open_aligned(main, [one], key_column="image_key").read_all()
    two = folders.write("two", pa.table({"n": [1] * 10}))
    with pytest.raises(UsageError, match="two/: no key column 'image_key'"):
        open_aligned(main, [two], key_column="image_key")


def test_keys_of_another_kind(folders):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10}, keys=pa.array(range(10)))
    with pytest.raises(AlignmentError, match=r"0\.parquet: column 'image_key' .*cannot be compared"):
        open_aligned(main, [one], key_column="image_key").read_all()


def test_lacking_shards_are_an_error_or_nulls(folders):
    main = folders.main("0.parquet", "1.parquet", "2.parquet")
    one = folders.sidecar({"n": [1] * 10, "s": [{"a": 1}] * 10}, "1.parquet")
    with pytest.raises(ShardError, match=r"lacks 2 of 3 shards of .*main/: 0\.parquet, 2\.parquet"):
        open_aligned(main, [one], key_column="image_key")
    held = open_aligned(main, [one], key_column="image_key", missing="null").read_all()
    assert held.column("n").to_pylist() == [None] * 10 + [1] * 10 + [None] * 10
    assert held.num_rows == 30
    nowhere = f"{folders.folder}/nowhere"
    with pytest.raises(StorageNotFoundError):
        open_aligned(main, [nowhere], key_column="image_key")
    assert "n" not in open_aligned(main, [nowhere], key_column="image_key", missing="null").schema.names


def test_shards_can_be_shared_out(folders):
    names = [f"a/{number}.parquet" for number in range(5)]
    main = folders.main(*names, "b/0.parquet", rows=2)
    for number, name in enumerate([*names, "b/0.parquet"]):
        one = folders.sidecar({"n": pa.array([number] * 2, pa.int8() if number else pa.int64())}, name)

    def read(**options):
        table = open_aligned(main, [one], columns=["n"], key_column="image_key", **options).read_all()
        assert options.get("subprefix") or table.schema.field("n").type == pa.int64()
        return table.column("n").to_pylist()[::2]

    assert read(shards=slice(1, None, 2)) == [1, 3, 5]
    assert read(shards=["b/0.parquet", "a/2.parquet"]) == [5, 2]
    assert read(subprefix="b/") == [5]
    assert read(shards=[]) == []
    with pytest.raises(UsageError, match=r"no shard 'a/9\.parquet' at .*main/"):
        read(shards=["a/9.parquet"])


def test_schema_is_that_of_the_first_shards(folders):
    main = folders.main("0.parquet", "1.parquet")
    first = pa.struct([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())])
    folders.sidecar({"s": pa.array([{"a": 1, "b": "x"}] * 10, first), "n": [1.5] * 10}, "0.parquet")
    one = folders.sidecar({"n": [2] * 10, "s": [{"b": "y", "a": 2}] * 10}, "1.parquet")
    reader = open_aligned(main, [one], columns=["s", "n"], key_column="image_key")
    assert reader.schema.field("s").type == pa.struct([("a", pa.int32()), ("b", pa.string())])
    assert reader.read_all().column("n").to_pylist() == [1.5] * 10 + [2.0] * 10
    folders.sidecar({"n": ["x"] * 10, "s": [{"b": "y", "a": 2}] * 10}, "1.parquet")
    with pytest.raises(ShardError, match=r"1\.parquet row 0: column 'n' is string, and 'x' does not fit double"):
        open_aligned(main, [one], columns=["n"], key_column="image_key").read_all()


def test_a_float_is_read_as_it_is_or_not_at_all(folders):
    main = folders.main("0.parquet", "1.parquet")
    folders.sidecar({"n": pa.array([0.5] * 10, pa.float32())}, "0.parquet")
    one = folders.sidecar({"n": [0.25] * 10}, "1.parquet")
    read = open_aligned(main, [one], columns=["n"], key_column="image_key").read_all()
    assert read.column("n").to_pylist() == [0.5] * 10 + [0.25] * 10
    folders.sidecar({"n": [0.25] * 9 + [0.1]}, "1.parquet")
    with pytest.raises(
        ShardError, match=r"1\.parquet row 9: column 'n' is double, and 0\.1 does not fit float"
    ) as caught:
        open_aligned(main, [one], columns=["n"], key_column="image_key").read_all()
    assert "fix: write the column with one type in every file" in str(caught.value)


def test_null_keys_of_the_main_dataset_match_null_keys_only(folders):
    keys = pa.array([None if row == 4 else f"key-{row}" for row in range(10)])
    main = folders.write("main", example_table().set_column(0, "image_key", keys))
    one = folders.sidecar({"n": [1] * 10}, keys=keys)
    assert open_aligned(main, [one], key_column="image_key").read_all().num_rows == 10
    one = folders.sidecar({"n": [1] * 10})
    with pytest.raises(AlignmentError, match=r"row 4: 'image_key' is None at .* and 'key-4' at "):
        open_aligned(main, [one], key_column="image_key").read_all()


def test_empty_and_unreadable_shards_and_other_objects(folders):
    main = folders.main("1.parquet")
    one = folders.sidecar({"n": [1] * 10}, "1.parquet")
    for kind in ("main", "one"):
        schema = pq.read_schema(folders.folder / kind / "1.parquet")
        pq.ParquetWriter(folders.folder / kind / "0.parquet", schema).close()
        (folders.folder / kind / "_SUCCESS").write_bytes(b"")
        (folders.folder / kind / "notes.txt").write_bytes(b"x")
    assert open_aligned(main, [one], key_column="image_key").read_all().num_rows == 10
    (folders.folder / "one/0.parquet").write_bytes(b"")
    with pytest.raises(ShardError, match=r"one/0\.parquet: not a readable Parquet file"):
        open_aligned(main, [one], key_column="image_key").read_all()


def test_main_dataset_alone_and_nothing_at_all(folders):
    assert open_aligned(folders.main(), key_column="image_key").read_all().num_rows == 10
    assert open_aligned(folders.main()).read_all().num_rows == 10
    (folders.folder / "empty").mkdir()
    with pytest.raises(UsageError, match="no shards at"):
        open_aligned(folders.folder / "empty", key_column="image_key")


def test_datasets_can_be_read_again_and_a_shard_is_proven_once(folders):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10})
    held = AlignedDatasets.open(main, [one], key_column="image_key")
    assert held.read(["n"]).read_all() == held.read(["n"]).read_all()
    damage_column(folders.folder / "one/0.parquet", "image_key")
    assert held.read(["n"]).read_all().num_rows == 10
    with pytest.raises(ShardError):
        open_aligned(main, [one], columns=["n"], key_column="image_key").read_all()


def test_reader_that_is_given_up_closes_its_files(folders, monkeypatch):
    main, one = folders.main(), folders.sidecar({"n": [1] * 10})
    held = AlignedDatasets.open(main, [one], key_column="image_key")
    opened = []
    for source in held.sources:
        storage = source.storage
        monkeypatch.setattr(
            storage,
            "open_input",
            lambda path, storage=storage: opened.append(type(storage).open_input(storage, path)) or opened[-1],
        )
    reader = held.read(batch_rows=1)
    reader.read_next_batch()
    assert [file.closed for file in opened] == [False, False]
    del reader
    assert [file.closed for file in opened] == [True, True]


def test_memory_follows_the_batch_and_not_the_row_group(folders):
    rows = 2000
    pictures = pa.array([bytes([row % 256]) * 60_000 for row in range(rows)], pa.large_binary())
    table = pa.table({"image_key": keys_of(rows), "image": pictures})
    size = pictures.nbytes
    main = folders.write("main", table, use_dictionary=False, write_batch_size=8, compression="none")
    del table, pictures
    one = folders.sidecar({"n": list(range(rows))})
    reader = open_aligned(main, [one], columns=["image", "n"], key_column="image_key", batch_rows=100)
    before, most, seen = pa.total_allocated_bytes(), 0, 0
    for batch in reader:
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.num_rows <= 100
        seen += batch.num_rows
        del batch
    assert seen == rows
    assert most < size / 3


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    row_groups=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    batch_rows=st.integers(1, 50),
    structs=st.booleans(),
)
def test_any_row_groups_and_batches_give_the_same_rows(tmp_path_factory, sizes, row_groups, batch_rows, structs):
    folders = Folders(tmp_path_factory.mktemp("any"))
    values = []
    for number, rows in enumerate(sizes):
        main = folders.main(f"{number}.parquet", rows=rows, row_group_size=row_groups[0])
        own = [None if row % 3 == 0 else {"a": row} if structs else row for row in range(rows)]
        values += own
        dtype = pa.struct([("a", pa.int16())]) if structs else pa.int16()
        one = folders.sidecar({"n": pa.array(own, dtype)}, f"{number}.parquet", row_group_size=row_groups[1])
    reader = open_aligned(main, [one], columns=["n", "title"], key_column="image_key", batch_rows=batch_rows)
    batches = list(reader)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    held = pa.Table.from_batches(batches, reader.schema)
    assert held.column("n").to_pylist() == values
    titles = [title for rows in sizes for title in example_table(rows).column("title").to_pylist()]
    assert held.column("title").to_pylist() == titles
