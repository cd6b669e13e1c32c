"""The scripts that people and CI call are there, run as they are, and name each other rightly."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [ROOT / name for name in ("sidecar", ".ci/run", *sorted(str(p) for p in ROOT.glob("ci/*.sh")))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_parses_and_can_be_run(script):
    shell = "bash" if "bash" in script.read_text().splitlines()[0] or script.name == "steps.sh" else "sh"
    subprocess.run([shell, "-n", script], check=True)
    assert script.name == "steps.sh" or os.access(script, os.X_OK)


def test_ci_run_and_the_workflow_call_the_same_scripts():
    called = {}
    for path in (ROOT / ".ci" / "run", ROOT / ".github" / "workflows" / "ci.yml"):
        called[path.name] = set(re.findall(r"ci/\w+\.sh", path.read_text())) - {"ci/uv.sh"}
    assert called["run"] == called["ci.yml"] == {"ci/package.sh", "ci/workspace.sh", "ci/test.sh"}


def test_the_readme_starts_with_commands_that_exist():
    commands = re.findall(r"^\$? ?(\./sidecar|ci/\w+\.sh)\b", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["./sidecar", "ci/test.sh"]
    assert all((ROOT / command).is_file() for command in commands)


@pytest.mark.parametrize("arguments", [["--no-such-option"], [], ["no-such-package"], ["core", "no-such-step"]])
def test_package_script_refuses_what_it_does_not_know(arguments):
    result = subprocess.run([ROOT / "ci" / "package.sh", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr


def test_a_failing_step_fails_the_script_and_shows_its_output(tmp_path):
    script = tmp_path / "try.sh"
    script.write_text(
        "set -euo pipefail\n"
        f". '{ROOT}/ci/steps.sh'\n"
        "good() { echo quiet; }\n"
        "bad() { echo shown; false; echo not reached; }\n"
        "step one good\nstep two bad\nstep three good\nfinish all\n"
    )
    result = subprocess.run(["bash", script], capture_output=True, text=True, check=False)
    lines = [re.sub(r" \(.*", "", line) for line in result.stdout.splitlines()]
    assert lines == ["ok    one", "shown", "FAIL  two", "ok    three", "FAIL  all"]
    assert result.returncode == 1


def test_without_uv_and_without_pip_the_message_says_what_to_install(tmp_path):
    for tool in ("dirname", "sh"):
        found = subprocess.run(["which", tool], capture_output=True, text=True, check=True).stdout.strip()
        (tmp_path / tool).symlink_to(found)
    clone = tmp_path / "clone"
    (clone / "ci").mkdir(parents=True)
    (clone / "ci" / "uv.sh").write_text((ROOT / "ci" / "uv.sh").read_text())
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [tmp_path / "sh", clone / "ci" / "uv.sh", "--version"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "neither uv nor a python3 with pip" in result.stderr
    assert "fix:" in result.stderr
