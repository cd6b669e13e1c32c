"""What a worker process of a cluster holds for the shards that it is sent: made once, from the plan's JSON."""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sidecar_core.execute import ShardResources
from sidecar_core.isolation import IsolationOptions, shared_pool
from sidecar_core.plan import RunPlan
from sidecar_core.side_inputs import load_side_inputs
from sidecar_core.storage import open_storage

from sidecar_runtimes.attempts import try_shard
from sidecar_runtimes.flight_recorder import FlightRecorder

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from sidecar_core.plan import PlannedShard

    from sidecar_runtimes.attempts import ShardAttempt

MAX_CHILD_BYTES = 4 << 30
_LOOKS = 4
_LOOK_S = 0.25


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker process computes.

    Attributes:
        workers: its isolated children.
        memory_bytes: what was reserved for it on its node, or None when nothing was.
    """

    workers: int
    memory_bytes: int | None = None

    @property
    def isolation(self) -> IsolationOptions:
        """The pool's options: each child may map its part of the reservation, and never more than 4 GiB."""
        cap = MAX_CHILD_BYTES
        if self.memory_bytes is not None:
            cap = min(cap, self.memory_bytes // self.workers)
        return IsolationOptions(workers=self.workers, memory_cap_bytes=cap)


class WorkerProcess:
    """The plan, storages and children of a worker process; may be used by several threads.

    Args:
        plan_text: `RunPlan.to_json` as text. Nothing else of the driver is needed here.
        settings: how it computes.
        with_side_inputs: whether to load what ops declare.

    Raises:
        SidecarError: the plan cannot be had here, or a side input does not load.
    """

    def __init__(self, plan_text: str, settings: WorkerSettings, *, with_side_inputs: bool) -> None:
        self.plan = RunPlan.from_json(json.loads(plan_text))
        dataset = self.plan.dataset
        self._main = open_storage(dataset.main_prefix, dataset.storage)
        self._outputs = tuple(open_storage(output.prefix, dataset.storage) for output in self.plan.outputs)
        self._settings = settings
        self._side_inputs = load_side_inputs(self.plan) if with_side_inputs else {}
        self._flight = FlightRecorder(self.plan.run_id)
        self._lock = threading.Lock()
        self._users = 0

    def run(self, shard: PlannedShard, number: int) -> ShardAttempt:
        """Makes one attempt at a shard; errors are results."""
        with self._flight.shard(shard.rel_path), self._staging() as staging:
            resources = ShardResources(
                main=self._main,
                outputs=self._outputs,
                isolation=shared_pool(self._settings.isolation),
                staging=staging,
                side_inputs=self._side_inputs,
            )
            return try_shard(self.plan, shard, resources, number=number)

    @contextmanager
    def _staging(self) -> Generator[tuple[Path, ...]]:
        """This process's staging folders, removed when its last shard under way has ended."""
        with self._lock:
            if self._users == 0:
                for output in self._outputs:
                    output.clean_staging()
            self._users += 1
            folders = tuple(output.staging_dir(self.plan.run_id) for output in self._outputs)
        try:
            yield folders
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    for folder in folders:
                        shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=1)
def task_process(plan_text: str, settings: WorkerSettings) -> WorkerProcess:
    """Returns this process's `WorkerProcess` for tasks, which come one at a time and have no side inputs."""
    return WorkerProcess(plan_text, settings, with_side_inputs=False)


def clean_after_workers(plan: RunPlan, *, just_ended: bool) -> None:
    """Removes what dead workers of this machine had begun.

    Args:
        plan: the run's plan.
        just_ended: whether some were told to end a moment ago, and need another one to be gone.
    """
    outputs = [open_storage(output.prefix, plan.dataset.storage) for output in plan.outputs]
    for look in range(_LOOKS if just_ended else 1):
        time.sleep(_LOOK_S if look else 0)
        for output in outputs:
            output.clean_staging()
