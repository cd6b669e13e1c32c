from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress

import pytest
from sidecar_core.outcome import ShardReport
from sidecar_core.testing.datasets import write_main
from sidecar_runtimes import manifest as module
from sidecar_runtimes.manifest import RunManifest, RunTally
from sidecar_runtimes.run import RunOptions, prepare_run


@pytest.fixture
def prepared(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"a.parquet": [b"x"]})
    return prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "out")))


@pytest.fixture
def make_manifest(prepared):
    def make():
        return RunManifest(
            prepared.plan, prepared.outputs, RunTally(planned=1), runtime={"name": "test"}, command=["x"]
        )

    return make


def block(folder):
    """Lets nothing be written into the folder of manifests, whoever tries, and may be trying already."""
    runs = folder / "out/_sidecar/runs"
    while not runs.is_file():
        shutil.rmtree(runs, ignore_errors=True)
        with suppress(IsADirectoryError):
            runs.write_text("a file where a folder should be")


def outcome(folder, prepared):
    return json.loads((folder / f"out/_sidecar/runs/{prepared.plan.run_id}.json").read_text())["outcome"]


@pytest.mark.parametrize(("error", "recorded"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_how_a_run_ended_is_recorded(tmp_path, prepared, make_manifest, error, recorded):
    def fail():
        with make_manifest():
            assert outcome(tmp_path, prepared) == "running"
            raise error

    with pytest.raises(error):
        fail()
    assert outcome(tmp_path, prepared) == recorded


def test_a_manifest_that_cannot_be_written_hides_no_other_error(tmp_path, make_manifest, caplog):
    def interrupt():
        with make_manifest():
            block(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert "cannot write it" in caplog.text


def test_a_manifest_that_cannot_be_written_at_the_end_is_a_problem_of_the_run(tmp_path, make_manifest, caplog):
    with make_manifest() as manifest:
        block(tmp_path)
        manifest.finish("done")
    assert "cannot write it" in manifest.problem
    assert "cannot write it" in caplog.text


def test_a_manifest_that_cannot_be_written_in_between_is_said(tmp_path, prepared, make_manifest, caplog, monkeypatch):
    monkeypatch.setattr(module, "_WRITE_EVERY_S", 0.001)
    with make_manifest() as manifest:
        block(tmp_path)
        while "cannot write it" not in caplog.text:
            time.sleep(0.001)
        (tmp_path / "out/_sidecar/runs").unlink()
        manifest.finish("done")
    assert outcome(tmp_path, prepared) == "done"


def test_names_that_are_not_utf8_are_kept(tmp_path, prepared):
    odd = "caf\udce9"  # how Python reads a name in Latin-1
    tally = RunTally(planned=1)
    tally.add(ShardReport(f"{odd}.parquet", "failed", error_type="ShardError", error=f"/{odd}: unreadable", attempts=1))
    with RunManifest(prepared.plan, prepared.outputs, tally, runtime={"name": "test"}, command=["x", odd]):
        pass
    folder = tmp_path / "out/_sidecar"
    text = (folder / f"runs/{prepared.plan.run_id}.json").read_text(encoding="utf-8")
    assert json.loads(text)["command"] == ["x", odd]
    (failed,) = (folder / "failed_shards.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(failed)["shard"] == f"{odd}.parquet"
    assert json.loads(failed)["error"] == f"/{odd}: unreadable"
