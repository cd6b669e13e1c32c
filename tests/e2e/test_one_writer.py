"""Two people build the same dataset: one writes, the other is told who, and goes on when the first is ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from sidecar_core.isolation import submit_call
from sidecar_core.testing.datasets import write_main
from sidecar_resize.testing.pictures import encoded_scene

SHARDS = 60  # so many that the first build goes on while others look at it
BUILD = ("build-0-262mp", "--main-prefix", "main", "--output-prefix", "out", "--workers", "1", "--skip-existing")


@pytest.fixture
def main(tmp_path):
    picture = submit_call(encoded_scene, 640, 480, "JPEG")
    return write_main(tmp_path / "main", {f"part-{number}.parquet": [picture] * 8 for number in range(SHARDS)})


@pytest.mark.usefixtures("main")
def test_a_second_build_is_refused_and_goes_on_when_the_first_gets_sigterm(sidecar, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "sidecar_cli.main", *BUILD], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as first:
        while not list((tmp_path / "out").glob("*.parquet")):
            assert first.poll() is None
            time.sleep(0.02)
        refused = sidecar(*BUILD, status=3)
        assert f"process {first.pid} on " in refused.stderr
        assert "--wait-lease" in refused.stderr
        status = json.loads(sidecar("status", "out", "--json").stdout)
        assert status["runs"][0]["state"] == "running"
        assert status["lease"]["pid"] == first.pid
        first.send_signal(signal.SIGTERM)
        said = first.communicate(timeout=60)[1]
    assert first.returncode == 130, said
    assert "--skip-existing" in said
    assert not (tmp_path / "out/_sidecar/lease.json").exists()
    assert not (tmp_path / "out/_sidecar/SUCCESS").exists()
    assert json.loads(sidecar("status", "out", "--json").stdout)["runs"][0]["state"] == "interrupted"
    sidecar(*BUILD)
    status = json.loads(sidecar("status", "out", "--json").stdout)
    assert (status["shards"], status["complete"], status["lease"]) == (SHARDS, True, None)


@pytest.mark.usefixtures("main")
def test_stale_shards_are_kept_or_made_again_as_told(sidecar, tmp_path):
    limited = (*BUILD, "--limit", "2")
    sidecar(*limited)
    other = (*limited, "--quality", "50")
    assert "--redo-stale" in sidecar(*other, status=3).stderr
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.parquet")}
    kept = json.loads(sidecar(*other, "--keep-stale", "--dry-run", "--json").stdout)
    assert (kept["skipped"], kept["states"]["stale"]) == (2, 2)
    trusted = json.loads(sidecar(*other, "--trust-listing", "--dry-run", "--json").stdout)
    assert (trusted["skipped"], trusted["states"]["stale"]) == (2, 0)
    sidecar(*other, "--redo-stale")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.parquet")}
    assert before.keys() == after.keys()
    assert all(after[name] != before[name] for name in before)
