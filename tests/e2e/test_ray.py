"""Ray runs that lose a node, or their driver; and Ray under `uv run`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sidecar_core.testing.datasets import read_dataset, write_main

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SHARDS = {f"part-{n:02}.parquet": [b"x" * k for k in range(40)] for n in range(12)}
SETTINGS = {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": ""}
LOSE_A_NODE = """
import json, sys, threading, time
from pathlib import Path
from sidecar_runtimes.ray_cluster import load_ray
load_ray()
from ray.cluster_utils import Cluster
from sidecar_core.pipeline import load_pipeline
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

pipeline, out, runtime = sys.argv[1:]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 * 2**20})
node = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
cluster.wait_for_nodes()


class KillsTheNode(SilentObserver):
    seen = 0

    def shard_finished(self, report):
        self.seen += 1
        if self.seen == 4:
            threading.Thread(target=cluster.remove_node, args=(node,), kwargs={"allow_graceful": False}).start()


options = RunOptions(output_prefix=out, runtime=runtime, workers=1, ray_address=cluster.address)
report = execute_run(prepare_run(load_pipeline(pipeline), options), observer=KillsTheNode())
Path(out, "report.json").write_text(json.dumps([dict(report.shards), [failed.error for failed in report.failed]]))
cluster.shutdown()
"""


@pytest.fixture
def pipeline_file(tmp_path):
    write_main(tmp_path / "main", SHARDS)
    (tmp_path / "dataset.yaml").write_text(
        f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/yaml-out/\n"
        "key_column: image_key\nimage_column: image\n"
    )
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "dataset: dataset.yaml\nplugins: [sidecar_core.testing.ops]\n"
        "operations:\n  - {type: measure_bytes, delay_s: 0.01}\n"
    )
    return path


@pytest.fixture
def expected(sidecar, pipeline_file, tmp_path):
    sidecar("run", pipeline_file, "--output-prefix", tmp_path / "whole", "--runtime", "local", "--workers", 1)
    return read_dataset(tmp_path / "whole")


def start(pipeline_file, out, *more):
    return subprocess.Popen(
        [*(sys.executable, "-m", "sidecar_cli.main", "run", str(pipeline_file), "--output-prefix", str(out)), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **SETTINGS},
        start_new_session=True,
        # a shell's background jobs, and their children, begin with Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def wait_for_shards(process, out, number):
    deadline = time.monotonic() + 120
    while len(list(out.glob("*.parquet"))) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def below(pid):
    """Returns pid and command of all processes below a process."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    processes = [line.split(None, 2) for line in listing.splitlines()]
    found, waiting = {}, [str(pid)]
    while waiting:
        parent = waiting.pop()
        for child, of, *command in processes:
            if of == parent:
                found[child] = " ".join(command)
                waiting.append(child)
    return found


def still_there(processes):
    asked = ["ps", "-o", "pid=,stat=,args=", "-p", ",".join(processes)]
    lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in lines if not line.split()[1].startswith("Z")]


def assert_all_end(processes):
    deadline = time.monotonic() + 150  # Ray's own agents take up to 90 s to notice
    while still_there(processes) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not still_there(processes)


@pytest.mark.parametrize("runtime", ["ray", "actor"])
def test_the_shards_of_a_node_that_is_lost_are_made_elsewhere(pipeline_file, expected, tmp_path, runtime):
    out = tmp_path / "out"
    ran = subprocess.run(
        [sys.executable, "-c", LOSE_A_NODE, str(pipeline_file), str(out), runtime],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, **SETTINGS},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    shards, errors = json.loads((out / "report.json").read_text())
    assert shards == {"done": 12, "skipped": 0, "failed": 0, "not_reached": 0}, errors
    assert read_dataset(out) == expected


@pytest.mark.parametrize("runtime", ["ray", "actor"])
def test_a_killed_driver_leaves_no_process_and_can_be_resumed(sidecar, pipeline_file, expected, tmp_path, runtime):
    out = tmp_path / "out"
    process = start(pipeline_file, out, "--runtime", runtime)
    wait_for_shards(process, out, 2)
    processes = below(process.pid)
    assert any("raylet" in command for command in processes.values())
    process.kill()
    process.communicate()
    assert_all_end(processes)
    made = read_dataset(out)
    assert 2 <= len(made) < len(SHARDS)
    assert all(table.equals(expected[rel_path]) for rel_path, table in made.items())
    sidecar("run", pipeline_file, "--output-prefix", out, "--runtime", "local", "--skip-existing")
    assert read_dataset(out) == expected
    assert not list((out / "_sidecar").glob("tmp/*"))


@pytest.mark.parametrize(("runtime", "number"), [("ray", signal.SIGINT), ("actor", signal.SIGTERM)])
def test_ctrl_c_ends_with_130_and_leaves_nothing_behind(pipeline_file, expected, tmp_path, runtime, number):
    out = tmp_path / "out"
    process = start(pipeline_file, out, "--runtime", runtime)
    wait_for_shards(process, out, 2)
    processes = below(process.pid)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert_all_end(processes)
    made = read_dataset(out)
    assert all(table.equals(expected[rel_path]) for rel_path, table in made.items())
    assert not list((out / "_sidecar").glob("tmp/*"))
    (manifest,) = (out / "_sidecar/runs").glob("*.json")
    assert json.loads(manifest.read_text())["outcome"] == "interrupted"


def test_under_uv_run_workers_use_this_environment_quietly(pipeline_file, expected, tmp_path):
    """Offline, Ray's workers have nothing to install, and the terminal shows our lines only."""
    uv = shutil.which("uv")
    assert uv, "uv runs this repository"
    root = Path(__file__).resolve().parents[2]
    out = tmp_path / "out"
    command = ["run", "--no-sync", "--offline", "--project", str(root), "sidecar", "run", str(pipeline_file)]
    ran = subprocess.run(
        [uv, *command, "--output-prefix", str(out), "--use-ray", "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "VIRTUAL_ENV"))},
            "UV_CACHE_DIR": str(tmp_path / "empty-cache"),  # an install would find nothing here
            "RAY_TMPDIR": str(tmp_path / "r") if len(str(tmp_path)) < 40 else "/tmp",
        },
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["shards"]["done"] == len(SHARDS)
    ours = ("Shard progress:", "Runtime: ray:", "warning: Ray did not start, trying again:")
    assert [line for line in ran.stderr.splitlines() if not line.startswith(ours)] == []
    assert read_dataset(out) == expected
