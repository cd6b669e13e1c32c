"""Fills a job's template from a plan."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.problems import did_you_mean
from sidecar_runtimes.sizing import count_nodes

from sidecar_cli.jobs.placeholders import PLACEHOLDERS, fill, placeholders_in

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar_cli.sizing import ClusterPlan

KINDS = ("kuberay", "utp")
_KEPT_CPUS = 1  # what Kubernetes keeps of a node for itself
_KEPT_MEMORY_FRACTION = 0.05


def template_text(kind: str, name: str) -> str:
    """Returns the text of a template, such as `kuberay`, `filters-actor`."""
    return (files("sidecar_cli.jobs") / kind / f"{name}.yaml").read_text(encoding="utf-8")


def write_job(plan: ClusterPlan, *, kind: str, file: Path, pipeline: Path) -> list[str]:
    """Writes the manifest of a job that runs a plan, and says on stderr what is left to replace.

    Args:
        plan: the plan.
        kind: `kuberay` or `utp`.
        file: where it goes; must not exist.
        pipeline: the pipeline's file, which the image has under the same name.

    Returns:
        The placeholders that are left.

    Raises:
        UsageError: no such kind.
        RefusedError: the file exists.
    """
    if kind not in KINDS:
        raise UsageError(f"--write {kind}: no such kind of job{did_you_mean(kind, KINDS)}", ", ".join(KINDS))
    template = _template_of(plan)
    nodes = plan.nodes
    pod = replace(
        nodes.instance,
        cpus=nodes.instance.cpus - _KEPT_CPUS,
        memory_gib=float(int(nodes.instance.memory_gib * (1 - _KEPT_MEMORY_FRACTION))),
    )
    held = nodes
    if kind == "kuberay":
        held = count_nodes(plan.workers, plan.size, pod, memory_fraction=nodes.memory_fraction)
    values = {
        "PIPELINE": shlex.quote(pipeline.name),
        "WORKERS": str(plan.workers),
        "INFLIGHT": str(plan.workers),
        "WORKER_CPUS": str(plan.size.cpus),
        "WORKER_MEMORY_GIB": f"{plan.size.memory_gib:g}",
        "NODES": str(held.nodes),
        "NODE_CPUS": str(pod.cpus),
        "NODE_MEMORY": f"{pod.memory_gib:.0f}Gi",
        "INSTANCE_TYPE": nodes.instance.name,
    }
    text = fill(template_text(kind, template), values)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError as error:
        raise RefusedError(f"{str(file)!r} exists", "a new file", f"--write {kind} ELSEWHERE") from error
    left = placeholders_in(text)
    sys.stderr.write(f"{file}: from the template {kind}/{template}; left to replace:\n")
    sys.stderr.writelines(f"  <{name}>  {PLACEHOLDERS[name][0]}\n" for name in left)
    return left


def _template_of(plan: ClusterPlan) -> str:
    if plan.resizes:
        return "resize"
    return "filters-actor" if plan.shape[0] == "actor" else "filters-task"
