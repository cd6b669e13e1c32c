from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import AlignmentError, ConfigError, ShardError, StorageNotFoundError
from sidecar_core.execute import ShardResources
from sidecar_core.footer import read_footer
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.nulls import null_rows
from sidecar_core.pipeline import build_pipeline, check_columns, output_fingerprint
from sidecar_core.plan import PlannedShard, RunPlan, plan_run, source_schema
from sidecar_core.retry import retry_shard
from sidecar_core.shard_reader import PIXEL_BATCH_ROWS, MainShard
from sidecar_core.storage import open_storage
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.engine import run_every_shard
from sidecar_core.testing.example_dataset import example_dataset, example_table

SHARD = "a b/part-0.parquet"
PLAIN = {"schema_extensions": []}


class Folders:
    """A main dataset, a sibling of it and an output, in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.sibling_prefix = f"{folder}/sibling/"

    def write(self, kind, table, rel_path=SHARD, **options):
        path = self.folder / kind / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        return path

    def main(self, rows=10, rel_path=SHARD, **options):
        self.write("main", example_table(rows), rel_path, **options)

    def sibling(self, columns, rel_path=SHARD, *, keys=None, **options):
        rows = len(next(iter(columns.values())))
        keys = pa.array([f"key-{row}" for row in range(rows)], pa.string()) if keys is None else keys
        return self.write("sibling", pa.table({"image_key": keys, **columns}), rel_path, **options)

    def pipeline(self, *, before=(), after=(), extensions=(), carry=(), plugins=(), **params):
        dataset = example_dataset(
            main_prefix=f"{self.folder}/main/",
            sidecar_prefix=f"{self.folder}/out/",
            schema_extensions=list(extensions),
            carry_columns=list(carry),
        )
        merge = {"type": "merge_from_sidecar", "source_prefix": self.sibling_prefix, **params}
        return build_pipeline(dataset, [*before, merge, *after], plugins=plugins)

    def run(self, **options):
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        pipeline = self.pipeline(**options)
        run_every_shard(pipeline, {pipeline.outputs[0].name: f"{self.folder}/out"}, workers=1)
        return read_dataset(self.folder / "out")

    def plan(self, **options):
        pipeline = self.pipeline(**options)
        main = open_storage(f"{self.folder}/main/")
        return plan_run(pipeline, main, main.list_shards(), {pipeline.outputs[0].name: f"{self.folder}/out/"})


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path)


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


def damage(path, column):
    """Overwrites a column's pages, so that whoever reads them fails."""
    metadata = pq.read_metadata(path)
    with path.open("r+b") as file:
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(metadata.schema.names.index(column))
            file.seek(min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset))
            file.write(b"\xff" * chunk.total_compressed_size)


def test_only_named_columns_are_taken_and_read(folders):
    folders.main()
    damage(folders.sibling({"a": [1] * 10, "b": [2] * 10, "c": [3] * 10}), "b")
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


@pytest.mark.parametrize(("name", "role"), [("image_key", "key"), ("image", "image")])
def test_key_and_image_column_cannot_be_asked_for(folders, name, role):
    with pytest.raises(ConfigError, match=f"the {role} column '{name}' is always the main dataset's"):
        folders.pipeline(columns=[name])


def test_column_named_twice(folders):
    with pytest.raises(ConfigError, match="column 'a' is named twice"):
        folders.pipeline(columns=["a", "b", "a"])


def test_columns_that_the_sibling_lacks_are_a_plan_error_with_the_nearest_name(folders):
    folders.main()
    folders.sibling({"caption": ["x"] * 10, "n": [1] * 10})
    with pytest.raises(ConfigError) as caught:
        folders.plan(columns=["captoin", "m"])
    assert f"the sidecar at {folders.sibling_prefix} has no column 'captoin'" in str(caught.value)
    assert "'caption'" in str(caught.value)
    assert "has no column 'm'" in str(caught.value)
    assert "expected: image_key, caption, n" in str(caught.value)


def test_sibling_without_the_key_column_is_a_plan_error(folders):
    folders.main()
    folders.write("sibling", pa.table({"key": ["k"] * 10, "n": [1] * 10}))
    with pytest.raises(ConfigError, match="has no key column 'image_key'"):
        folders.plan()


def test_two_columns_of_one_name_in_the_sibling_are_a_plan_error(folders):
    folders.main()
    table = pa.Table.from_arrays(
        [example_table()["image_key"], *[pa.array([1] * 10)] * 2], names=["image_key", "n", "n"]
    )
    folders.write("sibling", table)
    with pytest.raises(ConfigError, match="has 2 columns 'n'"):
        folders.plan()


def test_declared_column_of_another_type_is_a_plan_error(folders):
    folders.main()
    folders.sibling({"n": pa.array([1] * 10, pa.int64())})
    for before in ([], [{"type": "extract_scaffold"}]):
        with pytest.raises(ConfigError) as caught:
            folders.plan(before=before, extensions=[{"name": "n", "type": "int32"}])
        assert "'merge_from_sidecar' makes column 'n' as int64, and it is declared int32" in str(caught.value)


