from __future__ import annotations

import threading

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
