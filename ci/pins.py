"""Keeps the exact pins in the root pyproject.toml; see ci/pins.sh for how it is called.

uv.lock records where each file was downloaded, so it is not committed. The pins here make every machine
resolve to the same versions all the same.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "# pins: written by ci/pins.sh\n"
END = "# end of pins\n"
BUILD_REQUIREMENTS = ["editables"]  # hatchling asks for it when it builds an editable wheel


def main() -> int:
    """Refreshes the pins, or with --check says how they differ from what uv resolves."""
    parser = argparse.ArgumentParser(prog="ci/pins.sh", description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; exit 1 when something differs")
    mode.add_argument("--keep", action="store_true", help="keep pinned versions; only add and drop packages")
    options = parser.parse_args()
    pinned = pins_of((ROOT / "pyproject.toml").read_text())
    resolved = resolve(pinned if options.check or options.keep else {"packages": [], "build": []})
    if not options.check:
        write_pins(resolved)
        print(f"pinned {len(resolved['packages'])} packages and {len(resolved['build'])} build packages")
        return 0
    problems = differences(pinned, resolved) + registry_hosts_named()
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(pinned['packages'])} pins hold, {len(pinned['build'])} for builds")
    return 1 if problems else 0


def pins_of(pyproject: str) -> dict[str, list[str]]:
    """Returns the pins in a pyproject.toml: `packages` and `build`, each `name==version`."""
    uv = tomllib.loads(pyproject)["tool"]["uv"]
    return {
        "packages": uv.get("constraint-dependencies", []),
        "build": uv.get("build-constraint-dependencies", []),
    }


def resolve(pins: dict[str, list[str]]) -> dict[str, list[str]]:
    """Returns what uv resolves for the workspace and its build backend under `pins`, from no lock."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        members = sorted(ROOT.glob("packages/*/pyproject.toml"))
        for path in members:
            target = copy / path.relative_to(ROOT)
            target.parent.mkdir(parents=True)
            shutil.copy(path, target)
        (copy / "pyproject.toml").write_text(with_pins((ROOT / "pyproject.toml").read_text(), pins))
        run("uv", "lock", "--quiet", cwd=copy)
        lock = tomllib.loads((copy / "uv.lock").read_text())
        packages = sorted(
            f"{package['name']}=={package['version']}" for package in lock["package"] if "registry" in package["source"]
        )
        requirements = {r for path in members for r in tomllib.loads(path.read_text())["build-system"]["requires"]}
        (copy / "build.in").write_text("\n".join([*sorted(requirements), *BUILD_REQUIREMENTS]))
        (copy / "build.pins").write_text("\n".join(pins["build"]))
        # --no-config: the pins of the workspace are not those of the build backend.
        compiled = run(
            "uv", "pip", "compile", "--no-config", "--quiet", "--universal", "--python-version=3.11", "--no-header",
            "--no-annotate", "--constraint=build.pins", "build.in", cwd=copy,
        )  # fmt: skip
        build = sorted(line.split(" ;")[0].strip() for line in compiled.splitlines() if "==" in line)
    return {"packages": packages, "build": build}


def run(*command: str, cwd: Path) -> str:
    """Returns what `command` printed; ends this program with its messages when it fails."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}{result.stdout}")
    return result.stdout


def with_pins(pyproject: str, pins: dict[str, list[str]]) -> str:
    """Returns `pyproject` with the lists between its two marker lines replaced."""
    before, _, rest = pyproject.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"pyproject.toml: the lines {BEGIN.strip()!r} and {END.strip()!r} must stand around the pins")
    lists = [
        f"{key} = [\n" + "".join(f'    "{pin}",\n' for pin in pins[kind]) + "]\n"
        for key, kind in (("constraint-dependencies", "packages"), ("build-constraint-dependencies", "build"))
    ]
    return before + BEGIN + "".join(lists) + END + after


def write_pins(pins: dict[str, list[str]]) -> None:
    """Writes `pins` into the root pyproject.toml."""
    path = ROOT / "pyproject.toml"
    path.write_text(with_pins(path.read_text(), pins))


def differences(pinned: dict[str, list[str]], resolved: dict[str, list[str]]) -> list[str]:
    """Returns one line for each pin that is missing, unneeded or not exact."""
    problems = []
    for kind, pins in pinned.items():
        problems += [
            f"pyproject.toml: {pin!r} is not an exact pin" for pin in pins if not re.fullmatch(r"\S+==\S+", pin)
        ]
        problems += [f"pyproject.toml: no pin for {pin}" for pin in sorted(set(resolved[kind]) - set(pins))]
        problems += [f"pyproject.toml: nothing needs the pin {pin}" for pin in sorted(set(pins) - set(resolved[kind]))]
    return [*problems, "fix: ci/pins.sh --keep"] if problems else []


def registry_hosts() -> list[str]:
    """Returns the hosts that no file may name; put together here so that this file does not either."""
    names = {
        "org": ("pypi", "pythonhosted", "debian", "anaconda", "npmjs", "golang"),
        "com": ("npmjs", "yarnpkg"),
        "io": ("crates",),
    }
    return [f"{name}.{domain}" for domain, hosts in names.items() for name in hosts]


def registry_hosts_named() -> list[str]:
    """Returns one line for each place in a tracked file that names the host of a package registry."""
    patterns = [part for host in registry_hosts() for part in ("-e", host)]
    command = ["git", "grep", "-n", "-I", "-i", "-F", *patterns]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode > 1:
        sys.exit(f"git grep failed: {found.stderr}")
    return [f"names a package registry: {line}" for line in found.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
