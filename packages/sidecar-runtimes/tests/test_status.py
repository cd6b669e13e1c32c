from __future__ import annotations

import json

import pytest
from sidecar_core.errors import StorageNotFoundError
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import write_main
from sidecar_runtimes.lease import LeaseOptions, RunLeases
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run
from sidecar_runtimes.status import output_status

SHARDS = {f"part-{n}.parquet": [b"x", None] for n in range(4)}


@pytest.fixture
def output(tmp_path, make_pipeline):
    """An output with three good shards, one of which came later, and one failed one."""
    write_main(tmp_path / "main", SHARDS)
    (tmp_path / "main/part-2.parquet").write_bytes(b"no parquet")
    for limit in (1, None):
        options = RunOptions(output_prefix=f"{tmp_path}/out", workers=1, skip_existing=True, limit=limit)
        execute_run(prepare_run(make_pipeline(), options))
    return open_storage(f"{tmp_path}/out/")


def edit_last_manifest(output, **changed):
    path = max(info.rel_path for info in output.list_objects("_sidecar/runs/"))
    manifest = {**json.loads(output.read_bytes(path)), **changed}
    output.write_bytes(path, json.dumps(manifest).encode())
    return manifest


def test_what_the_last_run_did(output):
    found = output_status(output)
    assert (found.shards, found.bytes > 0, found.complete, found.lease) == (3, True, False, None)
    last, first = found.runs
    assert (last.state, first.state) == ("failed", "done")
    assert last.shards == {"total": 4, "done": 2, "skipped": 1, "failed": 1}
    assert (last.rows, last.invalid, last.runtime) == (4, {"missing": 2}, "local")
    assert last.rows_per_s > 0
    assert last.eta_s is None
    assert [each["shard"] for each in found.failed_shards] == ["part-2.parquet"]


def test_a_run_that_replaces_what_was_there_says_so(output, tmp_path, make_pipeline):
    assert not any(run.replaces for run in output_status(output).runs)
    overwriting = RunOptions(output_prefix=f"{tmp_path}/out", workers=1, overwrite=True)
    execute_run(prepare_run(make_pipeline(), overwriting), command=["a program without flags"])
    assert output_status(output).runs[0].replaces
    elsewhere = RunOptions(output_prefix=f"{tmp_path}/new", workers=1, overwrite=True)
    execute_run(prepare_run(make_pipeline(), elsewhere), command=["sidecar", "run", "--overwrite"])
    assert not output_status(open_storage(f"{tmp_path}/new/")).runs[0].replaces


def test_shards_that_no_manifest_knows_are_counted(output, tmp_path):
    (tmp_path / "out/of-another.parquet").write_bytes(b"1234")
    assert output_status(output).shards == 4


def test_a_run_that_goes_on_and_one_that_died(output):
    manifest = edit_last_manifest(
        output, outcome="running", elapsed_s=2.0, shards={"total": 10, "done": 2, "skipped": 0, "failed": 0}
    )
    assert output_status(output).runs[0].state == "died"
    with RunLeases(manifest["run_id"], [output], LeaseOptions()):
        found = output_status(output)
        assert found.runs[0].state == "running"
        assert found.runs[0].shards_per_s == 1.0
        assert 0 <= found.runs[0].eta_s <= 8
        assert found.lease.run_id == manifest["run_id"]
        assert not found.lease_is_stale
    with RunLeases("another", [output], LeaseOptions()):
        assert output_status(output).runs[0].state == "died"


def test_a_complete_output_and_one_that_a_run_is_changing(output, tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"part-2.parquet": [b"mended"]})
    options = RunOptions(output_prefix=f"{tmp_path}/out", workers=1, skip_existing=True)
    execute_run(prepare_run(make_pipeline(), options))
    assert output_status(output).complete
    assert output_status(output).failed_shards == ()


def test_complete_is_what_was_there_then_and_is_there_now(output, tmp_path, make_pipeline):
    assert (output_status(output).completed, output_status(output).completeness()) == (None, "not marked so")
    write_main(tmp_path / "main", {"part-2.parquet": [b"mended"]})
    options = RunOptions(output_prefix=f"{tmp_path}/out", workers=1, skip_existing=True)
    run_id = execute_run(prepare_run(make_pipeline(), options)).run_id
    found = output_status(output)
    assert (found.complete, found.completed.run_id, found.completed.shards) == (True, run_id, 4)
    then = f"when run {run_id} ended, at {found.completed.written}"
    assert found.completeness() == f"all 4 shards of the main dataset were there {then}"
    (tmp_path / "out/part-1.parquet").write_bytes(b"")
    again = output_status(output)
    assert (again.complete, again.completed) == (False, found.completed)
    assert again.completeness() == f"no longer: fewer are there than the 4 shards {then}"
    for strange in (b"", b"{}", b"[]", b'{"run_id": "r", "shards": [], "written": ""}', b"\xff", b"[" * 100_000):
        output.write_bytes("_sidecar/SUCCESS", strange)
        assert (output_status(output).complete, output_status(output).completed) == (False, None)


def test_a_run_folder_with_strange_files(output):
    output.write_bytes("_sidecar/runs/zz.json", b"no json")
    output.write_bytes("_sidecar/runs/zzz.json", b"{}")
    output.write_bytes("_sidecar/failed_shards.jsonl", b"no json")
    found = output_status(output)
    assert len(found.runs) == 2
    assert found.failed_shards == ()


def test_nothing_there(tmp_path):
    with pytest.raises(StorageNotFoundError):
        output_status(open_storage(f"{tmp_path}/nowhere/"))
