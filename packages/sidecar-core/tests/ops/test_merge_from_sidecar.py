from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import AlignmentError, ConfigError, ShardError
from sidecar_core.execute import ShardResources
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.nulls import null_rows
from sidecar_core.pipeline import build_pipeline
from sidecar_core.plan import PlannedShard, source_schema
from sidecar_core.retry import retry_shard
from sidecar_core.storage import open_storage
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.datasets import damage_column, read_dataset
from sidecar_core.testing.example_dataset import example_dataset, example_table

SHARD = "a b/part-0.parquet"


class TestMergeFromSidecar(OpConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.prefix = f"{tmp_path}/sibling/"
        self.path = tmp_path / "sibling/part-00000.parquet"
        self.path.parent.mkdir()
        self.write_siblings(self.table())

    def dataset(self):
        return example_dataset(schema_extensions=[{"name": "caption", "type": "string"}])

    def before(self):
        return [{"type": "extract_scaffold"}]

    def operation(self):
        return {"type": "merge_from_sidecar", "source_prefix": self.prefix}

    def write_siblings(self, table):
        rows = table.num_rows
        held = {
            "image_key": table.column("image_key"),
            "caption": pa.array([f"caption {row}" for row in range(rows)], pa.string()),
            "inner": pa.array([{"a": row, "b": None} for row in range(rows)], pa.struct([("a", "i8"), ("b", "f4")])),
        }
        pq.write_table(pa.table(held), self.path, row_group_size=4)

    def test_values(self):
        found = self._run(self.table())
        assert found.column_names == ["image_key", "caption", "inner"]
        assert found.column("caption").to_pylist() == [f"caption {row}" for row in range(10)]


class TestPreferSidecar(TestMergeFromSidecar):
    def before(self):
        make = {"type": "join_like", "columns": {"inner": "string"}}
        return [{"type": "extract_scaffold"}, {**make, "type": "toy_make"}]

    def _pipeline(self):
        return build_pipeline(
            self.dataset(), [*self.before(), self.operation()], plugins=["sidecar_core.testing.toy_ops"]
        )

    def operation(self):
        return {"type": "merge_from_sidecar", "source_prefix": self.prefix, "mode": "prefer_sidecar"}

    def test_values(self):
        found = self._run(self.table())
        assert found.column_names == ["image_key", "caption", "inner"]
        assert found.column("inner").to_pylist() == [{"a": row, "b": None} for row in range(10)]


class TestAbsentShard(TestMergeFromSidecar):
    """Types come from the sibling's first shard; this shard is one that it lacks."""

    def rel_path(self):
        return "part-00001.parquet"

    def operation(self):
        return {"type": "merge_from_sidecar", "source_prefix": self.prefix, "required": False}

    def test_values(self):
        found = self._run(self.table())
        assert found.column_names == ["image_key", "caption", "inner"]
        assert found.column("caption").null_count == 10
        assert found.column("inner").null_count == 0
        assert null_rows(found.column("inner")).true_count == 10


def test_every_column_but_the_key_comes_with_the_siblings_types(folders):
    folders.main()
    struct = pa.struct([pa.field("w", pa.int32(), nullable=False), ("tags", pa.large_list(pa.string()))])
    folders.sibling(
        {
            "label": pa.array(["x"] * 10).dictionary_encode(),
            "size": pa.array([{"w": row, "tags": ["t"]} for row in range(10)], struct),
        },
        row_group_size=3,
    )
    made = folders.run()[SHARD]
    plain = pa.struct([("w", pa.int32()), ("tags", pa.large_list(pa.string()))])
    assert made.schema == pa.schema([("image_key", pa.string()), ("label", pa.string()), ("size", plain)])
    assert made.column("size").to_pylist() == [{"w": row, "tags": ["t"]} for row in range(10)]
    assert made.column("label").to_pylist() == ["x"] * 10


def test_table_wins_when_only_what_lacks_is_filled(folders):
    folders.main()
    folders.sibling({"title": ["theirs"] * 10, "width": [7] * 10})
    made = folders.run(carry=["title"])[SHARD]
    assert made.column_names == ["image_key", "title", "width"]
    assert made.column("title").to_pylist() == example_table().column("title").to_pylist()
    assert made.column("width").to_pylist() == [7] * 10


def test_sidecar_wins_when_it_is_preferred_in_values_and_type(folders):
    folders.main()
    folders.sibling({"title": pa.array([1.5] * 10), "width": [7] * 10})
    made = folders.run(carry=["title"], mode="prefer_sidecar")[SHARD]
    assert made.schema.field("title").type == pa.float64()
    assert made.column("title").to_pylist() == [1.5] * 10


def test_only_named_columns_are_taken_and_read(folders):
    folders.main()
    damage_column(folders.sibling({"a": [1] * 10, "b": [2] * 10, "c": [3] * 10}), "b")
    made = folders.run(columns=["c", "a"])[SHARD]
    assert made.column_names == ["image_key", "c", "a"]
    assert made.column("c").to_pylist() == [3] * 10
    with pytest.raises(ShardError, match=r"part-0\.parquet: unreadable after row 0"):
        folders.run(columns=["b"])


def test_scaffolded_columns_are_filled_and_others_stay_null(folders):
    folders.main()
    folders.sibling({"caption": ["theirs"] * 10, "extra": [1] * 10})
    extensions = [{"name": "note", "type": "string"}, {"name": "caption", "type": "string"}]
    made = folders.run(before=[{"type": "extract_scaffold"}], extensions=extensions)[SHARD]
    assert made.column_names == ["image_key", "note", "caption", "extra"]
    assert made.column("caption").to_pylist() == ["theirs"] * 10
    assert made.column("note").null_count == 10


def test_column_that_an_op_has_filled_is_not_lacking(folders):
    folders.main()
    folders.sibling({"caption": ["theirs"] * 10})
    make = {"type": "toy_make", "columns": {"caption": "string"}}
    options = {
        "before": [{"type": "extract_scaffold"}, make],
        "extensions": [{"name": "caption", "type": "string"}],
        "plugins": ["sidecar_core.testing.toy_ops"],
    }
    assert folders.run(**options)[SHARD].column("caption").null_count == 10
    assert folders.run(**options, mode="prefer_sidecar")[SHARD].column("caption").to_pylist() == ["theirs"] * 10


@pytest.mark.parametrize("mode", ["fill_missing", "prefer_sidecar"])
def test_key_and_image_column_stay_the_mains(folders, mode):
    folders.main()
    folders.sibling({"image": [b"theirs"] * 10, "n": [1] * 10})
    assert folders.run(mode=mode)[SHARD].column_names == ["image_key", "n"]
    measure = [{"type": "measure_bytes"}]
    made = folders.run(mode=mode, after=measure, plugins=["sidecar_core.testing.ops"])[SHARD]
    assert made.column("byte_length").to_pylist()[:3] == [7, 7, None]  # of the main dataset's pictures


@pytest.mark.parametrize(
    ("keys", "row", "theirs"),
    [
        (["key-1", "key-0", *(f"key-{row}" for row in range(2, 10))], 0, "'key-1'"),  # reordered
        ([*(f"key-{row}" for row in range(9)), "key-8"], 9, "'key-8'"),  # one twice, one missing
        ([*(f"key-{row}" for row in range(9)), None], 9, "None"),
        ([f"other/{row}" for row in range(10)], 0, "'other/0'"),  # of another main dataset
    ],
)
def test_other_keys_name_shard_row_and_both_keys(folders, keys, row, theirs):
    folders.main(row_group_size=4)
    folders.sibling({"n": list(range(10))}, keys=pa.array(keys, pa.string()), row_group_size=3)
    with pytest.raises(AlignmentError) as caught:
        folders.run()
    assert f"{SHARD} row {row}: 'image_key' is 'key-{row}' in the main shard and {theirs} at" in str(caught.value)
    assert read_dataset(folders.folder / "out") == {}


def test_keys_that_are_there_twice_are_told_apart_by_their_place(folders):
    keys = pa.array(["same"] * 10)
    folders.write("main", example_table().set_column(0, "image_key", keys))
    folders.sibling({"n": list(range(10))}, keys=keys)
    assert folders.run()[SHARD].column("n").to_pylist() == list(range(10))


def test_null_keys_of_the_main_dataset_match_null_keys(folders):
    keys = pa.array([None if row == 4 else f"key-{row}" for row in range(10)])
    folders.write("main", example_table().set_column(0, "image_key", keys))
    folders.sibling({"n": list(range(10))}, keys=keys)
    assert folders.run()[SHARD].column("n").to_pylist() == list(range(10))


@pytest.mark.parametrize("rows", [0, 9, 11])
def test_other_row_count_is_named(folders, rows):
    folders.main()
    folders.sibling({"n": list(range(rows))})
    with pytest.raises(AlignmentError, match=f"part-0.parquet: 10 rows in the main shard, {rows} in "):
        folders.run()


def test_required_shard_that_is_absent(folders):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    folders.sibling({"n": [1] * 10}, "0.parquet")
    with pytest.raises(ShardError, match=r"1\.parquet: the sidecar at .* has no such shard"):
        folders.run()


def test_a_sidecar_that_is_not_there_is_named_with_its_place(folders):
    folders.main()
    with pytest.raises(ConfigError, match=r"operations\[0\]: source_prefix .* is not there: .* no such folder"):
        folders.run()


def test_absent_shard_that_is_not_required_leaves_values_and_gives_nulls(folders):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    folders.sibling({"n": [1] * 10, "title": ["theirs"] * 10}, "0.parquet")
    made = folders.run(required=False, mode="prefer_sidecar", carry=["title"])
    assert made["0.parquet"].column("title").to_pylist() == ["theirs"] * 10
    assert made["1.parquet"].column("title").to_pylist() == example_table().column("title").to_pylist()
    assert made["1.parquet"].column("n").null_count == 10
    assert made["0.parquet"].schema == made["1.parquet"].schema


@pytest.mark.parametrize("row_groups", [0, 1])
def test_empty_shards(folders, row_groups):
    folders.main(0)
    path = folders.sibling({"n": pa.array([], pa.int16())}, keys=pa.array([], pa.string()))
    schema = pq.read_schema(path)
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(row_groups):
            writer.write_table(schema.empty_table())
    made = folders.run()[SHARD]
    assert made.num_rows == 0
    assert made.schema.field("n").type == pa.int16()


def test_null_structs_and_structs_of_nulls_stay_apart(folders):
    folders.main(3)
    rows = [{"w": None, "h": None}, None, {"w": 1, "h": 2}]
    folders.sibling({"size": pa.array(rows, pa.struct([("w", pa.int32()), ("h", pa.int32())]))})
    made = folders.run()[SHARD].column("size")
    assert made.to_pylist() == rows
    assert null_rows(made).to_pylist() == [True, True, False]


def test_two_merges_of_one_sibling(folders):
    folders.main(20, row_group_size=7)
    folders.sibling({"a": list(range(20)), "b": list(range(20))}, row_group_size=3)
    again = {"type": "merge_from_sidecar", "source_prefix": folders.sibling_prefix, "columns": ["b"]}
    made = folders.run(columns=["a"], after=[again])[SHARD]
    assert made.column("a").to_pylist() == made.column("b").to_pylist() == list(range(20))


class Retrying:
    """A run of a merge and of an op that failed for some rows, which a retry computes again."""

    FAILED = (0, 3, 4, 17, 39)

    def __init__(self, folders):
        self.folders = folders
        folders.main(40, row_group_size=10)
        folders.sibling({"n": list(range(40))}, row_group_size=7)
        folder = folders.folder
        failing = {"type": "fail_listed", "folder": str(folder)}
        options = {"after": [failing], "plugins": ["sidecar_core.testing.failing_ops"]}
        (folder / "generation").write_text("1")
        (folder / "calls.jsonl").write_text("")
        (folder / "failing.json").write_text(json.dumps({f"key-{row}": {"score": "timeout"} for row in self.FAILED}))
        folders.run(**options)
        (folder / "failing.json").write_text("{}")
        self.plan = folders.plan(**options)

    def retry(self):
        main, out = (open_storage(f"{self.folders.folder}/{name}/") for name in ("main", "out"))
        with IsolationPool(IsolationOptions(workers=1)) as pool:
            resources = ShardResources(main, (out,), pool, (out.staging_dir("r"),))
            shard = PlannedShard(main.list_shards()[0], (out.stat(SHARD),))
            return retry_shard(self.plan, shard, resources, reasons=["timeout"])


def test_rows_that_are_retried_get_their_own_values(folders):
    retrying = Retrying(folders)
    before = read_dataset(folders.folder / "out")[SHARD]
    assert retrying.retry().report.rows == len(retrying.FAILED)
    after = read_dataset(folders.folder / "out")[SHARD]
    assert after.column("n").to_pylist() == before.column("n").to_pylist() == list(range(40))


def test_rows_are_not_retried_beside_another_version_of_the_sibling(folders):
    retrying = Retrying(folders)
    before = read_dataset(folders.folder / "out")[SHARD]
    folders.sibling({"n": list(range(100, 140))}, row_group_size=7)
    with pytest.raises(ShardError, match="a sibling's shard is not the one that it was made from"):
        retrying.retry()
    assert read_dataset(folders.folder / "out")[SHARD].equals(before)


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 40))
    text = draw(st.lists(st.none() | st.text(max_size=5), min_size=rows, max_size=rows))
    numbers = st.none() | st.integers(-5, 5)
    struct = st.none() | st.fixed_dictionaries({"a": numbers, "b": st.none() | st.lists(numbers, max_size=3)})
    structs = draw(st.lists(struct, min_size=rows, max_size=rows))
    struct_type = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.int8()))])
    return pa.table({"text": pa.array(text, pa.string()), "struct": pa.array(structs, struct_type)})


