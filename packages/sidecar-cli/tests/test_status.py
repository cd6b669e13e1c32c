"""`status`: of outputs that runs left, and of one that a run holds."""

from __future__ import annotations

import json

from sidecar_core.storage import open_storage
from sidecar_runtimes.lease import LeaseOptions, RunLeases


def test_of_a_complete_output(sidecar, sidecar_here, team):
    assert sidecar_here("run", team.pipeline, "--output-prefix", "out").returncode == 0
    shown = sidecar("status", "out")
    assert shown.returncode == 0, shown.stderr
    words = " ".join(shown.stdout.split())
    assert "shards there 2 (" in words
    assert "complete yes: every shard of the main dataset is there" in words
    assert "writer nobody" in words
    assert "shards 2 of 2: 2 done, 0 skipped, 0 failed" in words
    found = json.loads(sidecar_here("status", "out", "--json").stdout)
    assert (found["shards"], found["complete"], found["lease"]) == (2, True, None)
    assert found["runs"][0]["state"] == "done"


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
