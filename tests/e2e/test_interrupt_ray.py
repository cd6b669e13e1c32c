"""A few hits of interrupt_ray.py; the script itself makes as many as one asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


def test_a_signal_while_ray_starts_ends_the_run_with_130():
    script = Path(__file__).with_name("interrupt_ray.py")
    command = [sys.executable, str(script), "--hits", "4", "--seed", "5"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
