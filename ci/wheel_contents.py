"""Checks that a wheel holds all that its package's source folder holds, and is typed and licensed.

python ci/wheel_contents.py packages/sidecar-core dist/sidecar_core-0.1.0-py3-none-any.whl
"""

from __future__ import annotations

import sys
import zipfile
from email.parser import Parser
from pathlib import Path


def main() -> int:
    """Compares the wheel with the source folder and prints each difference."""
    package, wheel = Path(sys.argv[1]), Path(sys.argv[2])
    source = package / "src"
    expected = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(info).decode())
    held = {name for name in names if ".dist-info/" not in name}
    problems = [f"{wheel.name} lacks {name}" for name in sorted(expected - held)]
    problems += [f"{wheel.name} holds {name}, which is not in {source}" for name in sorted(held - expected)]
    module = package.name.replace("-", "_")
    if f"{module}/py.typed" not in held:
        problems.append(f"{wheel.name} lacks {module}/py.typed")
    if not any("/licenses/" in name for name in names):
        problems.append(f"{wheel.name} holds no licence text")
    for requirement in metadata.get_all("Requires-Dist") or []:
        if requirement.startswith("sidecar-") and not ("<" in requirement and ">=" in requirement):
            problems.append(f"{wheel.name}: {requirement!r} has no range")
    if not metadata.get_payload():
        problems.append(f"{wheel.name} has an empty description: the package's README")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
