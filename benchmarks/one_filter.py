"""F3: one filter by one Ray actor with N workers, beside N single Ray tasks.

Usage: uv run python benchmarks/one_filter.py [--images DIR] [--filter saturation] [--workers 2] [--shards 12]
       [--rows 200] [--rounds 3] [--json FILE]

DIR holds JPEGs, of which those of about 1 megapixel are taken; without it pictures are drawn. Each turn starts a
Ray of N cores on this machine; what is measured is the run on it: the start of the actor, or of the tasks'
processes, all shards, and their commit. The contestants take turns in each round; the ratio is that of the
medians of rows/s, and beside it stands the rate once the first shard is there, without any start.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import filters as filters_benchmark
import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.pipeline import load_pipeline
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.ray_cluster import RayCluster
from sidecar_runtimes.ray_tasks import RayTaskRuntime
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

GOAL = 0.95


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
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    with tempfile.TemporaryDirectory(prefix="sidecar-one-filter-") as name:
        folder = Path(name)
        write_main(folder, source["1 MP"], options.shards, options.rows)
        write_pipeline(folder, options.filter)
        for number in range(options.rounds):
            order = list(contestants)[:: 1 if number % 2 == 0 else -1]
            for what in order:
                out = folder / f"{what.replace(' ', '-')}-{number}"
                measured[what].append(measure(folder, out, contestants[what](), options.workers))
                print(f"round {number + 1}: {what}: {measured[what][-1][0]:.1f} rows/s", flush=True)
    whole = {what: statistics.median(rate for rate, _ in rates) for what, rates in measured.items()}
    steady = {what: statistics.median(rate for _, rate in rates) for what, rates in measured.items()}
    ratios = {
        name: round(rates["one actor"] / rates["single tasks"], 3)
        for name, rates in (("run", whole), ("steady", steady))
    }
    print(f"\n{'':14} {'rows/s':>8} {'steady':>8}")
    for what in contestants:
        print(f"{what:14} {whole[what]:>8.1f} {steady[what]:>8.1f}")
    print(f"{'ratio':14} {ratios['run']:>8} {ratios['steady']:>8}   goal at least {GOAL}")
    report = {
        "workload": f"F3: {options.filter}, {options.shards} shards of {options.rows} rows, N = {options.workers}",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "packages": {
            each: version(each) for each in ("ray", "pyarrow", "sidecar-core", "sidecar-runtimes", "sidecar-filters")
        },
        "rounds": {what: [[round(value, 2) for value in pair] for pair in pairs] for what, pairs in measured.items()},
        "rows_per_s": whole,
        "steady_rows_per_s": steady,
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


def measure(folder: Path, out: Path, runtime, workers: int) -> tuple[float, float]:
    """Returns rows a second of a run on a fresh cluster, and those after its first shard."""
    watch = FirstAndLast()
    with RayCluster(cpus=workers):
        prepared = prepare_run(load_pipeline(folder / "pipeline.yaml"), RunOptions(output_prefix=str(out)))
        started = time.monotonic()
        report = execute_run(prepared, runtime=runtime, observer=watch, command=["benchmark"])
        seconds = time.monotonic() - started
    if not report.ok:
        raise SystemExit(f"{len(report.failed)} shards failed: {report.failed[0].error}")
    return report.rows / seconds, watch.steady_rows_per_s


if __name__ == "__main__":
    main()
