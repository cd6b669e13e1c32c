"""What deploy/build_and_push.sh asks of a builder, and that nothing is pushed that did not pass its smoke job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TAG = "registry.example.com:5000/team/sidecar-resize:2026-11-29"
DIGEST = "sha256:" + "0" * 64

# A program that notes what it is asked, and can be told to fail at one thing.
STAND_IN = """#!/bin/sh
echo "$*" >>"$NOTES"
[ "$1" = "${FAILS_AT:-}" ] && exit 7
case "$1" in
    run) cat >"$NOTES.stdin" ;;
    inspect)
        echo "other.example.com/team/sidecar-resize@sha256:1"
        echo "registry.example.com:5000/team/sidecar-resize@%s"
        ;;
    push) [ "$2" = --digestfile ] && printf %s >"$3" ;;
    from) cat >/dev/null; echo container-1 ;;
esac
exit 0
"""


@pytest.fixture
def push(tmp_path):
    """Returns a function that runs the script with a stand-in builder; it returns the result and what was asked."""

    def run(*arguments, builder="docker", fails_at=""):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / builder
        program.write_text(STAND_IN.replace("%s", DIGEST, 1).replace("printf %s", f"printf {DIGEST}"))
        program.chmod(0o755)
        notes = tmp_path / "notes"
        notes.write_text("")
        variables = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "NOTES": str(notes), "FAILS_AT": fails_at}
        variables |= {"SIDECAR_BUILDER": builder, "PIP_INDEX_URL": ""}
        done = subprocess.run(
            [ROOT / "deploy" / "build_and_push.sh", *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, [line for line in notes.read_text().splitlines() if line != "info"]

    return run


def test_it_builds_tries_pushes_and_prints_the_reference(push, tmp_path):
    done, asked = push("--image", "resize", "--ray", TAG)
    assert done.returncode == 0, done.stderr
    assert asked == [
        f"build -f deploy/Dockerfile.resize -t {TAG} --build-arg RAY=1 .",
        f"run --rm -i --entrypoint python {TAG} - resize",
        f"push {TAG}",
        f"inspect --format {{{{range .RepoDigests}}}}{{{{println .}}}}{{{{end}}}} {TAG}",
    ]
    assert done.stdout == f"registry.example.com:5000/team/sidecar-resize@{DIGEST}\n"
    assert (tmp_path / "notes.stdin").read_text() == (ROOT / "deploy" / "smoke.py").read_text()


@pytest.mark.parametrize("repository", ["docker.io/team/sidecar-resize", "team/sidecar-resize"])
def test_a_reference_that_docker_names_otherwise_is_the_tag(push, repository):
    done, _ = push(f"{repository}:2026-11-29")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{repository}:2026-11-29\n"


@pytest.mark.parametrize("builder", ["podman", "buildah"])
def test_other_builders_print_the_same_reference(push, builder):
    done, asked = push("--image", "filters", "--base", "python:3.12-slim", TAG, builder=builder)
    assert done.returncode == 0, done.stderr
    assert asked[0] == f"build -f deploy/Dockerfile.filters -t {TAG} --build-arg BASE_IMAGE=python:3.12-slim ."
    assert [line.split()[0] for line in asked if line.split()[0] in ("run", "push")] == ["run", "push"]
    assert done.stdout == f"registry.example.com:5000/team/sidecar-resize@{DIGEST}\n"


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
@pytest.mark.parametrize("fails_at", ["build", "run"])
def test_nothing_is_pushed_that_failed(push, builder, fails_at):
    done, asked = push(TAG, builder=builder, fails_at=fails_at)
    assert done.returncode == 7
    assert done.stdout == ""
    assert not any(line.startswith("push") for line in asked)


def test_without_push_it_prints_the_tag(push):
    done, asked = push("--no-push", TAG)
    assert done.returncode == 0
    assert done.stdout == f"{TAG}\n"
    assert [line.split()[0] for line in asked] == ["build", "run"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--image", "gpu", TAG], ["--what", TAG], [TAG, TAG], [TAG, "--image"], [TAG, "--base"], ["--help"]],
    ids=str,
)
def test_bad_usage_does_nothing_and_says_what_is_right(push, arguments):
    done, asked = push(*arguments)
    assert done.returncode == 2
    assert asked == []
    assert "deploy/build_and_push.sh [--image" in done.stderr or "no deploy/Dockerfile.gpu; there are:" in done.stderr


def test_a_builder_that_does_not_answer_is_said(push):
    done, _ = push(TAG, fails_at="info")
    assert done.returncode == 2
    assert "fix:" in done.stderr
