"""Looks at the Ray cluster that is named, from a process that can be given up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from sidecar_core.problems import counted

from sidecar_cli.doctor.finding import Finding, fail, ok

_ANSWER_S = 60.0
_GIB = 2**30


def ray_findings(address: str | None) -> Iterator[Finding]:
    """Yields whether the cluster answers, and what it has.

    Args:
        address: what `--ray-address` says; default RAY_ADDRESS. Without either nothing is looked at.
    """
    address, named_by = (address, "--ray-address") if address else (os.environ.get("RAY_ADDRESS"), "RAY_ADDRESS")
    if not address:
        if find_spec("ray") is not None:
            yield ok("ray cluster", "none is named (--ray-address, RAY_ADDRESS): runs are local unless asked otherwise")
        return
    what = f"ray cluster {address}"
    if find_spec("ray") is None:
        yield fail(what, f"{named_by} names it, and ray is not installed", "pip install 'sidecar-runtimes[ray]'")
        return
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sidecar_cli.doctor.ray_probe", address],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield fail(what, f"no answer in {_ANSWER_S:.0f} s", "check the address, and that both have the same Ray")
        return
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        yield fail(what, f"attaching ended with {done.returncode}: {last}", "check the address, and both Ray versions")
        return
    if "error" in found:
        yield fail(what, str(found["error"]).partition("\n")[0], str(found["fix"] or "check the address"))
        return
    nodes: list[dict[str, float]] = found["nodes"]
    cores, memory = sum(node["cpus"] for node in nodes), sum(node["memory_bytes"] for node in nodes)
    yield ok(what, f"{counted(len(nodes), 'node')}; for workers {cores:g} CPU and {memory / _GIB:.1f} GiB")
