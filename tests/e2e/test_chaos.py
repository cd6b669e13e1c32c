"""A few runs of chaos.py; the script itself makes as many as one asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and limits other processes"),
]


@pytest.mark.parametrize(
    ("store", "faults"),
    [
        ("disk", ["kill_driver", "kill_child", "full_disk", "full_tmpfs"]),
        ("s3", ["kill_driver", "sigterm", "network_cut", "lost_answers"]),
    ],
)
def test_nothing_is_lost_partial_or_there_twice(store, faults):
    script = Path(__file__).with_name("chaos.py")
    command = [sys.executable, str(script), "--runs", str(len(faults)), "--seed", "3", "--stores", store]
    ran = subprocess.run([*command, "--faults", *faults], capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
