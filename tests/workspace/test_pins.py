"""The pins are exact, cover the resolution, and no file names a package registry."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pins():
    spec = importlib.util.spec_from_file_location("pins", ROOT / "ci" / "pins.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _uv_settings() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]


def test_the_lock_is_not_committed():
    listed = subprocess.run(["git", "ls-files", "uv.lock"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    assert "uv.lock" in (ROOT / ".gitignore").read_text().split()


@pytest.mark.parametrize("key", ["constraint-dependencies", "build-constraint-dependencies"])
def test_pins_are_exact_sorted_and_single(key):
    pinned = _uv_settings()[key]
    assert [pin for pin in pinned if not re.fullmatch(r"[a-z0-9-]+==[\w.]+", pin)] == []
    names = [pin.split("==")[0] for pin in pinned]
    assert len(set(names)) == len(names)
    assert pinned == sorted(pinned)


def test_every_declared_dependency_is_pinned():
    declared = set()
    for path in [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        document = tomllib.loads(path.read_text())
        project = document["project"]
        lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
        lists += document.get("dependency-groups", {}).values()
        declared |= {re.match(r"[A-Za-z0-9_.-]+", entry)[0] for entries in lists for entry in entries}
    pinned = {pin.split("==")[0] for pin in _uv_settings()["constraint-dependencies"]}
    own = {path.name for path in ROOT.glob("packages/*")}
    assert declared - own - pinned == set()


def test_what_is_installed_here_is_what_is_pinned():
    """A lock that the pins do not decide would show as another version in this environment."""
    pinned = dict(pin.split("==") for pin in _uv_settings()["constraint-dependencies"])
    differing = {}
    for name, version in pinned.items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # only for another system or Python
        if installed != version:
            differing[name] = (version, installed)
    assert not differing


def test_no_file_names_a_registry(pins):
    assert pins.registry_hosts_named() == []


def test_a_named_registry_would_be_found(pins, tmp_path, monkeypatch):
    host = pins.registry_hosts()[0]
    (tmp_path / "notes.md").write_text(f"see https://{host.upper()}/simple\n")
    for command in (["git", "init", "-q"], ["git", "add", "notes.md"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setattr(pins, "ROOT", tmp_path)
    assert len(pins.registry_hosts_named()) == 1


def test_differences_name_each_pin_that_does_not_hold(pins):
    pinned = {"packages": ["a==1", "b>=2", "c==3"], "build": []}
    resolved = {"packages": ["a==1", "c==4"], "build": ["d==1"]}
    assert pins.differences(pinned, resolved) == [
        "pyproject.toml: 'b>=2' is not an exact pin",
        "pyproject.toml: no pin for c==4",
        "pyproject.toml: nothing needs the pin b>=2",
        "pyproject.toml: nothing needs the pin c==3",
        "pyproject.toml: no pin for d==1",
        "fix: ci/pins.sh --keep",
    ]
    assert pins.differences(resolved, resolved) == []


def test_writing_pins_replaces_only_their_block(pins):
    text = f'before\n{pins.BEGIN}constraint-dependencies = ["old==1"]\n{pins.END}after\n'
    written = pins.with_pins(text, {"packages": ["new==2"], "build": ["built==3"]})
    assert written.startswith("before\n")
    assert written.endswith("after\n")
    assert "old" not in written
    assert '"new==2"' in written
    assert '"built==3"' in written
