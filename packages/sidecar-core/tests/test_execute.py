from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.align import first_misaligned, key_digest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import ConflictError, OpError, ShardError
from sidecar_core.execute import ShardResources, open_writer, run_shard
from sidecar_core.footer import read_footer
from sidecar_core.foreign_types import plain_type
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.plan import PlannedShard, plan_run
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_core.testing.engine import run_every_shard

PLUGINS = ("sidecar_core.testing.ops",)


@pytest.fixture
def make_pipeline(tmp_path):
    def make(operations, *, extra="", outputs=None):
        yaml = tmp_path / "dataset.yaml"
        yaml.write_text(
            f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/out/\n"
            f"key_column: image_key\nimage_column: image\n{extra}"
        )
        return build_pipeline(load_dataset(yaml), operations, outputs=outputs, plugins=PLUGINS)

    return make


def run(pipeline, tmp_path):
    return run_every_shard(pipeline, {pipeline.outputs[0].name: str(tmp_path / "out")})


def test_rows_order_and_keys_are_those_of_the_main_shard(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"a/b=1/one.parquet": [b"x" * n for n in range(700)], "zwei ü.parquet": [b"y", None]})
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    made = read_dataset(tmp_path / "out")
    main = read_dataset(tmp_path / "main")
    assert made.keys() == main.keys()
    for rel_path, table in made.items():
        assert table.column_names == ["image_key", "byte_length", "byte_length_reason"]
        assert table.column("image_key").equals(main[rel_path].column("image_key"))
    assert made["a/b=1/one.parquet"].column("byte_length").to_pylist() == list(range(700))
    assert made["zwei ü.parquet"].column("byte_length_reason").to_pylist() == [None, "missing"]


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        (b"!abort", "crashed"),
        (b"!segv", "crashed"),
        (b"!kill", "crashed"),
        (b"!hang", "timeout"),
        (b"!eat", "out_of_memory"),
    ],
)
def test_a_row_that_ends_its_process_costs_that_row_only(tmp_path, make_pipeline, poison, reason):
    rows = [b"x" * n for n in range(40)]
    rows[17] = poison
    write_main(tmp_path / "main", {"s.parquet": rows})
    (report,) = run(make_pipeline([{"type": "measure_bytes", "row_timeout_s": 6}]), tmp_path)
    table = read_dataset(tmp_path / "out")["s.parquet"]
    assert table.column("byte_length").to_pylist() == [n if n != 17 else None for n in range(40)]
    assert table.column("byte_length_reason").to_pylist()[17] == reason
    assert report.invalid == {report_output(report): {reason: 1}}
    assert report.invalid_rows == 1


def report_output(report):
    return next(iter(report.invalid))


def test_the_footer_says_what_the_file_was_made_from(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"s.parquet": [b"a", None, b"bb"]}, row_group_rows=2)
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    footer = read_footer(
        open_storage(f"{tmp_path}/out/", make_pipeline([{"type": "measure_bytes"}]).dataset.storage), "s.parquet"
    )
    keys = read_dataset(tmp_path / "main")["s.parquet"].column("image_key")
    assert footer is not None
    assert footer.rows == 3
    assert footer.key_digest == key_digest(keys)
    assert footer.invalid == {"byte_length": {"missing": 1}}
    assert footer.inputs[0].kind == "main"
    assert footer.inputs[0].size_bytes == (tmp_path / "main/s.parquet").stat().st_size


@pytest.mark.parametrize("how", ["drop_row", "reorder", "change_key", "drop_key", "wrong_type", "raise", "not_a_table"])
def test_an_op_that_breaks_its_contract_is_named_and_leaves_no_output(tmp_path, make_pipeline, how):
    write_main(tmp_path / "main", {"s.parquet": [b"a", b"b", b"c"]})
    with pytest.raises(OpError, match=r"s\.parquet.*break_contract"):
        run(make_pipeline([{"type": "break_contract", "how": how}]), tmp_path)
    assert read_dataset(tmp_path / "out") == {}


@pytest.mark.parametrize("row_groups", [0, 1])
def test_a_shard_without_rows_gives_a_shard_without_rows(tmp_path, make_pipeline, row_groups):
    schema = pa.schema([("image_key", pa.string()), ("image", pa.binary())])
    (tmp_path / "main").mkdir()
    with pq.ParquetWriter(tmp_path / "main/s.parquet", schema) as writer:
        if row_groups:
            writer.write_table(schema.empty_table())
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    table = read_dataset(tmp_path / "out")["s.parquet"]
    assert table.num_rows == 0
    assert table.column_names == ["image_key", "byte_length", "byte_length_reason"]


