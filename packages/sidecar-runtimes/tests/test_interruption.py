"""The driver is killed at a random moment; nothing partial is left, and the next run completes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from sidecar_core.footer import read_footer
from sidecar_core.pipeline import load_pipeline
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

DRIVER = """
import sys
from sidecar_core.pipeline import load_pipeline
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run
options = RunOptions(output_prefix=sys.argv[2], workers=2, skip_existing=True)
print("go", flush=True)
execute_run(prepare_run(load_pipeline(sys.argv[1]), options))
"""
SHARDS = {f"part-{n}.parquet": [b"x" * k for k in range(40)] for n in range(8)}


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
        "operations:\n  - {type: measure_bytes, delay_s: 0.002}\n"
    )
    return path


def start(pipeline_file, out):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(pipeline_file), str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"go\n"
    return process


def children_of(pid):
    """Pids of processes whose parent is `pid`, from /proc or ps."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(child) for child, parent in (line.split() for line in listing.splitlines()) if int(parent) == pid]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(status.strip()) and not status.strip().startswith("Z")


def test_a_killed_driver_leaves_nothing_partial_and_the_next_run_completes(tmp_path, pipeline_file):
    out = tmp_path / "out"
    whole = tmp_path / "whole"
    pipeline = load_pipeline(pipeline_file)
    started = time.monotonic()
    execute_run(prepare_run(pipeline, RunOptions(output_prefix=str(whole), workers=2)))
    duration = time.monotonic() - started
    expected = read_dataset(whole)
    moments = random.Random(7)
    for _ in range(6):
        process = start(pipeline_file, out)
        time.sleep(moments.uniform(0, duration))
        children = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        for _ in range(50):
            if not any(is_running(child) for child in children):
                break
            time.sleep(0.1)
        assert not [child for child in children if is_running(child)]
        storage = open_storage(f"{out}/", pipeline.dataset.storage)
        for rel_path, table in (read_dataset(out) if out.exists() else {}).items():
            assert table.equals(expected[rel_path])
            assert read_footer(storage, rel_path) is not None
        if len(list(out.glob("*.parquet"))) == len(SHARDS):
            break
    report = execute_run(prepare_run(pipeline, RunOptions(output_prefix=str(out), workers=2, skip_existing=True)))
    assert report.ok
    assert read_dataset(out) == expected
    assert not list((out / "_sidecar").glob("tmp/*"))


def test_ctrl_c_leaves_nothing_partial_and_records_the_run(tmp_path, pipeline_file):
    out = tmp_path / "out"
    process = start(pipeline_file, out)
    deadline = time.monotonic() + 30
    while not list(out.glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) != 0
    made = read_dataset(out)
    assert made
    assert all(table.num_rows == 40 for table in made.values())
    (manifest,) = (out / "_sidecar/runs").glob("*.json")
    assert '"interrupted"' in manifest.read_text() or len(made) == len(SHARDS)
