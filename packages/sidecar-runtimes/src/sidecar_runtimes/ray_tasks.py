"""The runtime `ray`: one stateless task a shard, in a sliding window."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from sidecar_core.errors import SidecarError, StorageError, UsageError

from sidecar_runtimes.attempts import failed_attempt
from sidecar_runtimes.base import Runtime
from sidecar_runtimes.bundles import checked_bundle
from sidecar_runtimes.interrupts import DeferredInterrupts
from sidecar_runtimes.ray_cluster import RayCluster
from sidecar_runtimes.shard_queue import ShardQueue
from sidecar_runtimes.worker_process import WorkerSettings, clean_after_workers, task_process

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.pipeline import Pipeline
    from sidecar_core.plan import PlannedShard, RunPlan

    from sidecar_runtimes.attempts import ShardAttempt
    from sidecar_runtimes.progress import RunObserver
    from sidecar_runtimes.shard_queue import ShardTry

_LOOK_S = 1.0  # how often a waiting driver looks whether it must stop
_END_S = 10.0
_MIN_WINDOW = 16


class SideInputsError(UsageError, NotImplementedError):
    """The runtime cannot give ops the side inputs that they declare; names the op, and a runtime that can."""


class RayTaskRuntime(Runtime):
    """Schedules shards on Ray as tasks; what happens to a shard is the same for every runtime.

    Args:
        address: of a cluster; None starts one on this machine.
        task_cpus: cores that a task reserves.
        task_memory_gb: memory in GiB that a task reserves, or None.
        workers: isolated children of a task's process; default `task_cpus`.
        max_inflight: tasks submitted at a time; default twice what the cluster holds, at least 16.
        retries: further attempts for a shard whose error may pass.
    """

    name: ClassVar[str] = "ray"

    def __init__(
        self,
        *,
        address: str | None = None,
        task_cpus: int = 1,
        task_memory_gb: float | None = None,
        workers: int | None = None,
        max_inflight: int | None = None,
        retries: int = 2,
    ) -> None:
        self.address = address
        self.bundle = checked_bundle("task", task_cpus, task_memory_gb, flags=("--task-cpus", "--task-memory-gb"))
        self.settings = WorkerSettings(workers or task_cpus, self.bundle.memory_bytes)
        self.max_inflight = max_inflight
        self.retries = retries

    def describe(self) -> dict[str, object]:
        """Returns the task's reservation, the window and the number of retries."""
        return {
            "address": self.address,
            "task_cpus": self.bundle.cpus,
            "task_memory_gb": self.bundle.memory_gb,
            "workers": self.settings.workers,
            "max_inflight": self.max_inflight,
            "retries": self.retries,
        }

    def run(
        self,
        plan: RunPlan,
        shards: Sequence[PlannedShard],
        observer: RunObserver,
        *,
        stop: threading.Event,
    ) -> Iterator[ShardReport]:
        """Yields one report a shard; see `Runtime.run`.

        Raises:
            SideInputsError: an op declares side inputs.
            UsageError: Ray is not installed.
            ClusterError: no node can hold a task.
        """
        refuse_side_inputs(plan.pipeline)
        with DeferredInterrupts() as interrupts, RayCluster(self.address, interrupts=interrupts) as cluster:
            fits = cluster.check(self.bundle)
            plan_ref = cluster.ray.put(json.dumps(plan.to_json()))
            task = cluster.ray.remote(**self.bundle.ray_options(), max_retries=0)(_run_task)

            def submit(shard_try: ShardTry) -> Any:  # noqa: ANN401 - Ray's reference
                chosen = task.options(scheduling_strategy=cluster.elsewhere(shard_try.avoid))
                return chosen.remote(plan_ref, self.settings, shard_try.shard, shard_try.number)

            queue = ShardQueue(shards, retries=self.retries, explain=partial(cluster.left_behind, plan.run_id))
            window = SlidingWindow(self.max_inflight or max(_MIN_WINDOW, 2 * fits), submit=submit, ready=cluster.ready)
            try:
                while not stop.is_set():
                    interrupts.act()
                    window.fill(queue)
                    if not window.inflight:
                        if not len(queue):
                            break
                        stop.wait(min(_LOOK_S, queue.pause_s() or 0.0))
                        continue
                    for shard_try, ref in window.ended(_LOOK_S):
                        report = _settle(cluster, queue, shard_try, ref)
                        if report is not None:
                            observer.rows_done(report.rows, report.invalid_rows)
                            observer.shard_finished(report)
                            yield report
            finally:
                stop.set()
                _end_tasks(cluster, list(window.inflight))
                if window.inflight or queue.deaths:
                    clean_after_workers(plan, just_ended=bool(window.inflight))


