"""Writes the hash-pinned requirements of each image; see ci/requirements.sh for how it is called.

Versions are those of the pins in the root pyproject.toml. What an image has beyond the workspace (the parts
of Ray that take jobs) keeps the version that its file has. No file says where anything is downloaded.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "requirements"
HEADER = "# written by ci/requirements.sh\n"
PYTHON = "3.11"  # of the images

# Per file: the packages of this repository that the image installs, and what else it needs.
IMAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "resize": (("sidecar-resize", "sidecar-runtimes"), ()),
    "resize-ray": (("sidecar-resize", "sidecar-runtimes[ray]"), ("ray[default]",)),
    "filters": (("sidecar-filters", "sidecar-runtimes"), ()),
    "filters-ray": (("sidecar-filters", "sidecar-runtimes[ray]"), ("ray[default]",)),
    "cpu": (("sidecar-cli[sql]",), ("ray[default]",)),
}
BUILD = "build"  # what makes the wheels


def main() -> int:
    """Writes the files, or with --check prints how they differ from what would be written."""
    parser = argparse.ArgumentParser(prog="ci/requirements.sh", description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; exit 1 when something differs")
    mode.add_argument("--upgrade", action="store_true", help="take the newest versions of what is not pinned")
    options = parser.parse_args()
    differ = False
    for name in (*IMAGES, BUILD):
        path = FOLDER / f"{name}.txt"
        before = path.read_text() if path.exists() else ""
        written = HEADER + compiled(name, before="" if options.upgrade else before)
        if not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(written)
        elif written != before:
            differ = True
            shown = f"deploy/requirements/{name}.txt"
            lines = difflib.unified_diff(
                without_hashes(before), without_hashes(written), shown, "would be", lineterm=""
            )
            print("\n".join(lines) or f"{shown}: hashes differ")
        print(f"{name}: {len(without_hashes(written))} packages")
    if differ:
        print("fix: ci/requirements.sh")
    return 1 if differ else 0


def compiled(name: str, *, before: str) -> str:
    """Returns one file without its header.

    Args:
        name: of the file.
        before: its text, whose versions are kept where no pin says otherwise.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted, output = Path(folder, "wanted.in"), Path(folder, "output.txt")
        output.write_text(before)
        options = ["--quiet", "--universal", "--python-version", PYTHON, "--generate-hashes"]
        options += ["--no-header", "--no-annotate", "--output-file", str(output)]
        if name == BUILD:
            uv = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
            wanted.write_text("\n".join(uv["build-constraint-dependencies"]))
            options.append("--no-config")  # the pins of the workspace are not those of the build
        else:
            packages, others = IMAGES[name]
            wanted.write_text("\n".join([*map(local, packages), *others]))
            for member in ROOT.glob("packages/*"):
                options += ["--no-emit-package", member.name]
        command = ["uv", "pip", "compile", *options, str(wanted)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{result.stderr}{result.stdout}")
        return output.read_text()


def local(requirement: str) -> str:
    """Returns a requirement of a package of this repository, as a path."""
    return f"{requirement} @ {(ROOT / 'packages' / requirement.partition('[')[0]).as_uri()}"


def without_hashes(text: str) -> list[str]:
    """Returns the lines that name a package."""
    return [re.sub(r" ?\\$", "", line) for line in text.splitlines() if "==" in line]


if __name__ == "__main__":
    sys.exit(main())