def test_declared_column_is_taken_when_only_the_layout_differs(folders):
    folders.main()
    theirs = pa.struct([pa.field("inner", pa.struct([("labels", pa.large_list(pa.large_string()))])), ("mean", "f4")])
    rows = [{"inner": {"labels": ["a"]}, "mean": float(row)} for row in range(10)]
    folders.sibling({"score": pa.array(rows, theirs)})
    extension = {"name": "score", "type_ref": "score_v1"}
    made = folders.run(before=[{"type": "extract_scaffold"}], extensions=[extension])[SHARD]
    declared = folders.pipeline(extensions=[extension]).dataset.extension_fields[0].type
    assert made.schema.field("score").type == declared
    assert made.column("score").to_pylist() == rows


def test_offline_names_are_open_without_columns_and_types_with_them(folders):
    everything = check_columns(folders.pipeline())
    assert everything.open_names
    named = check_columns(
        folders.pipeline(columns=["a", "caption"], extensions=[{"name": "caption", "type": "string"}])
    )
    assert not named.open_names
    assert named.open_columns == ("image_key", "a")
    assert named.table_schema.field("caption").type == pa.string()


def test_later_shards_are_cast_to_the_first_ones_types(folders):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    first = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    folders.sibling({"s": pa.array([{"a": 1, "b": "x", "c": 0.5}] * 10, first), "n": [1.5] * 10}, "0.parquet")
    other = pa.struct([("b", pa.large_string()), pa.field("a", pa.int32(), nullable=False)])
    folders.sibling({"n": pa.array([2] * 10, pa.int8()), "s": pa.array([{"a": 2, "b": "y"}] * 10, other)}, "1.parquet")
    made = folders.run()
    assert made["0.parquet"].schema == made["1.parquet"].schema
    assert made["1.parquet"].column("s").to_pylist() == [{"a": 2, "b": "y", "c": None}] * 10
    assert made["1.parquet"].column("n").to_pylist() == [2.0] * 10


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([{"a": 1, "z": 2}] * 10), "column 's' is not as in the plan: .* has no field 'z'"),
        (pa.array([{"a": 2**40}] * 10), r"row 0: column 's' is struct<a: int64>, and .* does not fit struct<a: int32>"),
        (pa.array([1] * 10), "column 's' is not as in the plan"),
    ],
)
def test_later_shards_that_do_not_fit_are_named(folders, column, said):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    folders.sibling({"s": pa.array([{"a": 1}] * 10, pa.struct([("a", pa.int32())]))}, "0.parquet")
    folders.sibling({"s": column}, "1.parquet")
    with pytest.raises(ShardError, match=said) as caught:
        folders.run()
    assert f"{folders.sibling_prefix}1.parquet" in str(caught.value)
    assert sorted(read_dataset(folders.folder / "out")) == ["0.parquet"]


def test_column_that_only_a_later_shard_lacks(folders):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    folders.sibling({"a": [1] * 10, "b": [2] * 10}, "0.parquet")
    folders.sibling({"a": [1] * 10, "c": [3] * 10}, "1.parquet")
    with pytest.raises(ShardError, match=r"1\.parquet: no column 'b'"):
        folders.run()


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


def test_absent_shard_that_is_not_required_leaves_values_and_gives_nulls(folders):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    folders.sibling({"n": [1] * 10, "title": ["theirs"] * 10}, "0.parquet")
    made = folders.run(required=False, mode="prefer_sidecar", carry=["title"])
    assert made["0.parquet"].column("title").to_pylist() == ["theirs"] * 10
    assert made["1.parquet"].column("title").to_pylist() == example_table().column("title").to_pylist()
    assert made["1.parquet"].column("n").null_count == 10
    assert made["0.parquet"].schema == made["1.parquet"].schema


def test_kept_column_that_could_not_take_the_sidecars_type_is_a_plan_error(folders):
    folders.main()
    folders.sibling({"title": [[1]] * 10})
    with pytest.raises(ConfigError, match="column 'title' has the sidecar's type, also where the sidecar has no shard"):
        folders.plan(required=False, mode="prefer_sidecar", carry=["title"])


def test_sibling_that_is_nowhere(folders):
    folders.main()
    with pytest.raises(StorageNotFoundError):
        folders.plan(columns=["caption"], extensions=[{"name": "caption", "type": "string"}])
    with pytest.raises(ConfigError, match="no types are known for what is taken"):
        folders.plan(required=False)
    extensions = [{"name": "caption", "type": "string"}]
    made = folders.run(required=False, columns=["caption"], extensions=extensions)[SHARD]
    assert made.column("caption").null_count == 10


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


