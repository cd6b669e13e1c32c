from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import ShardError, UsageError
from sidecar_core.first_shard import FURTHER_SHARDS, first_readable_schema
from sidecar_core.pipeline import build_pipeline
from sidecar_core.plan import plan_run
from sidecar_core.reader import open_aligned
from sidecar_core.storage import open_storage
from sidecar_core.storage.local import LocalStorage
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.engine import run_every_shard
from sidecar_core.testing.example_dataset import example_dataset

RENAME = {"type": "rename_columns", "columns": {"title": "name"}}


class Shards:
    """A main dataset of small shards; what a shard does not say is as in every other."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, rel_path, rows=2, kind="main", **columns):
        path = self.folder / kind / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        usual = {"image_key": [f"{rel_path} {row}" for row in range(rows)], "title": ["x"] * rows}
        pq.write_table(pa.table(usual | columns), path)

    def link_to_nowhere(self, rel_path, kind="main"):
        (self.folder / kind).mkdir(exist_ok=True)
        (self.folder / kind / rel_path).symlink_to(self.folder / "annex/not-fetched")

    def schema(self):
        storage = open_storage(f"{self.folder}/main/")
        return first_readable_schema(storage, storage.list_shards())

    def pipeline(self, operations=(RENAME,), **options):
        dataset = example_dataset(
            main_prefix=f"{self.folder}/main/",
            sidecar_prefix=f"{self.folder}/out/",
            schema_extensions=[],
            **options,
        )
        return build_pipeline(dataset, list(operations))

    def run(self, operations=(RENAME,), **options):
        pipeline = self.pipeline(operations, **options)
        run_every_shard(pipeline, {pipeline.outputs[0].name: f"{self.folder}/out"}, workers=1)
        return self.made()

    def made(self):
        return read_dataset(self.folder / "out")

    def planned_types(self, **options):
        pipeline = self.pipeline(**options)
        main = open_storage(f"{self.folder}/main/")
        plan = plan_run(pipeline, main, main.list_shards(), {pipeline.outputs[0].name: f"{self.folder}/out/"})
        return plan.main_schema


@pytest.fixture
def shards(tmp_path):
    return Shards(tmp_path)


def test_a_first_shard_that_cannot_be_opened_leaves_planning_and_reading_to_the_next(shards):
    shards.link_to_nowhere("0.parquet")
    shards.write("1.parquet")
    assert shards.schema().names == ["image_key", "title"]
    assert shards.planned_types().names == ["image_key", "title"]
    assert open_aligned(f"{shards.folder}/main", shards=["1.parquet"]).read_all().num_rows == 2


def test_where_no_shard_can_be_opened_the_first_is_named(shards):
    for name in ("0.parquet", "1.parquet"):
        shards.link_to_nowhere(name)
    with pytest.raises(UsageError, match=r"none of 2 shards at .*main/ is readable: .*0\.parquet"):
        shards.schema()


def test_a_siblings_first_shard_that_cannot_be_opened_leaves_the_types_of_the_next(shards):
    for name in ("0.parquet", "1.parquet"):
        shards.write(name)
    shards.link_to_nowhere("0.parquet", kind="sibling")
    shards.write("1.parquet", kind="sibling", score=[1.5, 2.5])
    merge = {"type": "merge_from_sidecar", "source_prefix": f"{shards.folder}/sibling/", "required": False}
    made = shards.run([merge | {"columns": ["score"]}])
    assert made["1.parquet"].column("score").to_pylist() == [1.5, 2.5]
    assert made["0.parquet"].schema == made["1.parquet"].schema


def test_the_key_column_is_known_from_the_first_shard_that_can_be_opened(shards):
    shards.write("0.parquet")
    shards.write("1.parquet")
    shards.run()
    (shards.folder / "out/0.parquet").unlink()
    shards.link_to_nowhere("0.parquet", kind="out")
    read = open_aligned(f"{shards.folder}/main", [f"{shards.folder}/out"], shards=["1.parquet"]).read_all()
    assert read.column_names == ["image_key", "title", "name"]


def test_an_empty_frame_as_pandas_writes_it_fixes_no_types(shards):
    shards.write("0.parquet", image_key=pa.nulls(0), title=pa.nulls(0), label=pa.nulls(0))
    shards.write("1.parquet", label=["a", None])
    made = shards.run(carry_columns=["label"])
    assert made["0.parquet"].schema == made["1.parquet"].schema
    assert made["1.parquet"].schema.types == [pa.string()] * 3
    assert made["1.parquet"].column("label").to_pylist() == ["a", None]
    read = open_aligned(f"{shards.folder}/main", [f"{shards.folder}/out"], columns=["label", "name"])
    assert read.read_all().to_pydict() == {"label": ["a", None], "name": ["x", "x"]}


def test_rows_of_nothing_but_nulls_take_the_type_of_the_next_shard_that_has_one(shards):
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    shards.write("0.parquet", label=pa.nulls(2), box=pa.nulls(2))
    shards.write("1.parquet", label=pa.nulls(2), box=pa.nulls(2))
    shards.write("2.parquet", label=pa.array([1, 2], pa.int16()), box=pa.array([{"a": 1, "b": "x"}, None], inner))
    made = shards.run(carry_columns=["label", "box"])
    assert made["0.parquet"].schema == made["2.parquet"].schema
    assert made["2.parquet"].schema.field("label").type == pa.int16()
    assert made["0.parquet"].column("label").to_pylist() == [None, None]
    assert made["0.parquet"].column("box").to_pylist() == [{"a": None, "b": None}] * 2
    assert made["2.parquet"].column("box").to_pylist()[0] == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("first", "then", "planned"),
    [
        (pa.array([[], None]), pa.array([["x"], []]), pa.list_(pa.string())),
        (
            pa.array([{"a": None, "b": 1}, None]),
            pa.array([{"b": 2, "a": "x"}, None]),
            pa.struct([("a", pa.string()), ("b", pa.int64())]),
        ),
        (
            pa.array([[{"a": None}], None]),
            pa.array([[{"a": [0.5]}], [None]]),
            pa.list_(pa.struct([("a", pa.list_(pa.float64()))])),
        ),
        (
            pa.array([[("k", None)], None], pa.map_(pa.string(), pa.null())),
            pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
            pa.map_(pa.string(), pa.int8()),
        ),
        (
            pa.array([[None, None], None], pa.list_(pa.null(), 2)),
            pa.array([[1.5, 2.5], None], pa.list_(pa.float32(), 2)),
            pa.list_(pa.float32(), 2),
        ),
    ],
    ids=["list", "struct", "list of structs of lists", "map", "fixed size list"],
)
def test_types_inside_are_found_likewise(shards, first, then, planned):
    shards.write("0.parquet", label=first)
    shards.write("1.parquet", label=then)
    made = shards.run(carry_columns=["label"])
    for name, values in (("0.parquet", first), ("1.parquet", then)):
        assert made[name].schema.field("label").type == planned
        assert made[name].column("label").to_pylist() == pa.array(values.to_pylist(), planned).to_pylist()


def test_further_shards_are_opened_only_for_types_that_are_not_said_and_not_without_end(shards, monkeypatch):
    opened = []
    open_input = LocalStorage.open_input

    def counted(self, rel_path, *args, **kwargs):
        opened.append(rel_path)
        return open_input(self, rel_path, *args, **kwargs)

    monkeypatch.setattr(LocalStorage, "open_input", counted)
    names = [f"{number:03}.parquet" for number in range(FURTHER_SHARDS + 5)]
    for name in names:
        shards.write(name)
    assert shards.schema().names == ["image_key", "title"]
    assert opened == names[:1]
    opened.clear()
    shards.write(names[0], label=pa.nulls(2))
    shards.write(names[3], label=["a", "b"])
    assert shards.schema().field("label").type == pa.string()
    assert opened == names[:4]
    opened.clear()
    for name in names:
        shards.write(name, label=pa.nulls(2))
    shards.write(names[-1], label=["a", "b"])
    assert shards.schema().field("label").type == pa.null()
    assert opened == names[: 1 + FURTHER_SHARDS]
    with pytest.raises(
        ShardError, match=r"020\.parquet.*'label' is not as in .*first shard(.|\n)*fix: write the column"
    ):
        shards.run(carry_columns=["label"])


@pytest.mark.parametrize("column", ["image_key", "label"])
def test_dictionaries_count_as_what_they_hold(shards, column):
    """A categorical has codes of 8 bits in a shard with few categories, and wider ones in the next."""
    few = pa.array(["a", "b"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    many = pa.array([f"v{row}" for row in range(300)]).dictionary_encode()
    plain = pa.array(["c", None], pa.string()) if column == "label" else pa.array(["c", "d"])
    for name, values in (("0.parquet", few), ("1.parquet", many), ("2.parquet", plain)):
        shards.write(name, len(values), **{column: values})
    made = shards.run(carry_columns=[] if column == "image_key" else ["label"])
    for name, values in (("0.parquet", few), ("1.parquet", many), ("2.parquet", plain)):
        assert made[name].schema.field(column).type == pa.string()
        assert made[name].column(column).to_pylist() == values.to_pylist()


def test_dictionaries_and_required_fields_inside_are_plain_too(shards):
    tags = pa.array([["a", "b"], None], pa.list_(pa.dictionary(pa.int32(), pa.string())))
    inner = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    shards.write("0.parquet", tags=tags, box=pa.array([{"a": 1}, {"a": 2}], inner))
    shards.write("1.parquet", tags=[["c"], []], box=pa.array([{"a": None}, None], pa.struct([("a", pa.int32())])))
    made = shards.run(carry_columns=["tags", "box"])
    assert made["0.parquet"].schema == made["1.parquet"].schema
    assert made["0.parquet"].schema.field("tags").type == pa.list_(pa.string())
    assert made["0.parquet"].column("tags").to_pylist() == [["a", "b"], None]
    assert made["1.parquet"].column("box").to_pylist() == [{"a": None}, None]


def test_a_categorical_of_nothing_but_nulls_fixes_no_type(shards):
    nothing = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.null()))
    shards.write("0.parquet", label=nothing)
    shards.write("1.parquet", label=pa.array(["a", "b"]).dictionary_encode())
    made = shards.run(carry_columns=["label"])
    assert made["0.parquet"].schema == made["1.parquet"].schema
    assert made["1.parquet"].column("label").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("column", ["image_key", "label"])
def test_a_float_that_the_first_shards_type_cannot_hold_is_an_error(shards, column):
    shards.write("0.parquet", **{column: pa.array([0.5, 0.1], pa.float32())})
    shards.write("1.parquet", **{column: pa.array([0.25, float("nan")], pa.float64())})
    shards.write("2.parquet", **{column: pa.array([0.5, 0.1], pa.float64())})
    with pytest.raises(ShardError) as caught:
        shards.run(carry_columns=[] if column == "image_key" else ["label"])
    assert f"2.parquet row 1: column '{column}' is double, and 0.1 does not fit float, its type in" in str(caught.value)
    assert "fix: write the column with one type in every file" in str(caught.value)
    made = shards.made()
    assert sorted(made) == ["0.parquet", "1.parquet"]
    assert made["1.parquet"].column(column)[0].as_py() == 0.25
    assert made["1.parquet"].schema.field(column).type == pa.float32()


def test_a_plan_has_the_types_of_what_is_held(shards):
    shards.write("0.parquet", label=pa.nulls(2))
    shards.write("1.parquet", label=pa.array(["a", "b"]).dictionary_encode())
    assert shards.planned_types(carry_columns=["label"]).field("label").type == pa.string()
