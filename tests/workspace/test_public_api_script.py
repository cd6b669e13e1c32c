"""`ci/public_api.py` writes what the packages offer to Python, and finds what is not current."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path):
    """Returns a folder with the script and what it writes."""
    made = [*ROOT.glob("docs/api/*"), ROOT / "ci/public_api.py", ROOT / "ci/api_reader.py"]
    for path in made:
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return tmp_path


def run(folder, *arguments):
    command = [sys.executable, folder / "ci/public_api.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_is_committed_is_current(copy):
    done = run(copy, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("path", ["docs/api/sidecar-core.md", "docs/api/sidecar-resize.txt"])
def test_what_is_not_current_is_shown_and_mended(copy, path):
    file = copy / path
    current = file.read_text(encoding="utf-8")
    file.write_text(current.replace("class ", "klass ", 1), encoding="utf-8")
    shown = run(copy, "--check")
    assert shown.returncode == 1
    assert f"--- {path}" in shown.stderr
    assert "-klass " in shown.stderr
    assert "fix: uv run python ci/public_api.py" in shown.stderr
    assert run(copy).returncode == 0
    assert file.read_text(encoding="utf-8") == current


def test_a_name_without_a_topic_is_named(copy):
    script = copy / "ci/public_api.py"
    script.write_text(script.read_text(encoding="utf-8").replace("null_scalar_for ", ""), encoding="utf-8")
    done = run(copy, "--check")
    assert done.returncode == 1
    assert "TOPICS of sidecar-core in ci/public_api.py do not fit its public names: null_scalar_for" in done.stderr
