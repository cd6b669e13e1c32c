"""The commands in the templates of jobs are ones that `sidecar-run` takes."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sidecar_cli.jobs.placeholders import example_values, fill

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted(path for kind in ("kuberay", "utp") for path in (ROOT / "deploy" / kind).glob("*.yaml"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_command_of_a_job_gets_as_far_as_its_dataset(path, tmp_path):
    """With the image's configs in place it ends at the main dataset, which is not there: exit 2, and it names that."""
    values = {
        **example_values(),
        "MAIN_PREFIX": f"{tmp_path}/main/",
        "OUTPUT_PREFIX": f"{tmp_path}/out/",
        "OUTPUT_512": f"{tmp_path}/512/",
        "OUTPUT_1024": f"{tmp_path}/1024/",
        "PIPELINE": "resized.yaml" if path.name == "resize.yaml" else "filters_v1.yaml",
    }
    job = yaml.safe_load(fill(path.read_text(encoding="utf-8"), values))
    entrypoint = job["spec"]["entrypoint"] if "spec" in job else job["entrypoint"]
    program, *words = shlex.split(entrypoint.replace("/app/configs/", f"{ROOT}/configs/"))
    assert program == "sidecar-run"
    (tmp_path / "main").mkdir()
    command = [sys.executable, "-m", "sidecar_runtimes.sidecar_run", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"no shards at {tmp_path}/main/" in done.stderr


def test_the_checker_passes_every_template():
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/check.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("to replace") == len(TEMPLATES)


def test_the_checker_names_what_is_wrong_and_goes_on(tmp_path):
    (tmp_path / "wrong.yaml").write_bytes(b"\xff")
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/check.py", tmp_path / "wrong.yaml", tmp_path / "none.yaml", TEMPLATES[0]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "wrong.yaml:1:1: byte 0xff is not UTF-8" in done.stderr
    assert "none.yaml: no such file" in done.stderr
    assert f"{TEMPLATES[0]}: " in done.stdout
