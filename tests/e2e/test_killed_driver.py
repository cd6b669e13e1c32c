"""SIGKILL of the driver while it builds both resized datasets; SIDECAR_KILLS says how often (default 3)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from sidecar_core.isolation import submit_call
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_resize.testing.pictures import encoded_scene

KILLS = int(os.environ.get("SIDECAR_KILLS", "3"))


@pytest.fixture
def command(tmp_path):
    """The command line of the build, without its outputs."""
    picture = submit_call(encoded_scene, 640, 480, "JPEG")
    write_main(
        tmp_path / "main", {f"part-{number}.parquet": [picture, None, b"no picture", picture] for number in range(12)}
    )
    return [
        sys.executable,
        "-m",
        "sidecar_cli.main",
        "build-resized",
        "--main-prefix",
        str(tmp_path / "main"),
        "--workers",
        "2",
    ]


def outputs(folder):
    return ["--target", f"512={folder}/r512", "--target", f"1024={folder}/r1024", "--skip-existing"]


@pytest.mark.slow
def test_nothing_partial_and_nothing_lost(tmp_path, command):
    started = time.monotonic()
    subprocess.run([*command, *outputs(tmp_path / "whole")], check=True, capture_output=True, timeout=200)
    duration_s = time.monotonic() - started
    whole = {side: read_dataset(tmp_path / "whole" / side) for side in ("r512", "r1024")}
    moments = random.Random(2)
    for kill in range(KILLS):
        folder = tmp_path / f"killed-{kill}"
        with subprocess.Popen(
            [*command, *outputs(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(moments.uniform(0.2, 1.0) * duration_s)
            process.send_signal(signal.SIGKILL)
        for side, expected in whole.items():
            made = read_dataset(folder / side) if (folder / side).exists() else {}
            assert all(table.equals(expected[rel_path]) for rel_path, table in made.items())
        subprocess.run([*command, *outputs(folder)], check=True, capture_output=True, timeout=200)
        for side, expected in whole.items():
            assert read_dataset(folder / side) == expected
            assert not list((folder / side / "_sidecar").glob("tmp/*"))
