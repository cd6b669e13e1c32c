"""The runtime `actor`: a pool of Ray actors, each with its side inputs and several shards at a time."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from sidecar_core.errors import OpError, SidecarError
from sidecar_core.plugin_faults import words_of

from sidecar_runtimes.attempts import failed_attempt
from sidecar_runtimes.base import Runtime
from sidecar_runtimes.bundles import Bundle, checked_bundle
from sidecar_runtimes.interrupts import DeferredInterrupts
from sidecar_runtimes.ray_cluster import ClusterError, PendingWatch, RayCluster
from sidecar_runtimes.shard_queue import ShardQueue
from sidecar_runtimes.worker_process import WorkerProcess, WorkerSettings, clean_after_workers

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.plan import PlannedShard, RunPlan

    from sidecar_runtimes.attempts import ShardAttempt
    from sidecar_runtimes.progress import RunObserver
    from sidecar_runtimes.shard_queue import ShardTry, WorkerDeath

_LOOK_S = 1.0  # how often a waiting driver looks whether it must stop
_END_S = 10.0
_MAX_FALSE_STARTS = 3
_logger = logging.getLogger("sidecar")


class RayActorRuntime(Runtime):
    """Runs shards in Ray actors, each next shard in the one with the fewest under way.

    Args:
        address: of a cluster; None starts one on this machine.
        num_actors: actors; default as many as the cluster holds. Never more than there are shards.
        actor_cpus: cores that an actor reserves.
        actor_memory_gb: memory in GiB that an actor reserves, or None.
        workers: isolated children of an actor; default `actor_cpus`.
        per_actor_inflight: shards that an actor has at a time: one is read while another is computed.
        retries: further attempts for a shard whose error may pass.
    """

    name: ClassVar[str] = "actor"

    def __init__(
        self,
        *,
        address: str | None = None,
        num_actors: int | None = None,
        actor_cpus: int = 1,
        actor_memory_gb: float | None = None,
        workers: int | None = None,
        per_actor_inflight: int = 2,
        retries: int = 2,
    ) -> None:
        self.address = address
        self.bundle = checked_bundle("actor", actor_cpus, actor_memory_gb, flags=("--actor-cpus", "--actor-memory-gb"))
        self.settings = WorkerSettings(workers or actor_cpus, self.bundle.memory_bytes)
        self.num_actors = num_actors
        self.per_actor_inflight = per_actor_inflight
        self.retries = retries

    def describe(self) -> dict[str, object]:
        """Returns the number of actors, their reservation, and what each has under way."""
        return {
            "address": self.address,
            "num_actors": self.num_actors,
            "actor_cpus": self.bundle.cpus,
            "actor_memory_gb": self.bundle.memory_gb,
            "workers": self.settings.workers,
            "per_actor_inflight": self.per_actor_inflight,
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
            UsageError: Ray is not installed.
            ClusterError: no node can hold an actor, or actors end again and again while they start.
            OpError: a side input does not load.
        """
        with DeferredInterrupts() as interrupts, RayCluster(self.address, interrupts=interrupts) as cluster:
            fits = cluster.check(self.bundle)
            if not shards:
                return
            size = min(self.num_actors or fits, math.ceil(len(shards) / self.per_actor_inflight))
            queue = ShardQueue(shards, retries=self.retries, explain=partial(cluster.left_behind, plan.run_id))
            pool = ActorPool(cluster, plan, self.bundle, self.settings, size=size, inflight=self.per_actor_inflight)
            try:
                while not stop.is_set():
                    interrupts.act()
                    pool.hand_out(queue)
                    if not pool.busy:
                        if not len(queue):
                            break
                        if not pool.starting:  # every shard that is left pauses before its next attempt
                            stop.wait(min(_LOOK_S, queue.pause_s() or 0.0))
                            continue
                    for report in pool.reports(queue, _LOOK_S):
                        observer.rows_done(report.rows, report.invalid_rows)
                        observer.shard_finished(report)
                        yield report
            finally:
                stop.set()
                ended_some = pool.end()
                if ended_some or queue.deaths:
                    clean_after_workers(plan, just_ended=ended_some)


@dataclass
class _Member:
    """An actor of the pool as the driver sees it."""

    handle: Any
    started: Any  # Ray's reference to the answer of `ready`, until it is there
    node_id: str = ""
    running: dict[Any, ShardTry] = field(default_factory=dict[Any, "ShardTry"])

    @property
    def exclusive(self) -> bool:
        """Whether it has a shard that must be alone."""
        return any(shard_try.alone for shard_try in self.running.values())


