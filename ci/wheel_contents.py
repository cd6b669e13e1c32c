"""Checks what a package was built into: that it holds all that its source folder holds, and asks for nothing more.

python ci/wheel_contents.py packages/sidecar-core dist/sidecar_core-0.1.0-py3-none-any.whl [dist/….tar.gz]
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import Message

# What a wheel may ask for, by the extra that brings it ("" for always). A name that is new here is a decision:
# it goes into every environment that the package is installed in.
MAY_ASK_FOR = {
    "sidecar-core": {"": {"pyarrow", "pydantic", "pyyaml"}, "join": {"numpy"}, "s3": {"boto3", "botocore", "urllib3"}},
    "sidecar-filters": {"": {"numpy", "opencv-python-headless", "pillow", "pyarrow", "pydantic", "sidecar-core"}},
    "sidecar-resize": {"": {"pillow", "pyarrow", "pydantic", "pyvips", "sidecar-core"}},
    "sidecar-runtimes": {"": {"pyarrow", "pydantic", "sidecar-core"}, "ray": {"ray"}, "testing": {"pytest"}},
    "sidecar-cli": {
        "": {
            *("jinja2", "pillow", "pyarrow", "pydantic", "rich", "typer"),
            *("sidecar-core", "sidecar-filters", "sidecar-resize", "sidecar-runtimes"),
        },
        "sql": {"duckdb"},
    },
}
JOBS = ("filters-actor", "filters-task", "resize", "verify")
# What is no Python and must be there, whatever the source folder holds.
MUST_HOLD = {
    "sidecar-filters": ["sidecar_filters/schemas/filters.yaml"],
    "sidecar-cli": [
        *(f"sidecar_cli/report/templates/report.{kind}" for kind in ("html.jinja", "css", "js")),
        "sidecar_cli/templates/overlay.html.jinja",
        *(f"sidecar_cli/jobs/{kind}/{name}.yaml" for kind in ("kuberay", "utp") for name in JOBS),
    ],
}


def main() -> int:
    """Compares each built file with the source folder and prints each difference."""
    package = Path(sys.argv[1])
    problems = [problem for built in sys.argv[2:] for problem in problems_of(package, Path(built))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def problems_of(package: Path, built: Path) -> list[str]:
    """Returns what is wrong with a wheel or a source distribution of a package, one line each."""
    found = _wheel_problems(package, built) if built.suffix == ".whl" else _sdist_problems(package, built)
    return [f"{built.name}: {problem}" for problem in found]


def _wheel_problems(package: Path, wheel: Path) -> list[str]:
    expected = {path.removeprefix("src/") for path in _files(package, "src")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(info).decode())
        changed = [name for name in expected & names if archive.read(name) != (package / "src" / name).read_bytes()]
    held = {name for name in names if ".dist-info/" not in name}
    problems = [f"lacks {name}" for name in sorted(expected - held)]
    problems += [f"holds {name}, which is not in {package / 'src'}" for name in sorted(held - expected)]
    problems += [f"holds {name} with another content" for name in sorted(changed)]
    must = [f"{package.name.replace('-', '_')}/py.typed", *MUST_HOLD.get(package.name, [])]
    problems += [f"lacks {name}" for name in must if name not in held]
    if not any("/licenses/" in name for name in names):
        problems.append("holds no licence text")
    return problems + _metadata_problems(package.name, metadata)


def _sdist_problems(package: Path, sdist: Path) -> list[str]:
    expected = {*_files(package, "src"), "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"}
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    problems = [f"lacks {name}" for name in sorted(expected - held)]
    allowed = re.compile(r"(src|tests)/.*|LICENSE|README\.md|CHANGELOG\.md|pyproject\.toml|PKG-INFO|\.gitignore")
    return problems + [f"holds {name}" for name in sorted(held) if name and not allowed.fullmatch(name)]


def _metadata_problems(package: str, metadata: Message) -> list[str]:
    problems = []
    for requirement in metadata.get_all("Requires-Dist") or []:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower()
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        allowed = MAY_ASK_FOR[package].get(extra[1] if extra else "", set())
        if name not in allowed:
            where = f"extra {extra[1]!r}" if extra else "every installation"
            problems.append(f"asks for {name!r} in {where}, which ci/wheel_contents.py does not allow")
        if not (">=" in requirement and "<" in requirement):
            problems.append(f"{requirement!r} has no range")
    offered = {extra for extra in MAY_ASK_FOR[package] if extra}
    if set(metadata.get_all("Provides-Extra") or []) != offered:
        problems.append(f"has the extras {metadata.get_all('Provides-Extra')}, and {sorted(offered)} are expected")
    if not metadata.get_payload():
        problems.append("has an empty description: the package's README")
    return problems


def _files(package: Path, folder: str) -> set[str]:
    return {
        str(path.relative_to(package))
        for path in (package / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


if __name__ == "__main__":
    sys.exit(main())
