"""Which runtime processes the shards, and why, in words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sidecar_core.errors import UsageError
from sidecar_core.problems import did_you_mean

from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.options import RUNTIMES
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.ray_cluster import refuse_without_ray
from sidecar_runtimes.ray_tasks import RayTaskRuntime, refuse_side_inputs

if TYPE_CHECKING:
    from sidecar_core.pipeline import Pipeline

    from sidecar_runtimes.base import Runtime

_MANY_FILTERS = 2


class RuntimeOptions(Protocol):
    """What decides the runtime and its numbers; names as on the command line."""

    @property
    def runtime(self) -> str: ...
    @property
    def ray_address(self) -> str | None: ...
    @property
    def workers(self) -> int | None: ...
    @property
    def retries(self) -> int: ...
    @property
    def max_inflight(self) -> int | None: ...
    @property
    def task_cpus(self) -> int | None: ...
    @property
    def task_memory_gb(self) -> float | None: ...
    @property
    def num_actors(self) -> int | None: ...
    @property
    def actor_cpus(self) -> int | None: ...
    @property
    def actor_memory_gb(self) -> float | None: ...
    @property
    def per_actor_inflight(self) -> int | None: ...


# What only one runtime understands; said with another one, it would be ignored in silence.
_OWN_OPTIONS = {
    "ray": ("task_cpus", "task_memory_gb", "max_inflight"),
    "actor": ("num_actors", "actor_cpus", "actor_memory_gb", "per_actor_inflight"),
}


@dataclass(frozen=True)
class RuntimeChoice:
    """A runtime's name and why it was chosen.

    Attributes:
        name: `local`, `ray` or `actor`.
        reason: one clause, for people.
        address: of the cluster, or None for one on this machine.
    """

    name: str
    reason: str
    address: str | None = None


def choose_runtime(pipeline: Pipeline, options: RuntimeOptions) -> RuntimeChoice:
    """Decides the runtime: the named one, or with `auto` one that fits the pipeline and what there is.

    Raises:
        UsageError: no such runtime, options that the named runtime would not heed, or Ray is not installed.
    """
    if options.runtime not in RUNTIMES:
        nearest = did_you_mean(options.runtime, RUNTIMES)
        raise UsageError(f"--runtime {options.runtime!r}: no such runtime{nearest}", ", ".join(RUNTIMES))
    address, named_by = options.ray_address, "--ray-address"
    if address is None:
        address, named_by = os.environ.get("RAY_ADDRESS") or None, "RAY_ADDRESS"
    if options.runtime == "local":
        _refuse_unheeded(options, "local")
        return RuntimeChoice("local", "asked for")
    if options.runtime != "auto":
        _refuse_unheeded(options, options.runtime)
        refuse_without_ray()
        where = f"on the cluster that {named_by} names" if address else "on a cluster of this machine alone"
        return RuntimeChoice(options.runtime, f"asked for, {where}", address)
    if address is None:
        return RuntimeChoice("local", "no Ray cluster is named (--ray-address, RAY_ADDRESS)")
    refuse_without_ray()
    name, why = choose_shape(pipeline)
    return RuntimeChoice(name, f"{named_by} names a cluster, and {why}", address)


def choose_shape(pipeline: Pipeline) -> tuple[str, str]:
    """Returns `actor` or `ray`, whichever fits the pipeline on a cluster, and why, in one clause."""
    with_side_inputs = [op.type_name for op in pipeline.operations if op.declare_side_inputs(pipeline.dataset)]
    if with_side_inputs:
        return "actor", f"{with_side_inputs[0]!r} has side inputs"
    filters = _count_filters(pipeline)
    if filters > _MANY_FILTERS:
        return "actor", f"{filters} filters are worth workers that stay"
    return "ray", "shards need nothing that must be kept between them"


def make_runtime(options: RuntimeOptions, pipeline: Pipeline) -> Runtime:
    """Makes the runtime that `choose_runtime` decides; starts nothing yet.

    Raises:
        UsageError: an option makes no sense.
        SideInputsError: runtime `ray` was asked for, and an op has side inputs.
    """
    _check_numbers(options)
    choice = choose_runtime(pipeline, options)
    if choice.name == "ray":
        refuse_side_inputs(pipeline)
        return RayTaskRuntime(
            address=choice.address,
            task_cpus=options.task_cpus or 1,
            task_memory_gb=options.task_memory_gb,
            workers=options.workers,
            max_inflight=options.max_inflight,
            retries=options.retries,
        )
    if choice.name == "actor":
        return RayActorRuntime(
            address=choice.address,
            num_actors=options.num_actors,
            actor_cpus=options.actor_cpus or 1,
            actor_memory_gb=options.actor_memory_gb,
            workers=options.workers,
            per_actor_inflight=options.per_actor_inflight or 2,
            retries=options.retries,
        )
    return LocalRuntime(workers=options.workers, retries=options.retries)


def _count_filters(pipeline: Pipeline) -> int:
    """Returns the filters of all `compute_filters` ops, which this package knows by name only."""
    chosen = [getattr(op.params, "filters", ()) for op in pipeline.operations if op.type_name == "compute_filters"]
    return sum(len(each) if isinstance(each, (list, tuple)) else _MANY_FILTERS + 1 for each in chosen)


def _refuse_unheeded(options: RuntimeOptions, runtime: str) -> None:
    for owner, names in _OWN_OPTIONS.items():
        for name in names:
            if owner != runtime and getattr(options, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is for --runtime {owner}, and this is {runtime!r}", None, f"leave out {flag}")


def _check_numbers(options: RuntimeOptions) -> None:
    for name in ("task_cpus", "max_inflight", "num_actors", "actor_cpus", "per_actor_inflight"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value}: must be at least 1")
