from __future__ import annotations

import threading

from sidecar_core.errors import StorageError
from sidecar_core.execute import run_shard
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.run import prepare_run
from sidecar_runtimes.run_options import RunOptions
from sidecar_runtimes.testing.conformance import RuntimeConformance


class TestLocal(RuntimeConformance):
    survives_worker_death = False

    def make_runtime(self, *, retries=2):
        return LocalRuntime(workers=2, retries=retries)


def test_a_stop_from_elsewhere_gives_up_what_is_under_way_without_an_error(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {f"part-{number}.parquet": [b"x"] * 600 for number in range(4)})
    prepared = prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "out")))
    stop = threading.Event()

    class StopAtOnce(SilentObserver):
        def rows_done(self, rows, invalid):
            stop.set()

    assert list(LocalRuntime(workers=1).run(prepared.plan, prepared.to_do, StopAtOnce(), stop=stop)) == []
    assert read_dataset(tmp_path / "out") == {}


def test_rows_of_an_attempt_that_failed_are_taken_back(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {f"part-{number}.parquet": [b"x"] * 10 for number in range(3)})
    prepared = prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "out")))
    failures = {"part-0.parquet": 1, "part-1.parquet": 9}

    def fail_after_a_batch(plan, shard, resources):
        if failures.get(shard.rel_path, 0):
            failures[shard.rel_path] -= 1
            resources.on_rows(7, 2)
            raise StorageError("reset")
        return run_shard(plan, shard, resources)

    class Counts(SilentObserver):
        rows = invalid = most = 0

        def rows_done(self, rows, invalid):
            self.rows += rows
            self.invalid += invalid
            self.most = max(self.most, self.rows)

    counts = Counts()
    runtime = LocalRuntime(workers=1, retries=1, work=fail_after_a_batch)
    reports = list(runtime.run(prepared.plan, prepared.to_do, counts, stop=threading.Event()))
    assert sorted(report.status for report in reports) == ["done", "done", "failed"]
    assert (counts.rows, counts.invalid) == (20, 0)
    assert counts.most <= 34
