from __future__ import annotations

import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.resume import ShardState
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

SHARDS = {f"part-{n}.parquet": [b"x" * (n * 10 + k) for k in range(20)] for n in range(5)}


def run(pipeline, out, **options):
    return execute_run(prepare_run(pipeline, RunOptions(output_prefix=str(out), workers=2, **options)))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_a_run_makes_every_shard_and_says_what_it_did(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    report = run(make_pipeline(), out)
    assert report.ok
    assert report.shards == {"done": 5, "skipped": 0, "failed": 0, "not_reached": 0}
    assert report.rows == 100
    assert read_dataset(out).keys() == SHARDS.keys()
    manifest = json.loads((out / f"_sidecar/runs/{report.run_id}.json").read_text())
    assert manifest["outcome"] == "done"
    assert manifest["shards"] == {"total": 5, "done": 5, "skipped": 0, "failed": 0}
    assert manifest["rows"] == 100
    assert manifest["runtime"]["name"] == "local"
    assert {"sidecar-core", "sidecar-runtimes", "pyarrow", "pydantic"} <= set(manifest["packages"])


def test_nothing_but_shards_and_the_run_folder_is_left(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    report = run(make_pipeline(), out)
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert files == {*SHARDS, f"_sidecar/runs/{report.run_id}.json", "_sidecar/SUCCESS"}


def test_existing_shards_are_refused_without_a_word_about_them(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    with pytest.raises(RefusedError, match=r"5 of 5(.|\n)*--skip-existing"):
        run(make_pipeline(), out)
    assert {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")} == before


def test_skip_existing_makes_what_is_missing_or_unreadable(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    whole = read_dataset(out)
    (out / "part-1.parquet").unlink()
    (out / "part-3.parquet").write_bytes((out / "part-3.parquet").read_bytes()[:-20])
    report = run(make_pipeline(), out, skip_existing=True)
    assert report.shards == {"done": 2, "skipped": 3, "failed": 0, "not_reached": 0}
    assert read_dataset(out) == whole


def test_shards_of_another_pipeline_are_stale(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    other = make_pipeline([{"type": "measure_bytes", "row_timeout_s": 7.0}])
    with pytest.raises(RefusedError, match=r"stale: 5 of 5 shards there(.|\n)*another pipeline"):
        run(other, out, skip_existing=True)
    assert run(other, out, skip_existing=True, keep_stale=True).shards["skipped"] == 5
    assert run(other, out, skip_existing=True, redo_stale=True).shards["done"] == 5


def test_a_changed_main_shard_is_stale_and_a_touched_one_is_not(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    (tmp_path / "main/part-0.parquet").touch()
    write_main(tmp_path / "main", {"part-2.parquet": [b"other"] * 20})
    standings = prepare_run(make_pipeline(), RunOptions(output_prefix=str(out))).standings
    states = {standing.shard.rel_path: standing.state for standing in standings}
    assert states.pop("part-2.parquet") is ShardState.STALE
    assert set(states.values()) == {ShardState.DONE}


def test_one_of_several_outputs_missing_is_partial_and_made_again(tmp_path, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    outputs = [
        OutputSpec("one", f"{tmp_path}/one/", {"length": "byte_length"}),
        OutputSpec("two", f"{tmp_path}/two/", {"why": "byte_length_reason"}),
    ]
    pipeline = make_pipeline(outputs=outputs)
    execute_run(prepare_run(pipeline, RunOptions(workers=2)))
    (tmp_path / "two/part-4.parquet").unlink()
    prepared = prepare_run(pipeline, RunOptions(workers=2, skip_existing=True))
    assert prepared.states == {"done": 4, "stale": 0, "partial": 1, "missing": 0}
    assert execute_run(prepared).shards["done"] == 1
    assert len(read_dataset(tmp_path / "two")) == 5


def test_overwrite_replaces_every_shard(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    report = run(make_pipeline(), out, overwrite=True)
    assert report.shards["done"] == 5


def test_a_bad_shard_fails_alone_and_is_recorded(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    (tmp_path / "main/part-2.parquet").write_bytes(b"")
    report = run(make_pipeline(), out)
    assert not report.ok
    assert report.shards == {"done": 4, "skipped": 0, "failed": 1, "not_reached": 0}
    (line,) = (out / "_sidecar/failed_shards.jsonl").read_text().splitlines()
    assert json.loads(line)["shard"] == "part-2.parquet"
    assert "part-2.parquet" in json.loads(line)["error"]
    assert json.loads(line)["attempts"] == 1
    write_main(tmp_path / "main", {"part-2.parquet": [b"mended"]})
    assert run(make_pipeline(), out, skip_existing=True).ok
    assert (out / "_sidecar/failed_shards.jsonl").read_text() == ""


def test_too_many_failed_shards_end_the_run(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    for n in (1, 2, 3):
        (tmp_path / f"main/part-{n}.parquet").write_bytes(b"no parquet")
    report = run(make_pipeline(), out, max_failed_shards=0)
    assert report.stopped is not None
    assert "--max-failed-shards 0" in report.stopped
    assert report.shards["not_reached"] > 0


def test_too_many_invalid_rows_end_the_run_with_their_reasons(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", {f"part-{n}.parquet": [None, b"x"] * 300 for n in range(8)})
    report = run(make_pipeline(), out, max_invalid_fraction=0.3)
    assert report.stopped is not None
    assert "missing" in report.stopped
    assert 1000 <= report.rows < 8 * 600
    assert run(make_pipeline(), tmp_path / "out2", max_invalid_fraction=0.5).ok


def test_limit_and_subprefix_choose_shards(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", {f"{part}/s-{n}.parquet": [b"x"] for part in "ab" for n in range(3)})
    report = run(make_pipeline(), out, input_subprefix="b/", limit=2)
    assert report.shards["done"] == 2
    assert list(read_dataset(out)) == ["b/s-0.parquet", "b/s-1.parquet"]


@pytest.mark.parametrize("where", ["main", "main/inside", "."])
def test_an_output_that_overlaps_the_main_dataset_is_refused(tmp_path, make_pipeline, where):
    write_main(tmp_path / "main", SHARDS)
    with pytest.raises(RefusedError, match="main dataset"):
        run(make_pipeline(), tmp_path / where)
    assert read_dataset(tmp_path / "main").keys() == SHARDS.keys()
    assert not (tmp_path / "main/_sidecar").exists()


def test_an_overlap_through_a_symlink_is_refused(tmp_path, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    (tmp_path / "alias").symlink_to(tmp_path / "main")
    with pytest.raises(RefusedError, match="main dataset"):
        run(make_pipeline(), tmp_path / "alias" / "x")


def test_a_main_dataset_without_shards_is_an_error(tmp_path, out, make_pipeline):
    (tmp_path / "main").mkdir()
    (tmp_path / "main/_SUCCESS").touch()
    (tmp_path / "main/notes.txt").touch()
    with pytest.raises(UsageError, match="no shards"):
        run(make_pipeline(), out)


def test_a_main_dataset_that_is_not_there_is_an_error(tmp_path, out, make_pipeline):
    with pytest.raises(UsageError, match=r"no shards at .*/main/"):
        run(make_pipeline(), out)
    write_main(tmp_path / "main", SHARDS)
    with pytest.raises(UsageError, match=r"no shards at .*/main/nowhere/"):
        run(make_pipeline(), out, input_subprefix="nowhere/")


def test_things_that_are_not_shards_are_left_alone(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", {"a.parquet": [b"x"], "_tmp/b.parquet": [b"y"], ".hidden.parquet": [b"z"]})
    for name in ("_SUCCESS", ".a.parquet.crc", "notes.txt", "a.parquet.tmp"):
        (tmp_path / "main" / name).touch()
    assert run(make_pipeline(), out).shards["done"] == 1
    assert list(read_dataset(out)) == ["a.parquet"]


def test_options_that_contradict_each_other_are_an_error(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    with pytest.raises(UsageError, match="contradict"):
        run(make_pipeline(), out, skip_existing=True, overwrite=True)


@pytest.mark.parametrize("option", ["retries", "max_failed_shards"])
def test_numbers_below_zero_are_an_error(tmp_path, out, make_pipeline, option):
    write_main(tmp_path / "main", SHARDS)
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')} -1"):
        run(make_pipeline(), out, **{option: -1})


def test_closing_the_reports_stops_the_run_and_leaves_nothing_partial(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", {f"part-{n}.parquet": [b"x"] * 50 for n in range(20)})
    pipeline = make_pipeline([{"type": "measure_bytes", "delay_s": 0.01}])
    prepared = prepare_run(pipeline, RunOptions(output_prefix=str(out), workers=2))
    reports = LocalRuntime(workers=2).run(prepared.plan, prepared.to_do, SilentObserver(), stop=threading.Event())
    next(reports)
    reports.close()
    made = read_dataset(out)
    assert 1 <= len(made) < 20
    assert all(table.num_rows == 50 for table in made.values())
    assert not [path for path in out.rglob("*.parquet") if path.name not in made]


def test_the_same_dataset_whatever_the_number_of_workers(tmp_path, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    for workers in (1, 3):
        execute_run(
            prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / f"w{workers}"), workers=workers))
        )
    assert read_dataset(tmp_path / "w1") == read_dataset(tmp_path / "w3")


def test_output_files_have_a_schema_and_checksums(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    schemas = {str(pq.read_schema(path).remove_metadata()) for path in out.glob("*.parquet")}
    assert len(schemas) == 1


def test_a_trusted_listing_is_not_looked_behind(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    (out / "part-1.parquet").write_bytes(b"no parquet, but there")
    (out / "part-2.parquet").write_bytes(b"")
    (out / "part-3.parquet").unlink()
    other = make_pipeline([{"type": "measure_bytes", "row_timeout_s": 7.0}])
    assert run(other, out, skip_existing=True, trust_listing=True).shards["done"] == 2
    assert (out / "part-1.parquet").read_bytes() == b"no parquet, but there"
    with pytest.raises(UsageError, match="--skip-existing"):
        run(other, out, trust_listing=True)
    with pytest.raises(UsageError, match="stale"):
        run(other, out, skip_existing=True, trust_listing=True, redo_stale=True)


def test_what_another_run_made_since_the_plan_is_heeded(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    planned = prepare_run(make_pipeline(), RunOptions(output_prefix=str(out), workers=1, skip_existing=True))
    run(make_pipeline(), out, limit=3)
    assert execute_run(planned).shards == {"done": 2, "skipped": 3, "failed": 0, "not_reached": 0}
    planned = prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "other"), workers=1))
    run(make_pipeline(), tmp_path / "other", limit=3)
    with pytest.raises(RefusedError, match="already holds 3 of 5"):
        execute_run(planned)


def test_the_marker_says_that_every_shard_is_there(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", SHARDS)
    marker = out / "_sidecar/SUCCESS"
    run(make_pipeline(), out, limit=4)
    assert not marker.exists()
    report = run(make_pipeline(), out, skip_existing=True, input_subprefix="part-4")
    assert json.loads(marker.read_text())["run_id"] == report.run_id
    (tmp_path / "main/part-9.parquet").write_bytes(b"no parquet")
    assert not run(make_pipeline(), out, skip_existing=True).ok
    assert not marker.exists()


def test_the_marker_is_not_written_beside_shards_that_the_main_dataset_lacks(tmp_path, out, make_pipeline, caplog):
    write_main(tmp_path / "main", SHARDS)
    run(make_pipeline(), out)
    (tmp_path / "main/part-2.parquet").unlink()
    with pytest.raises(RefusedError, match=r"already holds 4 of 4 shards"):
        run(make_pipeline(), out)
    assert run(make_pipeline(), out, skip_existing=True).ok
    assert f"{out}/ holds 1 shard that the main dataset does not have; the first is {out}/part-2.parquet" in caplog.text
    assert not (out / "_sidecar/SUCCESS").exists()
    (out / "part-2.parquet").unlink()
    assert run(make_pipeline(), out, skip_existing=True).ok
    assert (out / "_sidecar/SUCCESS").exists()


@pytest.mark.parametrize("options", [{}, {"skip_existing": True}, {"overwrite": True}])
def test_a_prefix_of_another_dataset_is_refused(tmp_path, out, make_pipeline, options):
    write_main(tmp_path / "main", {"other.parquet": [b"x"]})
    run(make_pipeline([{"type": "measure_bytes", "row_timeout_s": 7.0}]), out)
    (tmp_path / "main/other.parquet").unlink()
    write_main(tmp_path / "main", SHARDS)
    with pytest.raises(RefusedError, match=r"other\.parquet") as refused:
        run(make_pipeline(), out, **options)
    assert ("made by another pipeline" if options else "the main dataset does not have") in str(refused.value)
    assert {path.name for path in out.glob("*.parquet")} == {"other.parquet"}


@pytest.mark.parametrize("options", [{}, {"skip_existing": True, "redo_stale": True}, {"overwrite": True}])
def test_files_that_sidecar_did_not_write_are_never_replaced(tmp_path, out, make_pipeline, options):
    write_main(tmp_path / "main", SHARDS)
    write_main(out, {"part-3.parquet": [b"somebody's pictures"]})
    before = (out / "part-3.parquet").read_bytes()
    with pytest.raises(RefusedError, match=r"already holds 1 of 5|part-3\.parquet: sidecar did not write this file"):
        run(make_pipeline(), out, **options)
    (out / "part-3.parquet").rename(out / "pictures.parquet")
    with pytest.raises(RefusedError, match=r"pictures\.parquet") as refused:
        run(make_pipeline(), out, **options)
    assert "remove it" not in str(refused.value)
    assert (out / "pictures.parquet").read_bytes() == before
    assert [path.name for path in out.glob("*.parquet")] == ["pictures.parquet"]


def test_two_pipelines_do_not_share_a_prefix_by_subprefixes(tmp_path, out, make_pipeline):
    write_main(tmp_path / "main", {"a/1.parquet": [b"x"], "b/1.parquet": [b"y"]})
    run(make_pipeline(), out, input_subprefix="a/")
    other = make_pipeline([{"type": "measure_bytes", "row_timeout_s": 7.0}])
    for options in ({}, {"overwrite": True}, {"skip_existing": True, "redo_stale": True}):
        with pytest.raises(RefusedError, match=r"a/1\.parquet: output 'sidecar' was made by another pipeline"):
            run(other, out, input_subprefix="b/", **options)
    assert run(make_pipeline(), out, input_subprefix="b/").ok
    assert run(other, out, skip_existing=True, redo_stale=True).shards["done"] == 2


def with_width(folder, types):
    for name, dtype in types.items():
        table = pa.table({"image_key": [f"{name}{n}" for n in range(3)], "width": pa.array([1, 2, 3], dtype)})
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name)


def test_types_are_the_same_whatever_part_a_run_is_about(tmp_path, out, make_pipeline):
    with_width(tmp_path / "main", {"a/1.parquet": pa.int64(), "b/1.parquet": pa.int32()})
    pipeline = make_pipeline([{"type": "rename_columns", "columns": {"width": "w"}}], image_column="")
    assert run(pipeline, out, input_subprefix="b/").ok
    assert run(pipeline, out, input_subprefix="a/").ok
    assert {pq.read_schema(path).field("w").type for path in out.rglob("*.parquet")} == {pa.int64()}


def test_shards_with_other_types_are_stale(tmp_path, out, make_pipeline):
    with_width(tmp_path / "main", {"1.parquet": pa.int64(), "2.parquet": pa.int64()})
    pipeline = make_pipeline([{"type": "rename_columns", "columns": {"width": "w"}}], image_column="")
    assert run(pipeline, out).ok
    with_width(tmp_path / "main", {"1.parquet": pa.float64()})
    with pytest.raises(RefusedError, match=r"stale: 2 of 2 (.|\n)*other types: 'w' is int64, not double"):
        run(pipeline, out, skip_existing=True)
    assert run(pipeline, out, skip_existing=True, redo_stale=True).shards["done"] == 2
    assert {pq.read_schema(path).field("w").type for path in out.rglob("*.parquet")} == {pa.float64()}


@pytest.mark.parametrize(("free", "ok"), [(100, False), (10**6, True)])
def test_a_disk_that_is_obviously_too_small_is_refused(tmp_path, out, make_pipeline, monkeypatch, free, ok):
    write_main(tmp_path / "main", SHARDS)
    prepared = prepare_run(make_pipeline(), RunOptions(output_prefix=str(out), workers=1))
    monkeypatch.setattr("sidecar_core.storage.local.free_bytes_at", lambda folder: free)
    if ok:
        assert execute_run(prepared).ok
    else:
        with pytest.raises(RefusedError, match=r"100 bytes are free(.|\n)*part-4\.parquet"):
            execute_run(prepared)
        assert not list(out.glob("*.parquet"))


@pytest.fixture
def asking(tmp_path):
    """Returns a function that builds a pipeline whose op wants a file to be there."""
    yaml = tmp_path / "dataset.yaml"
    yaml.write_text(
        f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/out/\nkey_column: image_key\n"
    )

    def make(**params):
        op = {"type": "ask_first", "file": f"{tmp_path}/asked for/it", **params}
        return build_pipeline(load_dataset(yaml), [op], plugins=("sidecar_runtimes.testing.ops",))

    return make


def test_an_op_may_refuse_a_run_before_anything_is_read(tmp_path, out, asking):
    with pytest.raises(RefusedError, match=r"asked for/it is not there(.|\n)*touch"):
        prepare_run(asking(), RunOptions(output_prefix=str(out)))  # not even the main dataset is there
    write_main(tmp_path / "main", {"part-0.parquet": [b"x"]})
    (tmp_path / "asked for").mkdir()
    (tmp_path / "asked for/it").touch()
    assert run(asking(), out).ok


def test_what_an_op_remarks_is_logged_and_in_the_manifest(tmp_path, out, asking, caplog):
    write_main(tmp_path / "main", {"part-0.parquet": [b"x"]})
    report = run(asking(insist=False), out)
    manifest = json.loads((out / f"_sidecar/runs/{report.run_id}.json").read_text())
    assert manifest["remarks"] == [f"operations[0] (ask_first): without {tmp_path}/asked for/it"]
    assert manifest["remarks"][0] in caplog.text
