"""Checks that the versions installed here are the lowest that a package allows.

    python ci/floors.py packages/sidecar-core

A floor below what could be installed beside everything else is a promise that no test keeps.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path


def main() -> int:
    """Compares each direct requirement's floor with the installed version and prints each difference."""
    document = tomllib.loads((Path(sys.argv[1]) / "pyproject.toml").read_text())
    project = document["project"]
    requirements = [*project["dependencies"], *document.get("dependency-groups", {}).get("test", [])]
    requirements += [entry for extra in project.get("optional-dependencies", {}).values() for entry in extra]
    problems = []
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9_-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement)
        if match is None:
            problems.append(f"{requirement!r} has no floor")
        elif not match[1].startswith("sidecar-"):
            installed = importlib.metadata.version(match[1])
            if _release(installed) != _release(match[2]):
                problems.append(f"the floor of {match[1]} is {match[2]}, but {installed} was tested")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _release(version: str) -> str:
    return re.sub(r"(\.0)+$", "", version)


if __name__ == "__main__":
    sys.exit(main())
