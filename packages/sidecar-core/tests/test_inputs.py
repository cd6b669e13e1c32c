from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import RefusedError, ShardError, StorageNotFoundError
from sidecar_core.footer import read_footer
from sidecar_core.inputs import (
    ABSENT_BYTES,
    find_file,
    is_as_planned,
    same_version,
    sibling_version,
    source_version,
    why_changed,
)
from sidecar_core.pipeline import build_pipeline
from sidecar_core.plan import RunPlan, plan_run
from sidecar_core.side_inputs import SiblingSpec, load_side_inputs
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_core.testing.engine import run_every_shard


def write(path, rows, start=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": pa.array(range(start, start + rows), pa.int64())}), path)
    return path


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "dataset.yaml").write_text(
        f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/out/\nkey_column: image_key\n"
    )
    operations = [
        {"type": "copy_from_sibling", "source_prefix": f"{tmp_path}/ocr", "required": False},
        {"type": "count_source", "source": f"{tmp_path}/table.parquet"},
    ]
    dataset = load_dataset(tmp_path / "dataset.yaml")
    return build_pipeline(dataset, operations, plugins=("sidecar_core.testing.ops",))


@pytest.fixture
def world(tmp_path):
    write_main(tmp_path / "main", {"a.parquet": [b"x"] * 3, "b.parquet": [b"y"] * 2})
    write(tmp_path / "ocr/a.parquet", 3)
    write(tmp_path / "table.parquet", 7)
    return tmp_path


def plan(pipeline, world):
    main = open_storage(pipeline.dataset.main_prefix)
    return plan_run(pipeline, main, main.list_shards(), {"sidecar": f"{world}/out/"})


def test_the_footer_names_the_sibling_s_shard_and_the_source(world, pipeline):
    run_every_shard(pipeline, {"sidecar": f"{world}/out"})
    made = read_dataset(world / "out")
    assert made["a.parquet"].column("value").to_pylist() == [0, 1, 2]
    assert made["b.parquet"].column("value").to_pylist() == [None, None]
    assert made["b.parquet"].column("source_rows").to_pylist() == [7, 7]
    out = open_storage(f"{world}/out/")
    main, sibling, source = read_footer(out, "a.parquet").inputs
    assert (main.kind, sibling.kind, source.kind) == ("main", "sibling", "side_input")
    assert sibling.uri == f"{world}/ocr/a.parquet"
    assert sibling.size_bytes == (world / "ocr/a.parquet").stat().st_size
    assert source.uri == f"{world}/table.parquet"
    assert source.parquet_footer_digest
    assert read_footer(out, "b.parquet").inputs[1].size_bytes == ABSENT_BYTES


def test_a_plan_carries_siblings_and_sources_to_workers(world, pipeline):
    planned = plan(pipeline, world)
    (output,) = RunPlan.from_json(planned.to_json()).outputs
    assert output.siblings == (SiblingSpec(f"{world}/ocr/", required=False),)
    assert output.sources == planned.outputs[0].sources
    assert output.sources[0].size_bytes == (world / "table.parquet").stat().st_size


def test_a_source_that_is_not_there_ends_the_plan(world, pipeline):
    (world / "table.parquet").unlink()
    with pytest.raises(StorageNotFoundError, match=r"table\.parquet"):
        plan(pipeline, world)


def test_all_files_of_a_source_that_are_no_parquet_are_named_at_once(tmp_path):
    write(tmp_path / "t/good.parquet", 3)
    for name in ("a.parquet", "sub/b.parquet"):
        (tmp_path / "t" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / name).write_bytes(b"PAR1")
    with pytest.raises(ShardError, match=r"(?s)a\.parquet: not a readable .*sub/b\.parquet: not a readable "):
        source_version(f"{tmp_path}/t/")


def test_a_source_that_changes_after_the_plan_ends_the_run(world, pipeline):
    planned = plan(pipeline, world)
    assert load_side_inputs(planned) == {1: {"count": 7}}
    write(world / "table.parquet", 8)
    with pytest.raises(RefusedError, match=r"table\.parquet changed since the run was planned"):
        load_side_inputs(planned)