class SlidingWindow:
    """At most so many attempts under way: wait for one, take all that have ended, refill.

    Args:
        max_inflight: attempts under way at most.
        submit: starts an attempt and returns a reference to its result.
        ready: waits up to so many seconds until one of the references has a result; returns all that do.
    """

    def __init__(
        self,
        max_inflight: int,
        *,
        submit: Callable[[ShardTry], Any],
        ready: Callable[[Sequence[Any], float], Sequence[Any]],
    ) -> None:
        self.max_inflight = max_inflight
        self.inflight: dict[Any, ShardTry] = {}
        self._submit = submit
        self._ready = ready

    def fill(self, queue: ShardQueue) -> None:
        """Starts what the queue has, up to the window's size."""
        while len(self.inflight) < self.max_inflight:
            shard_try = queue.take()
            if shard_try is None:
                return
            self.inflight[self._submit(shard_try)] = shard_try

    def ended(self, timeout_s: float) -> Iterator[tuple[ShardTry, Any]]:
        """Yields the attempts that have ended, waiting for the first of them; none after `timeout_s`."""
        for ref in self._ready(list(self.inflight), timeout_s):
            yield self.inflight.pop(ref), ref


def refuse_side_inputs(pipeline: Pipeline) -> None:
    """Raises SideInputsError when an op needs what a stateless task cannot keep."""
    for index, op in enumerate(pipeline.operations):
        for name in op.declare_side_inputs(pipeline.dataset):
            problem = pipeline.problem(
                ("operations", index),
                f"runtime 'ray' cannot load side inputs, and {op.type_name!r} declares {name!r}",
                expected="a runtime with side inputs: local, actor",
                fix="--runtime actor",
            )
            raise SideInputsError(str(problem))


def _run_task(
    plan_text: str, settings: WorkerSettings, shard: PlannedShard, number: int
) -> tuple[ShardAttempt | SidecarError, str]:
    """The task: makes one attempt; returns it, or why none can be made here, and the node's id."""
    import ray

    node_id: str = ray.get_runtime_context().get_node_id()
    try:
        process = task_process(plan_text, settings)
    except StorageError as error:
        return failed_attempt(shard, error, number=number), node_id
    except SidecarError as error:
        return error, node_id
    return process.run(shard, number), node_id


def _settle(cluster: RayCluster, queue: ShardQueue, shard_try: ShardTry, ref: object) -> ShardReport | None:
    """Returns the shard's final report, or None when it is tried again.

    Raises:
        SidecarError: no worker can process any shard.
    """
    try:
        attempt, node_id = cluster.ray.get(ref)
    except cluster.ray.exceptions.RayTaskError as error:
        raise SidecarError(f"{shard_try.shard.rel_path}: a worker cannot run shards: {error}") from error
    except cluster.ray.exceptions.RayError as error:
        if cluster.is_death(error):
            return queue.worker_died(shard_try, cluster.death_in(error))
        return queue.ended(
            shard_try, replace(failed_attempt(shard_try.shard, error, number=shard_try.number), may_pass=True)
        )
    if isinstance(attempt, SidecarError):
        raise attempt
    return queue.ended(shard_try, attempt, place=node_id)


def _end_tasks(cluster: RayCluster, refs: list[Any]) -> None:
    """Ends the processes of the tasks under way."""
    for ref in refs:
        cluster.ray.cancel(ref, force=True)
    if refs:
        cluster.ray.wait(refs, num_returns=len(refs), timeout=_END_S, fetch_local=False)
