"""Checks the manifests of jobs: fields, types, the command and its pipeline; lists what is left to replace.

Usage: .venv/bin/python deploy/check.py FILE…     (default: every template in deploy/)
"""

from __future__ import annotations

import sys
from pathlib import Path

from sidecar_cli.jobs.check import check_job
from sidecar_cli.jobs.placeholders import PLACEHOLDERS
from sidecar_core.errors import SidecarError

ROOT = Path(__file__).resolve().parent


def main(arguments: list[str]) -> int:
    """Returns 0 when every manifest is right, 2 when one is wrong; a template with placeholders may be right."""
    paths = [Path(each) for each in arguments] or sorted(
        path for kind in ("kuberay", "utp") for path in (ROOT / kind).glob("*.yaml")
    )
    pipelines = {path.name for path in (ROOT.parent / "configs/pipelines").glob("*.yaml")}
    wrong = False
    for path in paths:
        try:
            left = check_job(path, pipelines=pipelines)
        except SidecarError as error:
            wrong = True
            sys.stderr.write(f"{error}\n")
            continue
        sys.stdout.write(f"{path}: " + (f"{len(left)} to replace\n" if left else "ready\n"))
        sys.stdout.writelines(
            f"  <{name}>  {PLACEHOLDERS[name][0]}, such as {PLACEHOLDERS[name][1]}\n" for name in left
        )
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
