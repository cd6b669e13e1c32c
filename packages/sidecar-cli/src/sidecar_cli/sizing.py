"""What `sidecar plan` finds out and says: the arithmetic from a rate to workers, nodes, hours and cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sidecar_core.errors import UsageError
from sidecar_core.isolation.options import available_cores
from sidecar_core.problems import counted
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import open_storage
from sidecar_runtimes.choose import choose_shape
from sidecar_runtimes.instance_types import INSTANCE_TYPES, find_instance_type, load_instance_types
from sidecar_runtimes.sizing import (
    RAY_MEMORY_FRACTION,
    Duration,
    NodeCount,
    ObservedRate,
    WorkerSize,
    count_nodes,
    duration,
    required_workers,
    shards_per_hour,
)
from sidecar_runtimes.smoke import SmokeReport, run_smoke

from sidecar_cli.decode_cost import mean_decode_seconds
from sidecar_cli.output import Block, Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.pipeline import Pipeline
    from sidecar_runtimes.instance_types import InstanceType

GIB = 2**30
_SHARDS_LOOKED_AT = 8
_HEADROOM = 1.25
_MEMORY_STEP_GIB = 0.5
_BUSY_RATIO = 1.5
_WHOLE_USD = 100  # from here on cents say nothing


@dataclass(frozen=True)
class PlanRequest:
    """What is asked; names as on the command line."""

    target_rows_per_hour: int
    smoke: int | None = None
    observed_rate: float | None = None
    observed_actors: int | None = None
    rows_per_shard: int | None = None
    rows: int | None = None
    actor_cpus: int = 1
    actor_memory_gb: float | None = None
    instance_type: str = "m5.24xlarge"
    instance_types: str | None = None
    memory_fraction: float = RAY_MEMORY_FRACTION
    usd_per_hour: float | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class ClusterPlan:
    """What a rate needs.

    Attributes:
        request: what was asked.
        shape: `actor` or `ray`, and why.
        outputs: names of the pipeline's outputs.
        rows_per_shard: rows of a shard.
        observed: the rate that everything follows from.
        smoke: the measurement it came from, if any.
        decode_share: CPU seconds of decoding alone as a share of the pipeline's, when measured.
        workers: actors, or tasks at a time.
        size: what each reserves.
        nodes: how many hold them.
        target: the asked rows at that scale, when their number was given.
        at_hand: the asked rows, or one hour's target, on the nodes that are to be had.
    """

    request: PlanRequest
    shape: tuple[str, str]
    outputs: tuple[str, ...]
    rows_per_shard: int
    observed: ObservedRate
    smoke: SmokeReport | None
    decode_share: float | None
    workers: int
    size: WorkerSize
    nodes: NodeCount
    target: Duration | None
    at_hand: Duration | None


def plan_request(target_rows_per_hour: int, options: Mapping[str, Any]) -> PlanRequest:
    """Returns what a command's options ask for; others are ignored."""
    known = {field.name for field in fields(PlanRequest)}
    values: dict[str, Any] = {name: value for name, value in options.items() if name in known}
    return PlanRequest(target_rows_per_hour, **values)


def make_plan(pipeline: Pipeline, request: PlanRequest) -> ClusterPlan:
    """Works out a plan; with `request.smoke` it runs shards first.

    Raises:
        UsageError: neither or both of the two sources of a rate, or numbers that make no sense.
    """
    _check_rate(request)
    instance = _instance(request)
    here = min(request.actor_cpus, available_cores())  # a child process that has no core measures nothing
    measured = run_smoke(pipeline, shards=request.smoke, workers=here) if request.smoke else None
    rows_per_shard = request.rows_per_shard or (
        _rows_per_shard(pipeline) if measured is None else max(1, round(measured.rows_per_shard))
    )
    if measured is not None:
        observed = ObservedRate(measured.rows_per_s_per_core * request.actor_cpus / rows_per_shard)
    else:
        observed = ObservedRate(request.observed_rate or 0.0, request.observed_actors or 0)
    size = WorkerSize(request.actor_cpus, _memory_gib(request, measured))
    workers = required_workers(request.target_rows_per_hour, rows_per_shard, observed)
    nodes = count_nodes(workers, size, instance, memory_fraction=request.memory_fraction)

    def lasts(rows: int, count: int, workers: int) -> Duration:
        usd = instance.usd_per_hour
        return duration(rows, rows_per_shard, observed, workers=workers, nodes=count, usd_per_hour=usd)

    rows = request.rows or request.target_rows_per_hour
    return ClusterPlan(
        request=request,
        shape=choose_shape(pipeline),
        outputs=tuple(output.name for output in pipeline.outputs),
        rows_per_shard=rows_per_shard,
        observed=observed,
        smoke=measured,
        decode_share=_decode_share(pipeline, measured) if measured is not None else None,
        workers=workers,
        size=size,
        nodes=nodes,
        target=lasts(request.rows, nodes.nodes, workers) if request.rows else None,
        at_hand=lasts(rows, request.nodes, request.nodes * nodes.workers_a_node) if request.nodes else None,
    )