def test_a_sibling_s_shard_that_changes_during_the_run_fails_the_shard(world, pipeline):
    op = pipeline.operations[1]
    apply = type(op).apply

    def apply_and_replace(table, ctx):
        write(world / "ocr/a.parquet", 99)
        return apply(op, table, ctx)

    op.apply = apply_and_replace
    with pytest.raises(ShardError, match=r"ocr/a\.parquet: the sibling's shard changed"):
        run_every_shard(pipeline, {"sidecar": f"{world}/out"})
    assert not read_dataset(world / "out")


def test_a_prefix_is_another_version_when_any_of_its_shards_is(tmp_path):
    write(tmp_path / "t/a.parquet", 1)
    write(tmp_path / "t/deep/b.parquet", 2)
    (tmp_path / "t/_SUCCESS").touch()
    before = source_version(f"{tmp_path}/t")
    assert before.size_bytes == sum(path.stat().st_size for path in (tmp_path / "t").rglob("*.parquet"))
    (tmp_path / "t/notes.txt").write_text("no shard")
    assert source_version(f"{tmp_path}/t/") == before
    write(tmp_path / "t/deep/b.parquet", 3)
    assert not same_version(before, source_version(f"{tmp_path}/t/"))
    assert not is_as_planned(before)


@pytest.mark.parametrize("name", ["x.parquet", "t/"])
def test_a_source_that_is_copied_or_touched_is_the_same_version_and_one_rewritten_is_not(tmp_path, name):
    for here in ("x.parquet", "t/a.parquet", "t/deep/b.parquet"):
        write(tmp_path / "here" / here, 5, start=10)
    planned = source_version(f"{tmp_path}/here/{name}")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    for path in tmp_path.glob("*/**/*.parquet"):
        os.utime(path, ns=(1, 1))
    assert same_version(planned, source_version(f"{tmp_path}/there/{name}"))
    assert is_as_planned(planned)
    for path in tmp_path.glob("here/**/*.parquet"):
        write(path, 5, start=20)
    assert source_version(planned.uri).size_bytes == planned.size_bytes
    assert not is_as_planned(planned)


def test_files_that_only_look_alike_in_a_listing_are_other_versions(tmp_path):
    for name, start in (("a", 10), ("b", 20)):
        os.utime(write(tmp_path / f"{name}.parquet", 5, start=start), ns=(1, 1))
    one, other = (source_version(f"{tmp_path}/{name}.parquet") for name in "ab")
    assert (one.size_bytes, one.etag, one.mtime_ns) == (other.size_bytes, other.etag, other.mtime_ns)
    assert not same_version(one, other)


def test_a_file_and_a_folder_with_a_shard_s_name_are_told_apart(tmp_path):
    file = write(tmp_path / "x.parquet", 1)
    write(tmp_path / "folder.parquet/y.parquet", 1)
    storage, info = find_file(str(file))
    assert storage.uri(info.rel_path) == str(file)
    assert find_file(f"{tmp_path}/folder.parquet") is None
    assert source_version(f"{tmp_path}/folder.parquet").uri == f"{tmp_path}/folder.parquet/"
    with pytest.raises(StorageNotFoundError):
        source_version(f"{tmp_path}/nowhere/")


def test_a_copy_of_the_same_file_is_the_same_version(tmp_path):
    write(tmp_path / "a.parquet", 5)
    storage = open_storage(f"{tmp_path}/")
    before = sibling_version(storage, "a.parquet")
    shutil.copy(tmp_path / "a.parquet", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "a.parquet")
    os.utime(tmp_path / "a.parquet", ns=(1, 1))
    assert why_changed(before, storage, storage.stat("a.parquet")) == ""
    write(tmp_path / "a.parquet", 6)
    assert why_changed(before, storage, storage.stat("a.parquet")) == "changed"
    (tmp_path / "a.parquet").write_bytes(b"x" * before.size_bytes)
    assert why_changed(before, storage, storage.stat("a.parquet")) == "changed"
    (tmp_path / "a.parquet").unlink()
    assert why_changed(before, storage, storage.stat("a.parquet")) == "is gone"
    absent = sibling_version(storage, "a.parquet")
    assert why_changed(absent, storage, None) == ""
    write(tmp_path / "a.parquet", 5)
    assert why_changed(absent, storage, storage.stat("a.parquet")) == "was not there then"
