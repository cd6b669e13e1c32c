"""`status`: of outputs that runs left, and of one that a run holds."""

from __future__ import annotations

import json

import pytest
from sidecar_core.storage import open_storage
from sidecar_runtimes.lease import LeaseOptions, RunLeases


def test_of_a_complete_output(sidecar, sidecar_here, team):
    assert sidecar_here("run", team.pipeline, "--output-prefix", "out").returncode == 0
    shown = sidecar("status", "out")
    assert shown.returncode == 0, shown.stderr
    words = " ".join(shown.stdout.split())
    assert "shards there 2 (" in words
    run = json.loads((team.root / "out/_sidecar/SUCCESS").read_text())
    then = f"when run {run['run_id']} ended, at {run['written']}"
    assert f"complete all 2 shards of the main dataset were there {then} writer" in words
    assert "writer nobody" in words
    assert "shards 2 of 2: 2 done, 0 skipped, 0 failed" in words
    found = json.loads(sidecar_here("status", "out", "--json").stdout)
    assert (found["shards"], found["complete"], found["completed"], found["lease"]) == (2, True, run, None)
    assert found["runs"][0]["state"] == "done"


def test_of_an_output_that_was_complete(sidecar_here, team):
    assert sidecar_here("run", team.pipeline, "--output-prefix", "out").returncode == 0
    run = json.loads((team.root / "out/_sidecar/SUCCESS").read_text())
    (team.root / "out/deep/part-1.parquet").unlink()
    words = " ".join(sidecar_here("status", "out").stdout.split())
    assert f"complete no longer: fewer are there than the 2 shards when run {run['run_id']} ended, at " in words
    found = json.loads(sidecar_here("status", "out", "--json").stdout)
    assert (found["shards"], found["complete"], found["completed"]) == (1, False, run)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "the same command with --skip-existing goes on"),
        ({"replaces": True}, "the same command begins anew"),
        ({"kind": "retry"}, "the same command goes on"),
    ],
    ids=["run", "overwrite", "retry"],
)
@pytest.mark.parametrize("outcome", ["running", "interrupted"])
def test_how_a_run_that_ended_early_goes_on(sidecar_here, team, changed, said, outcome):
    assert sidecar_here("run", team.pipeline, "--output-prefix", "out", "--limit", "1").returncode == 0
    (manifest,) = (team.root / "out/_sidecar/runs").iterdir()
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "outcome": outcome, **changed}))
    ended = "interrupted" if outcome == "interrupted" else "died without a word"
    assert f"state {ended}; {said} started" in " ".join(sidecar_here("status", "out").stdout.split())


def test_of_failed_shards_and_runs_before(sidecar_here, team):
    (team.main / "deep/part-0.parquet").write_bytes(b"no parquet")
    for _ in range(2):
        assert sidecar_here("run", team.pipeline, "--output-prefix", "out", "--skip-existing").returncode == 1
    shown = sidecar_here("status", "out").stdout
    assert "deep/part-0.parquet" in shown
    assert "ended with failures" in shown
    assert "Runs before" in shown
    assert "not marked so" in shown


def test_of_an_output_that_is_being_written(sidecar_here, team):
    assert sidecar_here("run", team.pipeline, "--output-prefix", "out").returncode == 0
    with RunLeases("20300101T000000Z-abcdef", [open_storage(f"{team.root}/out/")], LeaseOptions()):
        assert "run 20300101T000000Z-abcdef (process " in sidecar_here("status", "out").stdout
        refused = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--skip-existing")
        assert refused.returncode == 3
        assert "held by run 20300101T000000Z-abcdef" in refused.stderr
        dry = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--skip-existing", "--dry-run", "--json")
        assert "held by run" in json.loads(dry.stdout)["refused"]
        stolen = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--skip-existing", "--steal-lease")
        assert stolen.returncode == 0
        assert "stealing the lease" in stolen.stderr


def test_nothing_there_is_an_error(sidecar_here, tmp_path):
    refused = sidecar_here("status", "nowhere")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"nothing is at {tmp_path}/nowhere/")
