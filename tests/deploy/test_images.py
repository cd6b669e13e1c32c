"""Each image's install steps, done as its Dockerfile says them, in a fresh environment; then its smoke job there."""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
IMAGES = ("cpu", "filters", "resize")
TAKES_JOBS = "ray[default]"

# What an image must not hold, and the largest its environment may be.
LEAVES_OUT = {
    "resize": ("cv2", "numpy", "ray", "rich", "typer"),
    "filters": ("ray", "rich", "typer", "pyvips"),
    "cpu": (),
}
MOST_MB = {"resize": 330, "filters": 540, "cpu": 1100}


def dockerfile(name: str) -> str:
    return (DEPLOY / f"Dockerfile.{name}").read_text()


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STEP_S = 900  # of one step; installing a gigabyte on a busy machine takes minutes


def run_steps(command) -> list[str]:
    """Returns what a program printed; after each line it has its time anew, after which it counts as hanging."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        faulthandler.dump_traceback_later(STEP_S, exit=True, file=sys.__stderr__)
        for line in process.stdout:
            lines.append(line)
            faulthandler.dump_traceback_later(STEP_S, exit=True, file=sys.__stderr__)
    assert process.returncode == 0, "".join(lines)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_install_steps_and_smoke_job(name, tmp_path, capsys):
    steps = [sys.executable, ROOT / "ci" / "image_steps.py", DEPLOY / f"Dockerfile.{name}", tmp_path]
    image = json.loads(run_steps(steps)[-1])
    environment = tmp_path / "opt" / "sidecar"
    python = environment / "bin" / "python"

    find = f"import importlib.util as u; print([n for n in {LEAVES_OUT[name]!r} if u.find_spec(n)])"
    assert subprocess.check_output([python, "-c", find], text=True) == "[]\n"
    size_mb = sum(path.lstat().st_size for path in environment.rglob("*")) / 1e6
    with capsys.disabled():
        print(f"\nimage {name}: {size_mb:.0f} MB are installed over the base image")
    assert size_mb < MOST_MB[name]

    variables = {**image["environment"], "HOME": str(tmp_path)}
    help_text = subprocess.check_output(
        [environment / "bin" / image["entrypoint"][0], "--help"], env=variables, text=True
    )
    assert "usage" in help_text.lower()
    smoke = subprocess.run(
        [python, "-", name],
        input=(DEPLOY / "smoke.py").read_text(),
        cwd=image["folder"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    assert smoke.stdout.endswith(f"smoke job of {name}: ok\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "usage: python ci/image_steps.py"),
        ([DEPLOY / "Dockerfile.cpu"], "usage: python ci/image_steps.py"),
        ([DEPLOY / "Dockerfile.cpu", "out", "RAY"], "usage: python ci/image_steps.py"),
        ([DEPLOY / "Dockerfile.gpu", "out"], "Dockerfile.cpu"),
        ([DEPLOY / "Dockerfile.cpu", ROOT / "deploy"], "deploy is not empty"),
    ],
    ids=["nothing", "no folder", "no value", "no Dockerfile", "a full folder"],
)
def test_steps_that_cannot_be_done_are_said(tmp_path, arguments, said):
    done = subprocess.run(
        [sys.executable, ROOT / "ci/image_steps.py", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", IMAGES)
def test_nothing_is_resolved_while_an_image_is_built(name):
    installs = [line for line in dockerfile(name).replace("\\\n", " ").splitlines() if " install " in line]
    assert len(installs) == 3
    for line in installs:
        assert ("--require-hashes -r requirements/" in line) != ("--no-index --no-deps" in line), line
    assert "apt-get" not in dockerfile(name)


@pytest.mark.parametrize("name", IMAGES)
def test_images_run_as_somebody_and_have_the_configs(name):
    last = dockerfile(name).rpartition("FROM ")[2]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE)
    assert "COPY configs /app/configs" in last
    assert "pip" not in last
    assert re.search(r'^ENTRYPOINT \["sidecar(-run)?"\]$', last, re.MULTILINE)


@pytest.mark.parametrize("name", IMAGES)
def test_the_wheels_are_made_alike_so_that_they_are_made_once(name):
    def stage(text):
        return text.partition(" AS wheels")[2].partition("FROM ")[0]

    assert stage(dockerfile(name)) == stage(dockerfile("resize"))


@pytest.mark.parametrize("path", sorted((DEPLOY / "requirements").glob("*.txt")), ids=lambda path: path.stem)
def test_requirements_are_exact_and_hashed_and_name_no_place(path):
    text = path.read_text()
    for entry in re.split(r"\n(?=\S)", text.partition("\n")[2].strip()):
        assert re.match(r"[a-z0-9.-]+==\S+ ", entry), entry
        assert "--hash=sha256:" in entry
    assert not re.search(r"://|--\w*index|find-links|sidecar", text.partition("\n")[2])


def test_requirements_have_the_versions_of_the_pins():
    pins = load(ROOT / "ci" / "pins.py").pins_of((ROOT / "pyproject.toml").read_text())
    pinned = dict(pin.split("==") for pin in pins["packages"])
    for name in load(ROOT / "ci" / "requirements.py").IMAGES:
        text = (DEPLOY / "requirements" / f"{name}.txt").read_text()
        found = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))
        assert {k: v for k, v in found.items() if k in pinned} == {k: pinned[k] for k in found if k in pinned}


def test_only_images_for_clusters_hold_ray_and_those_can_take_jobs():
    images = load(ROOT / "ci" / "requirements.py").IMAGES
    with_ray = {name for name, (_, others) in images.items() if TAKES_JOBS in others}
    assert with_ray == {"resize-ray", "filters-ray", "cpu"}
    for name in images:
        text = (DEPLOY / "requirements" / f"{name}.txt").read_text()
        assert ("\nray==" in text) == ("\naiohttp==" in text) == (name in with_ray)
