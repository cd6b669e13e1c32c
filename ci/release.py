"""Prepares the release of one package: checks everything, builds it, and says what to type. It never pushes.

    python3 ci/release.py sidecar-core            a dry run: what is wrong, or what the release would be
    python3 ci/release.py sidecar-core --tag      the same, and then the tag here and the files in dist/

The version, its changelog entry and what depends on it are changed by hand before: see docs/releasing.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path

from wheel_contents import problems_of

ROOT = Path(__file__).resolve().parent.parent
Version = tuple[int, ...]
VERSION = re.compile(r"\d+\.\d+\.\d+")
RANGE = re.compile(r"(sidecar-\w+)(?:\[[\w,]+\])?>=([\d.]+),<([\d.]+)")


def main() -> int:
    """Checks and builds the package that the command line names."""
    parser = argparse.ArgumentParser(prog="ci/release.py", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="the package: sidecar-core, or core")
    parser.add_argument("--tag", action="store_true", help="when nothing is wrong, make the tag and leave dist/")
    parser.add_argument("--tagged", metavar="TAG", help="the tag that is there already, for the release workflow")
    options = parser.parse_args()
    name = f"sidecar-{options.name.removeprefix('sidecar-')}"
    package = ROOT / "packages" / name
    if not (package / "pyproject.toml").is_file():
        known = ", ".join(sorted(path.name for path in ROOT.glob("packages/*")))
        parser.error(f"no package {name!r}; there are {known}")
    version = project(name)["version"]
    if not VERSION.fullmatch(version):
        print(f"the version {version!r} of {name} is not MAJOR.MINOR.PATCH")
        return 1
    tag = f"{name}-v{version}"
    problems = changelog_problems((package / "CHANGELOG.md").read_text(), version, today=datetime.now(UTC).date())
    problems += sibling_problems(name)
    if options.tagged is None:
        problems += version_problems(version, released(name)) + tree_problems(package, name)
    elif options.tagged != tag:
        problems.append(f"the tag is {options.tagged!r}, and the version in pyproject.toml makes it {tag!r}")
    with tempfile.TemporaryDirectory() as folder:
        built = build(name, Path(folder))
        problems += [problem for path in built for problem in problems_of(package, path)]
        for problem in problems:
            print(problem)
        if problems:
            print(f"{tag}: not to be released")
            return 1
        print(f"{tag}: {', '.join(path.name for path in built)}")
        if options.tag or options.tagged:
            keep(built)
    if options.tag:
        git("tag", "--annotate", tag, "--message", f"{name} {version}")
        print(f"made the tag {tag}; to publish it: git push origin {tag}")
    elif options.tagged is None:
        print(f"nothing is wrong; to make the tag here: python3 ci/release.py {name} --tag")
    return 0


def project(name: str) -> dict:
    """Returns the `[project]` table of a package."""
    return tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]


def released(name: str) -> list[Version]:
    """Returns the versions of a package that have a tag, in order; a tag of another form is no release."""
    tags = git("tag", "--list", f"{name}-v*").split()
    versions = [tag.removeprefix(f"{name}-v") for tag in tags]
    return sorted(parsed(version) for version in versions if VERSION.fullmatch(version))


def version_problems(version: str, before: list[Version]) -> list[str]:
    """Returns what is wrong with a version after those that were released."""
    if not before:
        return []
    major, minor, patch = before[-1]
    following = [(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)]
    if parsed(version) in following:
        return []
    last = shown(before[-1])
    return [f"the version {version!r} does not follow {last}, the last release: {', '.join(map(shown, following))}"]


def changelog_problems(text: str, version: str, *, today: date) -> list[str]:
    """Returns what is wrong with a changelog for the release of a version."""
    entries = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    if not entries:
        return ["the changelog has no entry"]
    heading, _, body = entries[0].partition("\n")
    wanted = f"{version} ({today.isoformat()})"
    match = re.fullmatch(r"(\S+) \((\d{4}-\d{2}-\d{2})\)", heading.strip())
    if match is None or match[1] != version:
        return [f"the changelog begins with '## {heading.strip()}', and '## {wanted}' is expected"]
    problems = []
    try:
        if date.fromisoformat(match[2]) > today:
            problems.append(f"the changelog's date {match[2]} is in the future")
    except ValueError:
        problems.append(f"the changelog's date {match[2]} is none")
    if not re.search(r"^- \S", body, re.MULTILINE):
        problems.append(f"the changelog says nothing about {version}")
    return problems


def sibling_problems(name: str) -> list[str]:
    """Returns the ranges, of this package and for it, that versions here do not keep to; and unreleased siblings."""
    problems = []
    for asking in sorted(path.name for path in ROOT.glob("packages/*")):
        for sibling, least, below in ranges(asking):
            if name not in (asking, sibling):
                continue
            version = project(sibling)["version"]
            if not least <= parsed(version) < below:
                wanted = f">={shown(least)},<{shown(below)}"
                problems.append(f"{asking} asks for {sibling}{wanted}, and its version here is {version}")
            if asking == name and not any(least <= each < below for each in released(sibling)):
                problems.append(f"{asking} needs a release of {sibling} from {shown(least)}: release that first")
    return problems


def ranges(name: str) -> list[tuple[str, Version, Version]]:
    """Returns each sibling that a package asks for, with the least version and the one that is too high."""
    found = [(each, RANGE.fullmatch(each)) for each in project(name)["dependencies"] if each.startswith("sidecar-")]
    for requirement, match in found:
        if match is None:
            sys.exit(f"{name} asks for {requirement!r}, and a range such as 'sidecar-core>=0.1,<0.2' is expected")
    return [(match[1], parsed(match[2]), parsed(match[3])) for _, match in found]


def tree_problems(package: Path, name: str) -> list[str]:
    """Returns what is not committed, or that nothing has changed since the last release."""
    problems = [f"not committed: {line}" for line in git("status", "--porcelain").splitlines()]
    before = released(name)
    if before:
        last = f"{name}-v{shown(before[-1])}"
        if not git("log", "--oneline", f"{last}..HEAD", "--", str(package)):
            problems.append(f"nothing has changed in {name} since {last}")
    return problems


def build(name: str, folder: Path) -> list[Path]:
    """Builds the source distribution, and from it the wheel; returns both."""
    command = [ROOT / "ci" / "uv.sh", "build", "--quiet", "--package", name, "--out-dir", folder]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{name} cannot be built:\n{result.stderr}{result.stdout}")
    return sorted(path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def keep(built: list[Path]) -> None:
    """Puts built files into dist/."""
    (ROOT / "dist").mkdir(exist_ok=True)
    for path in built:
        (ROOT / "dist" / path.name).write_bytes(path.read_bytes())


def parsed(version: str) -> Version:
    """Returns `0.1` as (0, 1, 0)."""
    numbers = tuple(int(part) for part in version.split("."))
    return numbers + (0,) * (3 - len(numbers))


def shown(version: Version) -> str:
    """Returns (0, 1, 0) as `0.1.0`."""
    return ".".join(map(str, version))


def git(*arguments: str) -> str:
    """Returns what git printed; ends this program with its message when it fails."""
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"git {' '.join(arguments)} failed: {result.stderr}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main())
