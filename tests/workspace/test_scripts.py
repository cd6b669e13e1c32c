"""The scripts that people and CI call are there, run as they are, and name each other rightly."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    ROOT / name
    for name in ("sidecar", ".ci/run", *sorted(str(p) for each in ("ci", "deploy") for p in ROOT.glob(f"{each}/*.sh")))
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_parses_and_can_be_run(script):
    shell = "bash" if "bash" in script.read_text().splitlines()[0] or script.name == "steps.sh" else "sh"
    subprocess.run([shell, "-n", script], check=True)
    assert script.name == "steps.sh" or os.access(script, os.X_OK)


WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}
PACKAGES = sorted(path.name.removeprefix("sidecar-") for path in ROOT.glob("packages/sidecar-*"))


def test_ci_run_and_the_workflows_call_the_same_scripts():
    def called(*paths):
        return set(re.findall(r"ci/\w+\.sh", "".join(path.read_text() for path in paths))) - {"ci/uv.sh"}

    on_changes = [path for name, path in WORKFLOWS.items() if name not in ("release", "images")]
    expected = {"ci/package.sh", "ci/workspace.sh", "ci/test.sh", "ci/chromium.sh"}
    assert called(ROOT / ".ci" / "run") == called(*on_changes) == expected


def test_ci_run_and_the_workflows_do_every_step_of_a_package():
    usage = (ROOT / "ci" / "package.sh").read_text().partition("set -euo")[0]
    steps = set(re.findall(r"^#   (\w+) +\S", usage, re.MULTILINE))
    assert steps == {"deps", "slim", "tests", "contents", "wheel", "floors"}
    in_workflow = set(
        " ".join(re.findall(r"ci/package\.sh \S+ \S+ \S+ (.*)", WORKFLOWS["package"].read_text())).split()
    )
    assert in_workflow | {"contents"} == steps  # it is the first part of wheel
    (in_run,) = re.findall(r'ci/package\.sh "\$package" ([\w ]+?) >', (ROOT / ".ci" / "run").read_text())
    assert set(in_run.split()) == steps - {"tests", "wheel"}  # ci/test.sh runs all tests


def test_each_workflow_is_valid_yaml_with_limits():
    for path in WORKFLOWS.values():
        workflow = yaml.safe_load(path.read_text())
        for job in workflow["jobs"].values():
            assert "uses" in job or job["timeout-minutes"] <= 60, path.name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_checked_when_it_or_what_it_depends_on_changes(package):
    workflow = yaml.safe_load(WORKFLOWS[package].read_text())
    (job,) = workflow["jobs"].values()
    assert job["uses"] == "./.github/workflows/package.yml"
    assert job["with"]["package"] == package
    declared = tomllib.loads((ROOT / "packages" / f"sidecar-{package}" / "pyproject.toml").read_text())
    needed = {re.match(r"[\w-]+", each)[0] for each in declared["project"]["dependencies"] if "sidecar-" in each}
    on = workflow[True]  # YAML's word for yes
    for event in ("push", "pull_request"):
        folders = {path.removesuffix("/**") for path in on[event]["paths"] if path.startswith("packages/")}
        assert folders == {f"packages/{name}" for name in (f"sidecar-{package}", *needed)}
        assert {"ci/**", "pyproject.toml"} < set(on[event]["paths"])


def test_the_readme_starts_with_commands_that_exist():
    commands = re.findall(r"(?:^|`)(\./sidecar|ci/\w+\.sh)\b", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert list(dict.fromkeys(commands))[:2] == ["./sidecar", "ci/test.sh"]
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
