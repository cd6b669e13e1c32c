"""The local runtime: this process reads and writes, isolated child processes compute."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Self

from sidecar_core.execute import RunCancelledError, ShardResources, run_shard
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.isolation.options import available_cores
from sidecar_core.side_inputs import load_side_inputs
from sidecar_core.storage import open_storage

from sidecar_runtimes.attempts import backoff_s, log_failure, try_shard
from sidecar_runtimes.base import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sidecar_core.outcome import ShardReport
    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

    from sidecar_runtimes.attempts import ShardWork
    from sidecar_runtimes.progress import RunObserver

_SHARDS_AT_ONCE = 2


class LocalRuntime(Runtime):
    """Runs shards on this machine.

    Args:
        workers: isolated child processes that compute rows; default the machine's cores.
        retries: further attempts for a shard whose error may pass.
        work: what is done with each shard; by default its outputs are made.
        shards_at_once: shards under way at a time; the second is read and written while the first is computed.
    """

    name: ClassVar[str] = "local"

    def __init__(
        self,
        *,
        workers: int | None = None,
        retries: int = 2,
        work: ShardWork = run_shard,
        shards_at_once: int = _SHARDS_AT_ONCE,
    ) -> None:
        self.workers: int = workers or available_cores()
        self.retries = retries
        self._work = work
        self._shards_at_once = shards_at_once

    def describe(self) -> dict[str, object]:
        """Returns the number of workers and of retries."""
        return {"workers": self.workers, "retries": self.retries}

    def run(
        self,
        plan: RunPlan,
        shards: Sequence[PlannedShard],
        observer: RunObserver,
        *,
        stop: threading.Event,
    ) -> Iterator[ShardReport]:
        """Yields one report a shard; see `Runtime.run`."""
        main = open_storage(plan.dataset.main_prefix, plan.dataset.storage)
        outputs = tuple(open_storage(output.prefix, plan.dataset.storage) for output in plan.outputs)
        tell = threading.Lock()

        def on_rows(rows: int, invalid: int) -> None:
            with tell:
                observer.rows_done(rows, invalid)

        with (
            IsolationPool(IsolationOptions(workers=self.workers)) as isolation,
            StagingFolders(plan, outputs) as staging,
        ):
            resources = ShardResources(
                main=main,
                outputs=outputs,
                isolation=isolation,
                staging=staging.paths,
                side_inputs=load_side_inputs(plan),
                cancelled=stop,
                on_rows=on_rows,
            )
            executor = ThreadPoolExecutor(self._shards_at_once, thread_name_prefix="sidecar-shard")
            attempt = partial(attempt_shard, plan, resources=resources, retries=self.retries, work=self._work)
            waiting = iter(shards)
            running: set[Future[ShardReport]] = set()
            try:
                while not stop.is_set():
                    for shard in islice(waiting, self._shards_at_once - len(running)):
                        running.add(executor.submit(attempt, shard))
                    if not running:
                        break
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        try:
                            report = future.result()
                        except RunCancelledError:  # the event was set by somebody else; there is nothing to report
                            continue
                        with tell:
                            observer.shard_finished(report)
                        yield report
            finally:
                stop.set()
                if running:
                    isolation.close()  # ends rows in flight, so that the shard threads return at once
                executor.shutdown(cancel_futures=True)


def attempt_shard(
    plan: RunPlan, shard: PlannedShard, resources: ShardResources, *, retries: int, work: ShardWork = run_shard
) -> ShardReport:
    """Runs a shard, again when its error may pass, and turns the last error into a report.

    Raises:
        RunCancelledError: the run was told to stop.
    """
    number = 1
    while True:
        counted = _CountedRows(resources.on_rows)
        attempt = try_shard(plan, shard, replace(resources, on_rows=counted.add), number=number, work=work)
        if attempt.report.status == "failed":
            counted.take_back()
            log_failure(attempt, resources.logger)
        if number > retries or not attempt.may_pass:
            return attempt.report
        resources.logger.warning(
            "%s: attempt %d failed, trying again: %s", shard.rel_path, number, attempt.report.error
        )
        if resources.cancelled is not None:
            resources.cancelled.wait(backoff_s(number))
        number += 1


class _CountedRows:
    """The rows of one attempt, told as they are computed, and taken back when the attempt fails."""

    def __init__(self, tell: Callable[[int, int], None] | None) -> None:
        self._tell = tell
        self._rows = 0
        self._invalid = 0

    def add(self, rows: int, invalid: int) -> None:
        self._rows += rows
        self._invalid += invalid
        if self._tell is not None:
            self._tell(rows, invalid)

    def take_back(self) -> None:
        if self._tell is not None and self._rows:
            self._tell(-self._rows, -self._invalid)


class StagingFolders:
    """One folder per output for shards that are not committed yet; removed at the end."""

    def __init__(self, plan: RunPlan, outputs: Sequence[Storage]) -> None:
        self._outputs = outputs
        self._run_id = plan.run_id
        self.paths: tuple[Path, ...] = ()

    def __enter__(self) -> Self:
        for output in self._outputs:
            output.clean_staging()
        self.paths = tuple(output.staging_dir(self._run_id) for output in self._outputs)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for path in self.paths:
            shutil.rmtree(path, ignore_errors=True)
