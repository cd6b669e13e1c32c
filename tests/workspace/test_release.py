"""What a release is held to: ci/release.py, and what ci/wheel_contents.py says of what was built."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TODAY = date(2026, 11, 29)
SKIPPED = (".git", ".venv", ".uv", "tests", "docs", "data", "dist", "__pycache__")


@pytest.fixture(scope="module")
def wheel_contents():
    return loaded("wheel_contents")


@pytest.fixture(scope="module")
def release(wheel_contents):
    return loaded("release")


def loaded(name):
    sys.path.insert(0, str(ROOT / "ci"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "ci"))


def entry(heading, body="- Something new.\n"):
    return f"# Changelog\n\n## {heading}\n\n{body}\n## 0.1.0 (2026-01-01)\n\n- First.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (entry("0.2.0 (unreleased)"), "begins with '## 0.2.0 (unreleased)', and '## 0.2.0 (2026-11-29)' is expected"),
        (entry("0.3.0 (2026-11-29)"), "'## 0.2.0 (2026-11-29)' is expected"),
        (entry("0.2.0 (2026-11-30)"), "in the future"),
        (entry("0.2.0 (2026-11-28)", "Soon.\n"), "says nothing about 0.2.0"),
        (entry("0.2.0 (2026-11-31)"), "date 2026-11-31 is none"),
        ("# Changelog\n", "no entry"),
    ],
)
def test_a_changelog_that_is_not_ready(release, text, said):
    (problem,) = release.changelog_problems(text, "0.2.0", today=TODAY)
    assert said in problem


def test_a_changelog_that_is(release):
    assert release.changelog_problems(entry("0.2.0 (2026-11-29)"), "0.2.0", today=TODAY) == []


@pytest.mark.parametrize("version", ["0.2.4", "0.3.0", "1.0.0"])
def test_versions_that_follow(release, version):
    assert release.version_problems(version, [(0, 1, 9), (0, 2, 3)]) == []


@pytest.mark.parametrize("version", ["0.2.3", "0.2.5", "0.4.0", "1.0.1", "2.0.0", "0.1.10"])
def test_versions_that_do_not(release, version):
    assert release.version_problems(version, [(0, 1, 9), (0, 2, 3)])


def test_the_first_version_follows_nothing(release):
    assert release.version_problems("0.1.0", []) == []


@pytest.fixture
def clone(tmp_path):
    """A repository of its own with the sources as they are here, committed, and nothing released."""
    folder = tmp_path / "clone"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not set(Path(name).parts) & set(SKIPPED):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
            (folder / name).chmod((ROOT / name).stat().st_mode)
    git(folder, "init", "--quiet", "--initial-branch=main")
    edit(folder, "packages/sidecar-core/CHANGELOG.md", r"## 0\.1\.0 \(unreleased\)", "## 0.1.0 (2026-01-01)")
    commit(folder)
    return folder


def git(folder, *arguments):
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Work")


def edit(folder, name, pattern, by):
    text, count = re.subn(pattern, by, (folder / name).read_text(), count=1)
    assert count == 1, name
    (folder / name).write_text(text)


def run_release(folder, *arguments):
    return subprocess.run(
        [sys.executable, folder / "ci" / "release.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@example.com"},
    )


@pytest.mark.slow
def test_a_release_from_dry_run_to_tag_and_the_next_one(clone):
    dry = run_release(clone, "core")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert "sidecar-core-v0.1.0: sidecar_core-0.1.0-py3-none-any.whl, sidecar_core-0.1.0.tar.gz" in dry.stdout
    assert git(clone, "tag") == ""
    assert not (clone / "dist").exists()

    too_early = run_release(clone, "sidecar-filters")
    assert too_early.returncode == 1
    assert "sidecar-filters needs a release of sidecar-core from 0.1.0: release that first" in too_early.stdout
    assert "begins with '## 0.1.0 (unreleased)'" in too_early.stdout

    done = run_release(clone, "core", "--tag")
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(clone, "tag") == "sidecar-core-v0.1.0\n"
    assert "git push origin sidecar-core-v0.1.0" in done.stdout
    assert sorted(path.suffix for path in (clone / "dist").iterdir()) == [".gz", ".whl"]

    again = run_release(clone, "core")
    assert again.returncode == 1
    assert "the version '0.1.0' does not follow 0.1.0" in again.stdout
    assert "nothing has changed in sidecar-core since sidecar-core-v0.1.0" in again.stdout

    edit(clone, "packages/sidecar-core/pyproject.toml", r'version = "0\.1\.0"', 'version = "0.2.0"')
    edit(clone, "packages/sidecar-core/CHANGELOG.md", "## ", "## 0.2.0 (2026-02-01)\n\n- More.\n\n## ")
    raised = run_release(clone, "core")
    assert "not committed:  M packages/sidecar-core/pyproject.toml" in raised.stdout
    assert "sidecar-filters asks for sidecar-core>=0.1.0,<0.2.0, and its version here is 0.2.0" in raised.stdout

    tagged = run_release(clone, "core", "--tagged", "sidecar-core-v0.1.0")
    assert tagged.returncode == 1
    assert "the tag is 'sidecar-core-v0.1.0', and the version in pyproject.toml makes it 'sidecar-core-v0.2.0'" in (
        tagged.stdout
    )


@pytest.mark.parametrize("version", ["0.2", "0.3.0rc1", "1.0.0.0", "next"])
def test_a_version_of_another_form_is_said_before_anything_else(clone, version):
    edit(clone, "packages/sidecar-core/pyproject.toml", r'version = "0\.1\.0"', f'version = "{version}"')
    refused = run_release(clone, "core")
    assert refused.returncode == 1
    assert refused.stdout == f"the version '{version}' of sidecar-core is not MAJOR.MINOR.PATCH\n"


def test_a_requirement_without_a_range_is_said(clone):
    edit(clone, "packages/sidecar-resize/pyproject.toml", '"sidecar-core>=0.1,<0.2"', '"sidecar-core<0.2"')
    refused = run_release(clone, "core")
    assert refused.returncode == 1
    assert "sidecar-resize asks for 'sidecar-core<0.2', and a range such as" in refused.stderr


def test_a_tag_of_another_form_is_no_release(clone, release, monkeypatch):
    git(clone, "tag", "sidecar-core-v0.2.0rc1")
    git(clone, "tag", "sidecar-core-v0.1.0")
    monkeypatch.setattr(release, "ROOT", clone)
    assert release.released("sidecar-core") == [(0, 1, 0)]


def test_an_unknown_package_is_bad_usage():
    done = run_release(ROOT, "kore")
    assert done.returncode == 2
    assert "no package 'sidecar-kore'; there are sidecar-cli, sidecar-core" in done.stderr


def test_what_packages_declare_is_what_their_wheels_may_ask_for(wheel_contents):
    declared = {}
    for path in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        lists = {"": project["dependencies"], **project.get("optional-dependencies", {})}
        declared[project["name"]] = {
            extra: {re.match(r"[\w.-]+", each)[0] for each in requirements} for extra, requirements in lists.items()
        }
    assert declared == wheel_contents.MAY_ASK_FOR


def wheel(folder, *, requires=("pyarrow<27,>=24",), extras=("join", "s3"), without=(), more=()):
    path = folder / "sidecar_core-0.1.0-py3-none-any.whl"
    source = ROOT / "packages" / "sidecar-core" / "src"
    with zipfile.ZipFile(path, "w") as archive:
        for file in source.rglob("*"):
            name = str(file.relative_to(source))
            if file.is_file() and "__pycache__" not in file.parts and name not in without:
                archive.write(file, name)
        for name in more:
            archive.writestr(name, "")
        lines = ["Metadata-Version: 2.4", "Name: sidecar-core", *(f"Provides-Extra: {extra}" for extra in extras)]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        archive.writestr("sidecar_core-0.1.0.dist-info/METADATA", "\n".join([*lines, "", "What it is."]))
        archive.writestr("sidecar_core-0.1.0.dist-info/licenses/LICENSE", "Free.")
    return path


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"requires": ["boto3<2,>=1 ; extra == 's3'"]}, None),
        ({"requires": ["boto3<2,>=1"]}, "asks for 'boto3' in every installation"),
        ({"requires": ["numpy<3,>=2 ; extra == 's3'"]}, "asks for 'numpy' in extra 's3'"),
        ({"requires": ["pyarrow>=24"]}, "has no range"),
        ({"extras": ["s3"]}, "has the extras"),
        ({"without": ["sidecar_core/py.typed"]}, "lacks sidecar_core/py.typed"),
        ({"without": ["sidecar_core/align.py"]}, "lacks sidecar_core/align.py"),
        ({"more": ["sidecar_core/draft.py"]}, "holds sidecar_core/draft.py"),
    ],
    ids=str,
)
def test_a_wheel_that_is_not_the_package_is_told(wheel_contents, tmp_path, changed, said):
    problems = wheel_contents.problems_of(ROOT / "packages" / "sidecar-core", wheel(tmp_path, **changed))
    if said is None:
        assert problems == []
    else:
        assert any(said in problem for problem in problems), problems
