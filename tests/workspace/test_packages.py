"""Each package is complete in itself and declares real ranges for its siblings."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
MAX_LINES = 500


def _declared(package: Path) -> dict:
    return tomllib.loads((package / "pyproject.toml").read_text())


def _module(package: Path) -> str:
    return package.name.replace("-", "_")


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_the_five_packages_are_there():
    names = [package.name for package in PACKAGES]
    assert names == ["sidecar-cli", "sidecar-core", "sidecar-filters", "sidecar-resize", "sidecar-runtimes"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_package_is_complete(package):
    project = _declared(package)["project"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", project["version"])
    assert "dynamic" not in project
    assert project["requires-python"] == ">=3.11,<3.14"
    assert (package / "src" / _module(package) / "py.typed").is_file()
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert len((package / "README.md").read_text().splitlines()) > 5, "a README says what the package is"
    assert project["version"] in (package / "CHANGELOG.md").read_text()
    assert list((package / "tests").glob("test_*.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_siblings_are_asked_for_by_a_range_that_holds_their_version(package):
    versions = {sibling.name: _declared(sibling)["project"]["version"] for sibling in PACKAGES}
    siblings = [r for r in _declared(package)["project"]["dependencies"] if r.startswith("sidecar-")]
    for requirement in siblings:
        match = re.fullmatch(r"(sidecar-\w+)(?:\[\w+\])?>=(\d+)\.(\d+),<(\d+)\.(\d+)", requirement)
        assert match, requirement
        major, minor = (int(part) for part in versions[match[1]].split(".")[:2])
        assert (int(match[2]), int(match[3])) <= (major, minor) < (int(match[4]), int(match[5])), requirement
    assert siblings or package.name == "sidecar-core"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_dependency_has_a_floor_and_a_ceiling(package):
    project = _declared(package)["project"]
    requirements = project["dependencies"] + [
        r for extra in project.get("optional-dependencies", {}).values() for r in extra
    ]
    loose = [r for r in requirements if not re.search(r">=[\d.]+,<\d", r)]
    assert not loose


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_only_the_program_depends_on_more_than_the_core(package):
    siblings = {re.match(r"sidecar-\w+", r)[0] for r in _declared(package)["project"]["dependencies"] if "sidecar" in r}
    expected = {
        "sidecar-core": set(),
        "sidecar-cli": {"sidecar-core", "sidecar-filters", "sidecar-resize", "sidecar-runtimes"},
    }
    assert siblings == expected.get(package.name, {"sidecar-core"})


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_importing_a_package_stays_light(package):
    """What is only used in children or inside functions is not loaded: no picture library in a parent."""
    command = [sys.executable, ROOT / "ci" / "slim_import.py", _module(package), "--shared"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_module_is_too_long_to_read():
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _tracked("*.py")}
    assert not {path: count for path, count in lines.items() if count > MAX_LINES}


def test_entry_points_name_what_exists():
    missing = []
    for package in PACKAGES:
        project = _declared(package)["project"]
        groups = {**project.get("entry-points", {}), "scripts": project.get("scripts", {})}
        for group, entries in groups.items():
            for name, value in entries.items():
                module = value.split(":")[0].replace(".", "/")
                source = package / "src" / module
                if not (source.with_suffix(".py").is_file() or (source / "__init__.py").is_file()):
                    missing.append(f"{package.name} [{group}] {name} = {value}")
    assert not missing