def describe_plan(plan: ClusterPlan) -> dict[str, Any]:
    """Returns the plan as JSON values."""
    nodes, measured = plan.nodes, plan.smoke
    return {
        "target_rows_per_hour": plan.request.target_rows_per_hour,
        "rows_per_shard": plan.rows_per_shard,
        "shards_per_hour": shards_per_hour(plan.request.target_rows_per_hour, plan.rows_per_shard),
        "observed": {"shards_per_s": plan.observed.shards_per_s, "workers": plan.observed.workers},
        "smoke": None
        if measured is None
        else {
            "shards": measured.shards,
            "rows": measured.rows,
            "invalid_rows": measured.invalid_rows,
            "cores": measured.workers,
            "rows_per_s_per_core": round(measured.rows_per_s_per_core, 2),
            "rows_per_cpu_s": round(measured.rows / measured.cpu_s, 2),
            "decode_share": None if plan.decode_share is None else round(plan.decode_share, 3),
            "main_peak_bytes": measured.main_peak_bytes,
            "worker_peak_bytes": measured.worker_peak_bytes,
        },
        "runtime": {"name": plan.shape[0], "why": plan.shape[1]},
        "workers": plan.workers,
        "worker": {"cpus": plan.size.cpus, "memory_gib": plan.size.memory_gib},
        "total": {"cpus": plan.workers * plan.size.cpus, "memory_gib": plan.workers * plan.size.memory_gib},
        "nodes": {
            "instance_type": nodes.instance.name,
            "cpus": nodes.instance.cpus,
            "memory_gib": nodes.instance.memory_gib,
            "memory_fraction": nodes.memory_fraction,
            "workers_a_node": nodes.workers_a_node,
            "by_cpu": nodes.nodes_by_cpu,
            "by_memory": nodes.nodes_by_memory,
            "count": nodes.nodes,
            "tighter": nodes.tighter,
            "usd_per_hour": nodes.instance.usd_per_hour,
        },
        "rows": _duration_data(plan.target),
        "at_hand": _duration_data(plan.at_hand),
    }


def plan_view(plan: ClusterPlan) -> list[Block]:
    """Returns the plan for people: each number with where it comes from."""
    request, nodes = plan.request, plan.nodes
    name = "actors" if plan.shape[0] == "actor" else "tasks at a time"
    asked = request.target_rows_per_hour
    hourly = shards_per_hour(asked, plan.rows_per_shard)
    rate, needed = _number(plan.observed.shards_per_s), _number(hourly / 3600)
    total = f"{plan.workers * plan.size.memory_gib:,.1f}".removesuffix(".0")
    kind = nodes.instance
    exposed = f"{kind.memory_gib * nodes.memory_fraction:.1f} GiB for workers ({nodes.memory_fraction:g})"
    view: list[Block] = [*_smoke_view(plan)]
    view.append(
        Facts(
            [
                ("target", f"{asked:,} rows/h"),
                (
                    "shards",
                    f"{asked:,} / {plan.rows_per_shard:,} rows a shard = {hourly:,} shards/h = {needed} shards/s",
                ),
                ("observed", f"{rate} shards/s from {counted(plan.observed.workers, 'worker')}"),
                (name, f"{needed} / {rate} x {plan.observed.workers:,} = {plan.workers:,}"),
                ("runtime", f"{plan.shape[0]}: {plan.shape[1]}"),
                ("each", f"{counted(plan.size.cpus, 'CPU')}, {plan.size.memory_gib:g} GiB"),
                ("together", f"{counted(plan.workers * plan.size.cpus, 'CPU')}, {total} GiB"),
            ],
            title="From the rate to the workers",
        )
    )
    view.append(
        Facts(
            [
                ("kind", f"{kind.name}: {counted(kind.cpus, 'CPU')}, {kind.memory_gib:g} GiB"),
                ("by CPU", f"{_a_node(nodes.workers_by_cpu)}, {counted(nodes.nodes_by_cpu, 'node')}"),
                (
                    "by memory",
                    f"{exposed}: {_a_node(nodes.workers_by_memory)}, {counted(nodes.nodes_by_memory, 'node')}",
                ),
                ("nodes", f"{nodes.nodes:,} beside the head" + _tighter(nodes)),
            ],
            title="Nodes",
        )
    )
    if plan.target is not None:
        view.append(_duration_view(plan.target, "All rows at that rate"))
    if plan.at_hand is not None:
        view.append(_duration_view(plan.at_hand, f"On what is to be had: {counted(plan.at_hand.nodes, 'node')}"))
    return view


