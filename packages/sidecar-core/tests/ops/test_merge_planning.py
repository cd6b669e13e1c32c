"""What a plan knows of a merge before any row is read: columns, types, fingerprints, and what later shards must fit."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from sidecar_core.errors import ConfigError, ShardError
from sidecar_core.footer import read_footer
from sidecar_core.pipeline import check_columns, output_fingerprint
from sidecar_core.plan import RunPlan
from sidecar_core.shard_reader import PIXEL_BATCH_ROWS, MainShard
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.example_dataset import example_table

SHARD = "a b/part-0.parquet"


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


@pytest.mark.parametrize("kept", [False, True], ids=["taken", "kept where the sibling has no shard"])
def test_floats_are_not_rounded_to_the_siblings_type(folders, kept):
    for shard in ("0.parquet", "1.parquet"):
        folders.write("main", example_table().append_column("score", pa.array([0.5] * 9 + [0.1])), shard)
    folders.sibling({"score": pa.array([0.5] * 10, pa.float32())}, "0.parquet")
    if not kept:
        folders.sibling({"score": [0.5] * 9 + [0.1]}, "1.parquet")
    with pytest.raises(ShardError, match=r"1\.parquet row 9: column 'score' .*0\.1 does not fit float"):
        folders.run(required=False, mode="prefer_sidecar", carry=["score"])


def test_column_that_only_a_later_shard_lacks(folders):
    for shard in ("0.parquet", "1.parquet"):
        folders.main(rel_path=shard)
    folders.sibling({"a": [1] * 10, "b": [2] * 10}, "0.parquet")
    folders.sibling({"a": [1] * 10, "c": [3] * 10}, "1.parquet")
    with pytest.raises(ShardError, match=r"1\.parquet: no column 'b'"):
        folders.run()


def test_kept_column_that_could_not_take_the_sidecars_type_is_a_plan_error(folders):
    folders.main()
    folders.sibling({"title": [[1]] * 10})
    with pytest.raises(ConfigError, match="column 'title' has the sidecar's type, also where the sidecar has no shard"):
        folders.plan(required=False, mode="prefer_sidecar", carry=["title"])


def test_sibling_that_is_nowhere(folders):
    folders.main()
    with pytest.raises(ConfigError, match=r"operations\[0\]: source_prefix .* is not there"):
        folders.plan(columns=["caption"], extensions=[{"name": "caption", "type": "string"}])
    with pytest.raises(ConfigError, match="no types are known for what is taken"):
        folders.plan(required=False)
    extensions = [{"name": "caption", "type": "string"}]
    made = folders.run(required=False, columns=["caption"], extensions=extensions)[SHARD]
    assert made.column("caption").null_count == 10


def test_pictures_of_a_sibling_come_in_small_batches(folders):
    folders.main(600)
    folders.sibling({"thumb": [b"x"] * 600, "n": [1] * 600})

    def most_rows(**params):
        main = open_storage(f"{folders.folder}/main/")
        with MainShard.open(main, main.list_shards()[0], folders.plan(**params)) as shard:
            return max(batch.table.num_rows for batch in shard.batches())

    assert most_rows() == PIXEL_BATCH_ROWS
    assert most_rows(columns=["n"]) == 600


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