@pytest.mark.parametrize(
    "key_type",
    [pa.string(), pa.large_string(), pa.int64(), pa.int32(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_any_key_type_comes_through_unchanged_but_for_dictionaries(tmp_path, make_pipeline, key_type):
    write_main(tmp_path / "main", {"s.parquet": [b"a", b"b", None] * 3}, key_type=key_type, row_group_rows=4)
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    made, main = read_dataset(tmp_path / "out")["s.parquet"], read_dataset(tmp_path / "main")["s.parquet"]
    assert made.schema.field("image_key").type == plain_type(key_type)
    assert made.column("image_key").to_pylist() == main.column("image_key").to_pylist()


def test_the_struct_that_hugging_face_writes_is_an_image_column(tmp_path, make_pipeline):
    images = pa.array(
        [{"bytes": b"abc", "path": "x.jpg"}, None], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    (tmp_path / "main").mkdir()
    pq.write_table(pa.table({"image_key": ["k", "l"], "image": images}), tmp_path / "main/s.parquet")
    run(
        make_pipeline([{"type": "extract_scaffold"}], extra="schema_extensions:\n  - {name: caption, type: string}\n"),
        tmp_path,
    )
    assert read_dataset(tmp_path / "out")["s.parquet"].column_names == ["image_key", "caption"]


@pytest.mark.parametrize("content", [b"", b"PAR1 but not really", b"\x00" * 100])
def test_a_file_that_is_not_parquet_is_named(tmp_path, make_pipeline, content):
    write_main(tmp_path / "main", {"a.parquet": [b"a"]})
    (tmp_path / "main/b.parquet").write_bytes(content)
    with pytest.raises(ShardError, match=r"b\.parquet"):
        run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    assert list(read_dataset(tmp_path / "out")) == ["a.parquet"]


def test_a_flipped_byte_in_a_page_is_found(tmp_path, make_pipeline):
    (tmp_path / "main").mkdir()
    table = pa.table({"image_key": [f"k{n}" for n in range(50)], "image": [os.urandom(2000) for _ in range(50)]})
    pq.write_table(
        table, tmp_path / "main/s.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )
    data = bytearray((tmp_path / "main/s.parquet").read_bytes())
    data[len(data) // 2] ^= 0x40
    (tmp_path / "main/s.parquet").write_bytes(data)
    with pytest.raises(ShardError, match=r"s\.parquet"):
        run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    assert read_dataset(tmp_path / "out") == {}


def test_a_shard_of_another_type_is_cast_or_named(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"a.parquet": [b"a"]}, key_type=pa.int32())
    write_main(tmp_path / "main", {"b.parquet": [b"b"]}, key_type=pa.int64())
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    assert read_dataset(tmp_path / "out")["b.parquet"].schema.field("image_key").type == pa.int32()
    too_wide = pa.table({"image_key": pa.array([2**40]), "image": pa.array([b"x"])})
    pq.write_table(too_wide, tmp_path / "main/c.parquet")
    with pytest.raises(ShardError, match=r"c\.parquet.*'image_key'"):
        run(make_pipeline([{"type": "measure_bytes"}], extra=""), tmp_path / "second")


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (pa.array([0.5], pa.float32()), pa.array([1e300], pa.float64()), r"1e\+300"),
        (
            pa.array([{"w": 1}], pa.struct([("w", pa.int32())])),
            pa.array([{"w": 1, "h": 2}], pa.struct([("w", pa.int32()), ("h", pa.int32())])),
            "'h'",
        ),
        (pa.array(["x"]), pa.array([["x"]]), r"list<.*string"),
    ],
    ids=["overflow", "field lost", "no cast"],
)
def test_a_shard_whose_values_do_not_fit_loses_nothing_in_silence(tmp_path, make_pipeline, first, second, found):
    (tmp_path / "main").mkdir()
    for name, values in (("a.parquet", first), ("b.parquet", second)):
        pq.write_table(pa.table({"image_key": ["k"], "carried": values}), tmp_path / "main" / name)
    scaffold = "carry_columns: [carried]\nschema_extensions:\n  - {name: caption, type: string}\n"
    with pytest.raises(ShardError, match=rf"b\.parquet.*'carried'.*{found}"):
        run(make_pipeline([{"type": "extract_scaffold"}], extra=scaffold), tmp_path)
    assert list(read_dataset(tmp_path / "out")) == ["a.parquet"]


@pytest.mark.parametrize(
    ("second", "found"),
    [
        (pa.table({"image_key": [7], "image": [b"x"]}), "'image_key'.*int64 cannot be compared with.*string"),
        (pa.table([["k"], ["l"], [b"x"]], names=["image_key", "image_key", "image"]), "2 columns 'image_key'"),
        (pa.table({"image_key": ["k"]}), "no column 'image'"),
    ],
    ids=["keys that no verifier could compare", "two key columns", "no pictures"],
)
def test_a_shard_that_cannot_be_aligned_is_named(tmp_path, make_pipeline, second, found):
    write_main(tmp_path / "main", {"a.parquet": [b"a"]})
    pq.write_table(second, tmp_path / "main/b.parquet")
    with pytest.raises(ShardError, match=rf"b\.parquet: .*{found}"):
        run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    assert list(read_dataset(tmp_path / "out")) == ["a.parquet"]


def test_an_output_that_appeared_since_the_plan_is_not_replaced(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"s.parquet": [b"a"]})
    main, output = (open_storage(f"{tmp_path}/{name}/") for name in ("main", "out"))
    (info,) = main.list_shards()
    plan = plan_run(make_pipeline([{"type": "measure_bytes"}]), main, [info], {"sidecar": output.prefix})
    (tmp_path / "out").mkdir()
    (tmp_path / "out/s.parquet").write_bytes(b"of another writer")
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        resources = ShardResources(main, (output,), pool, (output.staging_dir(plan.run_id),))
        with pytest.raises(ConflictError):
            run_shard(plan, PlannedShard(info, (None,)), resources)
    assert (tmp_path / "out/s.parquet").read_bytes() == b"of another writer"


def test_several_outputs_are_made_from_one_pass(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"s.parquet": [b"a", b"bb"]})
    pipeline = make_pipeline(
        [{"type": "measure_bytes"}],
        outputs=[
            OutputSpec("lengths", f"{tmp_path}/lengths/", {"length": "byte_length"}),
            OutputSpec("reasons", f"{tmp_path}/reasons/", {"why": "byte_length_reason"}),
        ],
    )
    run_every_shard(pipeline, {"lengths": str(tmp_path / "lengths"), "reasons": str(tmp_path / "reasons")})
    assert read_dataset(tmp_path / "lengths")["s.parquet"].to_pydict() == {
        "image_key": ["s.parquet#0", "s.parquet#1"],
        "length": [1, 2],
    }
    assert read_dataset(tmp_path / "reasons")["s.parquet"].column_names == ["image_key", "why"]


def test_batches_follow_bytes_as_well_as_rows(tmp_path, make_pipeline, monkeypatch):
    monkeypatch.setattr("sidecar_core.shard_reader.BATCH_BYTES", 10_000)
    monkeypatch.setattr("sidecar_core.shard_reader._READ_UNIT_BYTES", 4_000)
    rows = [b"x" * (n * 300) for n in range(60)]
    write_main(tmp_path / "main", {"s.parquet": rows}, row_group_rows=25)
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    assert read_dataset(tmp_path / "out")["s.parquet"].column("byte_length").to_pylist() == [len(row) for row in rows]


def test_a_key_of_an_object_store_is_no_path_of_the_staging_folder(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"s.parquet": [b"a"]})
    pipeline = make_pipeline([{"type": "measure_bytes"}])
    main = open_storage(str(tmp_path / "main"))
    plan = plan_run(pipeline, main, main.list_shards(), {pipeline.outputs[0].name: str(tmp_path / "out")})
    mine = tmp_path / "mine.parquet"
    mine.write_bytes(b"mine")
    above = "../" * 30 + str(mine).removeprefix("/")
    odd = [str(mine), above, "..", "a//x.parquet", "a/x.parquet", "a/\udcff/x.parquet", "n" * 1000, "ü" * 300, "a/"]
    staging = tmp_path / "staging"
    files = set()
    for key in odd:
        with open_writer(plan.outputs[0], staging, key) as writer:
            assert writer.path.is_file()
            assert writer.path.resolve().is_relative_to(staging.resolve())
            files.add(writer.path)
        assert not writer.path.exists()
    assert len(files) == len(odd)
    assert mine.read_bytes() == b"mine"