def chunked(table, sizes):
    pieces, first = [], 0
    for size in sizes:
        pieces.append(table.slice(first, size))
        first += size
    return pa.concat_tables([*pieces, table.slice(first)])


@given(
    columns=tables(),
    chunks=st.lists(st.integers(0, 9), max_size=5),
    batch_rows=st.integers(1, 45),
    row_groups=st.integers(1, 45),
    encoded=st.booleans(),
)
def test_any_table_in_any_pieces_is_merged_alike(tmp_path_factory, columns, chunks, batch_rows, row_groups, encoded):
    folder = tmp_path_factory.mktemp("any")
    rows = columns.num_rows
    keys = pa.array([f"key-{row}" for row in range(rows)], pa.string())
    sibling = columns.add_column(0, "image_key", keys.dictionary_encode() if encoded else keys)
    (folder / "sibling").mkdir()
    pq.write_table(sibling, folder / "sibling/part-00000.parquet", row_group_size=row_groups)

    class Merge(OpConformance):
        def dataset(self):
            return example_dataset(schema_extensions=[])

        def operation(self):
            return {"type": "merge_from_sidecar", "source_prefix": f"{folder}/sibling/"}

    found = Merge()._run(chunked(example_table(rows), chunks), batch_rows=batch_rows)
    assert found.select(["text", "struct"]).equals(columns)
    assert found.column("image_key").to_pylist() == keys.to_pylist()
    assert source_schema(f"{folder}/sibling/").names == ["image_key", "text", "struct"]