def test_pictures_of_a_sibling_come_in_small_batches(folders):
    folders.main(600)
    folders.sibling({"thumb": [b"x"] * 600, "n": [1] * 600})

    def most_rows(**params):
        main = open_storage(f"{folders.folder}/main/")
        with MainShard.open(main, main.list_shards()[0], folders.plan(**params)) as shard:
            return max(batch.table.num_rows for batch in shard.batches())

    assert most_rows() == PIXEL_BATCH_ROWS
    assert most_rows(columns=["n"]) == 600


def test_null_structs_and_structs_of_nulls_stay_apart(folders):
    folders.main(3)
    rows = [{"w": None, "h": None}, None, {"w": 1, "h": 2}]
    folders.sibling({"size": pa.array(rows, pa.struct([("w", pa.int32()), ("h", pa.int32())]))})
    made = folders.run()[SHARD].column("size")
    assert made.to_pylist() == rows
    assert null_rows(made).to_pylist() == [True, True, False]


def test_other_objects_among_the_siblings_shards_are_no_shards(folders):
    folders.main()
    folders.sibling({"n": [1] * 10})
    for name in ("_SUCCESS", ".a.parquet.crc", "notes.txt", "a.parquet.tmp"):
        (folders.folder / "sibling" / name).write_bytes(b"")
    (folders.folder / "sibling/0.parquet").write_bytes(b"")  # a bad shard of which the main dataset knows nothing
    assert folders.run()[SHARD].column("n").to_pylist() == [1] * 10


def test_plan_survives_json_with_the_types_of_the_sibling(folders):
    folders.main()
    folders.sibling({"n": pa.array([1] * 10, pa.int8())})
    plan = folders.plan()
    again = RunPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again.planned == plan.planned == (pa.schema([("n", pa.int8())]),)


def test_fingerprint_knows_the_mode_and_the_columns_and_not_the_place(folders):
    def of(**params):
        return output_fingerprint(folders.pipeline(**params), folders.pipeline().outputs[0].name)

    one = of(columns=["a", "b"])
    assert one == of(columns=["a", "b"], source_prefix=f"{folders.folder}/elsewhere/")
    assert len({one, of(columns=["a"]), of(), of(columns=["a", "b"], mode="prefer_sidecar")}) == 4


def test_footer_names_the_siblings_shard(folders):
    folders.main()
    folders.sibling({"n": [1] * 10})
    folders.run()
    inputs = read_footer(open_storage(f"{folders.folder}/out/"), SHARD).inputs
    assert [(each.kind, each.uri) for each in inputs][1:] == [("sibling", f"{folders.sibling_prefix}{SHARD}")]


def test_two_merges_of_one_sibling(folders):
    folders.main(20, row_group_size=7)
    folders.sibling({"a": list(range(20)), "b": list(range(20))}, row_group_size=3)
    again = {"type": "merge_from_sidecar", "source_prefix": folders.sibling_prefix, "columns": ["b"]}
    made = folders.run(columns=["a"], after=[again])[SHARD]
    assert made.column("a").to_pylist() == made.column("b").to_pylist() == list(range(20))


def test_rows_that_are_retried_get_their_own_values(folders, tmp_path):
    keys = [f"key-{row}" for row in range(40)]
    folders.main(40, row_group_size=10)
    folders.sibling({"n": list(range(40))}, row_group_size=7)
    failing = {"type": "fail_listed", "folder": str(tmp_path)}
    options = {"after": [failing], "plugins": ["sidecar_core.testing.failing_ops"]}
    failed = [0, 3, 4, 17, 39]
    (tmp_path / "generation").write_text("1")
    (tmp_path / "calls.jsonl").write_text("")
    plan = folders.plan(**options)
    (tmp_path / "failing.json").write_text(json.dumps({keys[row]: {"score": "timeout"} for row in failed}))
    folders.run(**options)
    before = read_dataset(folders.folder / "out")[SHARD]
    (tmp_path / "failing.json").write_text("{}")
    main, out = open_storage(f"{tmp_path}/main/"), open_storage(f"{tmp_path}/out/")
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        resources = ShardResources(main, (out,), pool, (out.staging_dir("r"),))
        shard = PlannedShard(main.list_shards()[0], (out.stat(SHARD),))
        report = retry_shard(plan, shard, resources, reasons=["timeout"])
    after = read_dataset(folders.folder / "out")[SHARD]
    assert report.report.rows == len(failed)
    assert after.column("n").to_pylist() == before.column("n").to_pylist() == list(range(40))


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
            return example_dataset(**PLAIN)

        def operation(self):
            return {"type": "merge_from_sidecar", "source_prefix": f"{folder}/sibling/"}

    found = Merge()._run(chunked(example_table(rows), chunks), batch_rows=batch_rows)
    assert found.select(["text", "struct"]).equals(columns)
    assert found.column("image_key").to_pylist() == keys.to_pylist()
    assert source_schema(f"{folder}/sibling/").names == ["image_key", "text", "struct"]
