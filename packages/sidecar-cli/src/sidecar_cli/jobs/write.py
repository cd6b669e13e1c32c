"""Fills a job's template from a plan."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError, StorageError, UsageError
from sidecar_core.problems import did_you_mean
from sidecar_core.storage.uris import scheme_of
from sidecar_runtimes.sizing import count_nodes

from sidecar_cli.jobs.placeholders import fill, placeholders_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sidecar_cli.sizing import ClusterPlan

KINDS = ("kuberay", "utp")
_KEPT_CPUS = 1  # what Kubernetes keeps of a node for itself
_KEPT_MEMORY_FRACTION = 0.05
_RESIZED = {"512", "1024"}  # outputs for which there is a template of their own
_MAIN_PREFIX = "dataset.main_prefix="
_ONE_OUTPUT = "--output-prefix <OUTPUT_PREFIX>"


@dataclass(frozen=True)
class WrittenJob:
    """A manifest that was written.

    Attributes:
        template: the template that it was made from, such as `kuberay/resize`.
        left: the placeholders that are left to replace.
    """

    template: str
    left: tuple[str, ...]


def template_text(kind: str, name: str) -> str:
    """Returns the text of a template, such as `kuberay`, `filters-actor`."""
    return (files("sidecar_cli.jobs") / kind / f"{name}.yaml").read_text(encoding="utf-8")


def check_target(kind: str, file: Path, pipeline: Path) -> None:
    """Refuses what `write_job` could not write, before anything is measured.

    Raises:
        UsageError: no such kind, or the pipeline's file has a name that no text can hold.
        RefusedError: the file exists.
        StorageError: it cannot be made there.
    """
    if kind not in KINDS:
        raise UsageError(f"--write {kind}: no such kind of job{did_you_mean(kind, KINDS)}", ", ".join(KINDS))
    try:
        pipeline.name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"--write: the name {pipeline.name!r} is not UTF-8", fix="rename the pipeline") from error
    if os.path.lexists(file):
        raise _exists(kind, file)
    if not os.access(file.parent, os.W_OK | os.X_OK):
        fact = "may not be written to" if file.parent.is_dir() else "is no folder"
        raise StorageError(f"{str(file)!r} cannot be written: {str(file.parent)!r} {fact}")


def write_job(plan: ClusterPlan, *, kind: str, file: Path, pipeline: Path, overrides: Sequence[str] = ()) -> WrittenJob:
    """Writes the manifest of a job that runs a plan: on the nodes that are to be had, or else on those it needs.

    Args:
        plan: the plan.
        kind: `kuberay` or `utp`, which `check_target` has looked at.
        file: where it goes; must not exist.
        pipeline: the pipeline's file, which the image has under the same name.
        overrides: the values of `--set` that the plan was made with, which the job takes over; a main prefix only when
            it is in an object store, since no other machine has this one's folders.

    Raises:
        UsageError: no worker fits into a pod.
        RefusedError: the file exists.
        StorageError: it cannot be written.
    """
    nodes = plan.nodes
    pod = replace(
        nodes.instance,
        name=f"a pod on {nodes.instance.name}",
        cpus=nodes.instance.cpus - _KEPT_CPUS,
        memory_gib=float(int(nodes.instance.memory_gib * (1 - _KEPT_MEMORY_FRACTION))),
    )
    held = nodes
    if kind == "kuberay":
        held = count_nodes(plan.workers, plan.size, pod, memory_fraction=nodes.memory_fraction)
    to_be_had = plan.request.nodes
    workers = plan.workers if to_be_had is None else to_be_had * held.workers_a_node
    values = {
        "PIPELINE": shlex.quote(pipeline.name),
        "WORKERS": str(workers),
        "INFLIGHT": str(workers),
        "WORKER_CPUS": str(plan.size.cpus),
        "WORKER_MEMORY_GIB": f"{plan.size.memory_gib:g}",
        "NODES": str(held.nodes if to_be_had is None else to_be_had),
        "NODE_CPUS": str(pod.cpus),
        "NODE_MEMORY": f"{pod.memory_gib:.0f}Gi",
        "INSTANCE_TYPE": nodes.instance.name,
        "MAIN_PREFIX": _main_prefix(overrides),
    }
    template = _template_of(plan)
    text = fill(template_text(kind, template).replace(_ONE_OUTPUT, _output_words(plan.outputs)), values)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError as error:
        raise _exists(kind, file) from error
    except OSError as error:
        raise StorageError(f"{str(file)!r} cannot be written: {error.strerror}") from error
    return WrittenJob(f"{kind}/{template}", tuple(placeholders_in(text)))


def _exists(kind: str, file: Path) -> RefusedError:
    return RefusedError(f"{str(file)!r} exists", "a new file", f"--write {kind} ELSEWHERE")


def _template_of(plan: ClusterPlan) -> str:
    if plan.shape[0] == "actor":
        return "filters-actor"
    return "resize" if set(plan.outputs) == _RESIZED else "filters-task"


def _output_words(outputs: Sequence[str]) -> str:
    """Returns the part of a command that says where outputs go; each of several goes below one prefix."""
    if len(outputs) == 1:
        return _ONE_OUTPUT
    return " ".join(f"--output {shlex.quote(name)}=<OUTPUT_PREFIX>{shlex.quote(name)}/" for name in outputs)


def _main_prefix(overrides: Sequence[str]) -> str:
    """Returns what stands behind `--set dataset.main_prefix=` of a template: the prefix, and every other `--set`."""
    prefix, others = "<MAIN_PREFIX>", ""
    for given in overrides:
        value = given.removeprefix(_MAIN_PREFIX)
        if value == given:
            others += f" --set {shlex.quote(given)}"
        elif scheme_of(value.strip("'\"").lower()) != "file":
            prefix = shlex.quote(value)
    return prefix + others
