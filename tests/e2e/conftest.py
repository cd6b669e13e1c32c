from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).resolve().parents[3] / "shared/corpus"


@pytest.fixture
def sidecar(tmp_path):
    """Returns a function that runs the program in a process of its own, in an empty folder."""

    def run(*arguments, env=None, status=0):
        done = subprocess.run(
            [sys.executable, "-m", "sidecar_cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            check=False,
        )
        assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def corpus():
    """The folder of broken and odd pictures beside the repository."""
    if not CORPUS.is_dir():
        pytest.skip(f"no corpus at {CORPUS}")
    return CORPUS