def test_a_key_that_is_nan_comes_through(tmp_path, make_pipeline):
    (tmp_path / "main").mkdir()
    keys = pa.array([1.0, float("nan"), None])
    pq.write_table(pa.table({"image_key": keys, "image": [b"a", b"bb", b""]}), tmp_path / "main/s.parquet")
    run(make_pipeline([{"type": "measure_bytes"}]), tmp_path)
    made = read_dataset(tmp_path / "out")["s.parquet"]
    assert first_misaligned(made.column("image_key"), keys, null_matches_null=True) is None
    assert made.column("byte_length").to_pylist() == [1, 2, 0]


def test_an_op_that_ends_the_program_fails_its_shard_and_ray_may_end_a_worker(tmp_path, make_pipeline, monkeypatch):
    write_main(tmp_path / "main", {"s.parquet": [b"x"]})
    pipeline = make_pipeline([{"type": "measure_bytes"}])
    ending = SystemExit(4)

    def end(op, table, ctx):
        raise ending

    monkeypatch.setattr(type(pipeline.operations[0]), "apply", end)
    with pytest.raises(
        OpError, match=r"op 'measure_bytes' raised SystemExit: it called sys.exit\(4\), at .*test_execute"
    ):
        run(pipeline, tmp_path)
    ending.ray_terminate_msg = "The process receives a SIGTERM."
    with pytest.raises(SystemExit):
        run(pipeline, tmp_path)