def _smoke_view(plan: ClusterPlan) -> list[Block]:
    measured = plan.smoke
    if measured is None:
        return []
    cores = plan.request.target_rows_per_hour / 3600 / measured.rows_per_s_per_core
    by_cpu = measured.rows / measured.cpu_s
    is_busy = by_cpu > _BUSY_RATIO * measured.rows_per_s_per_core
    busy = "; other work kept this machine from it, so measure again when it is quiet" if is_busy else ""
    child, main = measured.worker_peak_bytes / GIB, measured.main_peak_bytes / GIB
    made = f"{counted(measured.shards, 'shard')}, {counted(measured.rows, 'row')}"
    used = counted(measured.workers, "core")
    share = "not measured" if plan.decode_share is None else f"{plan.decode_share:.0%} of the CPU time"
    return [
        Facts(
            [
                ("made", f"{made}, {measured.invalid_rows:,} invalid"),
                ("rate", f"{_number(measured.rows_per_s_per_core)} rows/s a core, with {used}"),
                ("by CPU time", f"{_number(by_cpu)} rows/s a core{busy}"),
                ("decoding alone", share),
                ("peak memory", f"{child:.2f} GiB a child process, {main:.2f} GiB the process that reads and writes"),
                ("target in cores", f"{counted(math.ceil(cores), 'core')} like this one"),
            ],
            title="Measured here",
        )
    ]


def _a_node(workers: int) -> str:
    return f"{counted(workers, 'worker')} a node"


def _tighter(nodes: NodeCount) -> str:
    match nodes.tighter:
        case "memory":
            return "; memory is the tighter one"
        case "cpu":
            return "; the cores are the tighter one"
        case _:
            return ""


def _duration_view(found: Duration, title: str) -> Facts:
    pairs: list[tuple[str, object]] = [
        ("rows", found.rows),
        ("workers", f"{found.workers:,} on {counted(found.nodes, 'node')}"),
        ("rate", f"{found.rows_per_hour:,.0f} rows/h"),
        ("hours", f"{found.hours:,.2f}"),
    ]
    if found.usd is not None:
        usd = f"{found.usd:,.0f}" if found.usd >= _WHOLE_USD else f"{found.usd:,.2f}"
        pairs.append(("cost", f"{usd} USD for the nodes, at list price"))
    return Facts(pairs, title=title)


def _duration_data(found: Duration | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "rows": found.rows,
        "workers": found.workers,
        "nodes": found.nodes,
        "rows_per_hour": round(found.rows_per_hour, 1),
        "hours": round(found.hours, 4),
        "usd": None if found.usd is None else round(found.usd, 2),
    }


def _check_rate(request: PlanRequest) -> None:
    given = (request.observed_rate is not None, request.observed_actors is not None)
    fix = "--smoke 4, or --observed-rate 0.12 --observed-actors 32"
    if request.smoke is not None and any(given):
        raise UsageError("--smoke and --observed-rate contradict each other", "one rate", fix)
    if request.smoke is None and not all(given):
        lacks = "nothing says how fast one worker is" if not any(given) else "--observed-rate and --observed-actors"
        said = lacks if not any(given) else f"{lacks} go together"
        raise UsageError(said, "a measured or an observed rate", fix)
    if request.smoke is None and request.actor_memory_gb is None:
        raise UsageError("nothing says how much memory each worker needs", None, "--actor-memory-gb GIB, or --smoke N")


def _instance(request: PlanRequest) -> InstanceType:
    table = INSTANCE_TYPES if request.instance_types is None else load_instance_types(request.instance_types)
    instance = find_instance_type(request.instance_type, table)
    return instance if request.usd_per_hour is None else replace(instance, usd_per_hour=request.usd_per_hour)


def _rows_per_shard(pipeline: Pipeline) -> int:
    """Returns the mean rows of the dataset's first shards, from their footers."""
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    shards = main.list_shards()[:_SHARDS_LOOKED_AT]
    if not shards:
        raise UsageError(f"no shards at {main.prefix}", None, "--rows-per-shard N says how many rows a shard has")
    rows: list[int] = []
    for info in shards:
        with open_parquet(main, info.rel_path) as file:
            rows.append(file.metadata.num_rows)
    return max(1, round(sum(rows) / len(rows)))


def _memory_gib(request: PlanRequest, measured: SmokeReport | None) -> float:
    if request.actor_memory_gb is not None or measured is None:
        return request.actor_memory_gb or 0.0
    needed = measured.memory_bytes(request.actor_cpus) * _HEADROOM / GIB
    return math.ceil(needed / _MEMORY_STEP_GIB) * _MEMORY_STEP_GIB


def _decode_share(pipeline: Pipeline, measured: SmokeReport) -> float | None:
    dataset = pipeline.dataset
    if dataset.image_column is None or not any(
        dataset.image_column in op.input_columns(dataset) for op in pipeline.operations
    ):
        return None
    main = open_storage(dataset.main_prefix, dataset.storage)
    alone = mean_decode_seconds(main, measured.first_shard, dataset)
    return None if alone is None else min(1.0, alone * measured.rows / measured.cpu_s)


def _number(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"
