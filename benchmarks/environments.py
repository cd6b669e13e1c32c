"""Environments for programs of others: made once by uv, outside of this repository and of its pins."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sidecar-benchmarks"


class NotInstallableError(Exception):
    """What uv said."""


def make_environment(name: str, requirements: Sequence[str], root: Path) -> Path:
    """Returns the Python of an environment that holds the requirements and what they need.

    Args:
        name: of its folder below `root`, beside a digest of the requirements.
        requirements: with their versions.
        root: the folder of all such environments.

    Raises:
        NotInstallableError: uv could not make it.
    """
    text = "\n".join((platform.python_version(), *requirements))
    folder = root / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    python = folder / "bin/python"
    if (folder / "complete").exists():
        return python
    print(f"installing {', '.join(requirements)}", file=sys.stderr, flush=True)
    root.mkdir(parents=True, exist_ok=True)
    for command in (
        ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
        ["uv", "pip", "install", "--quiet", "--python", str(python), "--compile-bytecode", *requirements],
    ):
        # from outside of this workspace, whose pins are not theirs
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
        if done.returncode:
            raise NotInstallableError(done.stderr.strip()[-500:])
    (folder / "complete").touch()
    return python