class ActorPool:
    """Actors that are replaced when they die; their shards go back to the queue.

    Ray restarts and repeats nothing: a repeated call that kills its actor would take its neighbours along
    each time.

    Args:
        cluster: where they live.
        plan: the run's plan.
        bundle: what each reserves.
        settings: how each computes.
        size: how many.
        inflight: shards of an actor at a time.
    """

    def __init__(
        self, cluster: RayCluster, plan: RunPlan, bundle: Bundle, settings: WorkerSettings, *, size: int, inflight: int
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._size = size
        self._inflight = inflight
        self._watch = PendingWatch(cluster, bundle)
        self._false_starts = 0
        self._plan_ref = cluster.ray.put(json.dumps(plan.to_json()))
        self._class = cluster.ray.remote(
            **bundle.ray_options(), max_restarts=0, max_task_retries=0, max_concurrency=inflight
        )(ShardActor)
        self._members = [self._start() for _ in range(size)]

    @property
    def busy(self) -> bool:
        """Whether any shard is under way."""
        return any(member.running for member in self._members)

    @property
    def starting(self) -> bool:
        """Whether any actor has not answered yet."""
        return any(member.started is not None for member in self._members)

    def hand_out(self, queue: ShardQueue) -> None:
        """Gives shards to the actors that live, each to the one with the fewest under way."""
        while len(self._members) < min(self._size, len(queue) + sum(1 for each in self._members if each.running)):
            self._members.append(self._start())
        while True:
            free = [
                member
                for member in self._members
                if member.started is None and len(member.running) < self._inflight and not member.exclusive
            ]
            shard_try = member = None
            for member in sorted(free, key=lambda member: len(member.running)):
                shard_try = queue.take(idle=not member.running)
                if shard_try is not None:
                    break
            if member is None or shard_try is None:
                return
            member = self._elsewhere(free, member, shard_try)
            member.running[member.handle.run.remote(shard_try.shard, shard_try.number)] = shard_try

    def reports(self, queue: ShardQueue, timeout_s: float) -> Iterator[ShardReport]:
        """Waits for an answer, takes all that are there, and yields the final reports among them.

        Raises:
            SidecarError: actors cannot be started, or cannot process any shard.
        """
        waiting = [ref for member in self._members for ref in (member.started, *member.running) if ref is not None]
        ended = set(self._cluster.ready(waiting, timeout_s))
        self._watch.look(sum(1 for member in self._members if member.started is not None), len(self._members))
        for member in list(self._members):
            if member.started in ended:
                self._greet(member)
            for ref in [ref for ref in member.running if ref in ended]:
                if ref not in member.running:  # the actor died with an earlier one
                    continue
                yield from self._take(queue, member, ref)

    def end(self) -> bool:
        """Ends every actor; returns whether any had a shard under way."""
        running = [ref for member in self._members for ref in member.running]
        for member in self._members:
            self._cluster.ray.kill(member.handle)
        if running:
            self._cluster.ray.wait(running, num_returns=len(running), timeout=_END_S, fetch_local=False)
        self._members.clear()
        return bool(running)

    def _start(self) -> _Member:
        handle = self._class.remote(self._plan_ref, self._settings)
        return _Member(handle, handle.ready.remote())

    def _elsewhere(self, free: list[_Member], member: _Member, shard_try: ShardTry) -> _Member:
        """Returns an actor as free as `member` on a node where the shard has not failed, or `member`."""
        same = [each for each in free if len(each.running) == len(member.running)]
        return next((each for each in same if each.node_id not in shard_try.avoid), member)

    def _greet(self, member: _Member) -> None:
        """Takes in the first answer of an actor."""
        try:
            member.node_id, failure = self._cluster.ray.get(member.started)
        except self._cluster.ray.exceptions.RayTaskError as error:
            raise ClusterError(f"an actor cannot be started: {error}") from error
        except self._cluster.ray.exceptions.RayError as error:
            self._members.remove(member)
            self._false_starts += 1
            death = self._cluster.death_in(error)
            _logger.warning("an actor ended while it started: %s (%s)", death.fact, death.error_type)
            if self._false_starts >= _MAX_FALSE_STARTS:
                message = f"{self._false_starts} actors in a row ended while they started: {death.fact}"
                raise ClusterError(message, None, "look at the memory that its side inputs need") from error
            return
        if failure is not None:
            raise failure
        member.started = None
        self._false_starts = 0

    def _take(self, queue: ShardQueue, member: _Member, ref: object) -> Iterator[ShardReport]:
        """Yields the final report of the shard of `ref`, or of all the actor's shards when it died."""
        shard_try = member.running.pop(ref)
        try:
            attempt: ShardAttempt = self._cluster.ray.get(ref)
        except self._cluster.ray.exceptions.RayError as error:
            if self._cluster.is_death(error):
                yield from self._bury(queue, member, shard_try, self._cluster.death_in(error, node_id=member.node_id))
                return
            attempt = replace(failed_attempt(shard_try.shard, error, number=shard_try.number), may_pass=True)
        report = queue.ended(shard_try, attempt, place=member.node_id)
        if report is not None:
            yield report

    def _bury(
        self, queue: ShardQueue, member: _Member, shard_try: ShardTry, death: WorkerDeath
    ) -> Iterator[ShardReport]:
        """Gives back the shards of a dead actor; those that had ended before it died have their answers."""
        self._members.remove(member)
        self._cluster.ray.kill(member.handle)  # one that is only out of reach must not go on
        lost = [shard_try]
        for ref in list(member.running):
            other = member.running.pop(ref)
            try:
                report = queue.ended(other, self._cluster.ray.get(ref, timeout=_END_S), place=member.node_id)
            except self._cluster.ray.exceptions.RayError:
                lost.append(other)
            else:
                if report is not None:
                    yield report
        _logger.warning("an actor ended with %d shards: %s (%s)", len(lost), death.fact, death.error_type)
        for each in lost:
            report = queue.worker_died(each, death, place=member.node_id, others=len(lost) - 1)
            if report is not None:
                yield report


class ShardActor:
    """What lives in an actor's process."""

    def __init__(self, plan_text: str, settings: WorkerSettings) -> None:
        self._failure: SidecarError | None = None
        try:
            self._process = WorkerProcess(plan_text, settings, with_side_inputs=True)
        except SidecarError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - told to the driver, which ends the run
            self._failure = OpError(f"an actor cannot be made ready: {words_of(error)}")

    def ready(self) -> tuple[str, SidecarError | None]:
        """Returns its node's id, and why it cannot work, if it cannot."""
        import ray

        return ray.get_runtime_context().get_node_id(), self._failure

    def run(self, shard: PlannedShard, number: int) -> ShardAttempt:
        """Makes one attempt at a shard."""
        return self._process.run(shard, number)
