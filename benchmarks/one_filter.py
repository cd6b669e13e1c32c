"""F3: one filter by one Ray actor with N workers, beside N single Ray tasks.

Usage: uv run python benchmarks/one_filter.py [--images DIR] [--filter saturation] [--workers 2] [--shards 12]
       [--rows 200] [--rounds 3] [--json FILE]

DIR holds JPEGs, of which those of about 1 megapixel are taken; without it pictures are drawn. Each turn starts a
Ray of N cores on this machine; what is measured is the run on it: the start of the actor, or of the tasks'
processes, all shards, and their commit. The contestants take turns in each round; the ratio is that of the
medians of rows/s, and beside it stand the rate once the first shard is there, without any start, and the CPU time
that the workers and their children took a row (Linux), which other programs on the machine disturb less: a busy
machine gives more to N workers with a child each than to one with N.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Self

import filters as filters_benchmark
import pyarrow as pa
import pyarrow.parquet as pq
from paired import keep_bytecode
from sidecar_core.pipeline import load_pipeline
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.ray_cluster import RayCluster
from sidecar_runtimes.ray_tasks import RayTaskRuntime
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

GOAL = 0.95
SAMPLE_EVERY_S = 0.2


class WorkerTime:
    """Adds up the CPU time of this process's Ray workers and their children while its context is open."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Seconds so far; 0 where there is no /proc."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            parents, used = {}, {}
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    command = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                pid = int(folder.name)
                parents[pid] = int(fields[1])
                if command.startswith((b"ray::_run_task", b"ray::ShardActor")) or b"sidecar_core.isolation" in command:
                    used[pid] = (int(fields[19]), int(fields[11]) + int(fields[12]))
            for pid, (start, ticks) in used.items():
                above = pid
                while above in parents and above != os.getpid():
                    above = parents[above]
                if above == os.getpid() and pid != os.getpid():
                    self._ticks[pid, start] = ticks


class FirstAndLast(SilentObserver):
    """Notes when the first shard was there, and what came after it."""

    def __init__(self) -> None:
        self.first_s: float | None = None
        self.last_s = 0.0
        self.rows_after = 0

    def shard_finished(self, report) -> None:
        """Notes a shard."""
        self.last_s = time.monotonic()
        if self.first_s is None:
            self.first_s = self.last_s
        else:
            self.rows_after += report.rows

    @property
    def steady_rows_per_s(self) -> float:
        """Rows a second after the first shard."""
        return self.rows_after / max(self.last_s - (self.first_s or 0.0), 1e-9)


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder of JPEGs; default pictures drawn here")
    parser.add_argument("--filter", default="saturation")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    source = filters_benchmark.read_pictures(options.images) if options.images else filters_benchmark.draw_pictures()
    contestants = {
        "one actor": lambda: RayActorRuntime(
            num_actors=1, actor_cpus=options.workers, workers=options.workers, retries=0
        ),
        "single tasks": lambda: RayTaskRuntime(task_cpus=1, workers=1, retries=0),
    }
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    with tempfile.TemporaryDirectory(prefix="sidecar-one-filter-") as name:
        folder = Path(name)
        keep_bytecode(folder / "compiled")
        write_main(folder, source["1 MP"], options.shards, options.rows)
        write_pipeline(folder, options.filter)
        for number in range(options.rounds):
            order = list(contestants)[:: 1 if number % 2 == 0 else -1]
            for what in order:
                out = folder / f"{what.replace(' ', '-')}-{number}"
                measured[what].append(measure(folder, out, contestants[what](), options.workers))
                print(f"round {number + 1}: {what}: {measured[what][-1]}", flush=True)
    medians = {
        what: {each: statistics.median(turn[each] for turn in turns) for each in turns[0]}
        for what, turns in measured.items()
    }
    actor, tasks = medians["one actor"], medians["single tasks"]
    ratios = {each: round(actor[each] / tasks[each], 3) if tasks[each] else None for each in actor}
    print(f"\n{'':14} {'rows/s':>8} {'steady':>8} {'CPU ms/row':>11}")
    for what, each in (*medians.items(), ("ratio", ratios)):
        print(f"{what:14} {each['rows_per_s']:>8} {each['steady_rows_per_s']:>8} {each['cpu_ms_per_row']!s:>11}")
    print(f"goal: ratio of rows/s at least {GOAL}")
    report = {
        "workload": f"F3: {options.filter}, {options.shards} shards of {options.rows} rows, N = {options.workers}",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "packages": {
            each: version(each) for each in ("ray", "pyarrow", "sidecar-core", "sidecar-runtimes", "sidecar-filters")
        },
        "rounds": measured,
        "medians": medians,
        "ratios": ratios,
        "goal": GOAL,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def write_main(folder: Path, pictures: list[bytes], shards: int, rows: int) -> None:
    """Writes the main dataset, the pictures in turn."""
    (folder / "main").mkdir()
    for shard in range(shards):
        images = [pictures[(shard * rows + row) % len(pictures)] for row in range(rows)]
        keys = [f"{shard:05}-{row:04}" for row in range(rows)]
        table = pa.table({"image_key": keys, "image": pa.array(images, pa.binary())})
        pq.write_table(table, folder / f"main/part-{shard:05}.parquet", row_group_size=64, compression="none")


def write_pipeline(folder: Path, name: str) -> None:
    """Writes the dataset's and the pipeline's YAML."""
    (folder / "dataset.yaml").write_text(
        f"name: example\nmain_prefix: {folder}/main/\nsidecar_prefix: {folder}/yaml/\n"
        "key_column: image_key\nimage_column: image\n"
    )
    (folder / "pipeline.yaml").write_text(
        f"dataset: dataset.yaml\noperations:\n  - {{type: compute_filters, filters: [{name}]}}\n"
    )


def measure(folder: Path, out: Path, runtime, workers: int) -> dict[str, float]:
    """Returns rows a second of a run on a fresh cluster, those after its first shard, and CPU time a row."""
    watch = FirstAndLast()
    with RayCluster(cpus=workers), WorkerTime() as used:
        prepared = prepare_run(load_pipeline(folder / "pipeline.yaml"), RunOptions(output_prefix=str(out)))
        started = time.monotonic()
        report = execute_run(prepared, runtime=runtime, observer=watch, command=["benchmark"])
        seconds = time.monotonic() - started
    if not report.ok:
        raise SystemExit(f"{len(report.failed)} shards failed: {report.failed[0].error}")
    return {
        "rows_per_s": round(report.rows / seconds, 1),
        "steady_rows_per_s": round(watch.steady_rows_per_s, 1),
        "cpu_ms_per_row": round(1000 * used.seconds / report.rows, 2),
    }


if __name__ == "__main__":
    main()
