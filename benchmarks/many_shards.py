"""A run of 1,509 small shards through the local runtime: rates, the driver's memory, progress lines.

Usage: uv run python benchmarks/many_shards.py [--shards 1509] [--rows 150] [--rounds 1] [--json FILE]

Two pipelines: `key` adds a null column (no pixels, no children: the engine alone), `isolated` also measures
each picture's length in a child process. Beside them, plain pyarrow reads each shard's key and writes it with the
same null column. The driver's memory (PSS) is read while the run goes on, and what it was at each quarter of
the shards is told; it must not grow with them. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SAMPLE_EVERY_S = 0.1
GOAL_GROWTH = 1.1
OPERATIONS = {"key": ("extract_scaffold",), "isolated": ("extract_scaffold", "measure_bytes")}


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=1509)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_main(folder, options.shards, options.rows)
        for number in range(options.rounds):
            seconds = plain(folder / "main", folder / f"plain-{number}")
            results.append({"what": "plain pyarrow", "seconds": round(seconds, 2)})
            for what in OPERATIONS:
                out = folder / f"{what}-{number}"
                results.append({"what": what, **measure(folder, what, out, options.shards, options.workers)})
                again = measure(folder, what, out, options.shards, options.workers)
                results.append({"what": f"{what}, all done", **again})
    rows = options.shards * options.rows
    print(f"{'':20} {'s':>7} {'shards/s':>9} {'rows/s':>9}  driver MiB at each quarter   growth  lines")
    for each in results:
        seconds = each["seconds"]
        text = f"{each['what']:20} {seconds:>7} {options.shards / seconds:>9.1f} {rows / seconds:>9.0f}"
        if each["what"] in OPERATIONS:
            text += f"  {each['driver_mib']!s:28} {each['growth']:>6}  {each['progress_lines']:>5}"
        print(text)
    runs = [each for each in results if each["what"] in OPERATIONS]
    worst = max(each["growth"] for each in runs)
    print(f"the driver's memory grew to {worst} of what it was after a quarter; goal at most {GOAL_GROWTH}")
    report = {
        "workload": f"{options.shards} shards of {options.rows} rows",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("pyarrow", "sidecar-core", "sidecar-runtimes")},
        "results": results,
        "seconds": {
            what: statistics.median(each["seconds"] for each in results if each["what"] == what)
            for what in ("plain pyarrow", *OPERATIONS)
        },
        "worst_growth": worst,
        "goal_growth": GOAL_GROWTH,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def write_main(folder: Path, shards: int, rows: int) -> None:
    """Writes the dataset, and a pipeline for each operation."""
    (folder / "main").mkdir()
    picture = os.urandom(2000)
    for shard in range(shards):
        keys = [f"{shard:05}-{row:04}" for row in range(rows)]
        pq.write_table(
            pa.table({"image_key": keys, "image": pa.array([picture] * rows, pa.binary())}),
            folder / f"main/part-{shard:05}.parquet",
        )
    (folder / "dataset.yaml").write_text(
        f"name: example\nmain_prefix: {folder}/main/\nsidecar_prefix: {folder}/yaml/\n"
        "key_column: image_key\nimage_column: image\nschema_extensions:\n  - {name: score, type: float32}\n"
    )
    for what, operations in OPERATIONS.items():
        text = "".join(f"  - {{type: {operation}}}\n" for operation in operations)
        (folder / f"{what}.yaml").write_text(
            f"dataset: dataset.yaml\nplugins: [sidecar_core.testing.ops]\noperations:\n{text}"
        )


def plain(main_folder: Path, out: Path) -> float:
    """Returns the seconds that pyarrow alone takes for what `key` does, without its checks."""
    out.mkdir()
    started = time.monotonic()
    for path in sorted(main_folder.iterdir()):
        table = pq.read_table(path, columns=["image_key"])
        pq.write_table(table.append_column("score", pa.nulls(table.num_rows, pa.float32())), out / path.name)
    return time.monotonic() - started


def measure(folder: Path, what: str, out: Path, shards: int, workers: int) -> dict[str, object]:
    """Runs the program and returns seconds, memory and what it wrote to stderr."""
    command = [sys.executable, "-m", "sidecar_cli.main", "run", str(folder / f"{what}.yaml")]
    command += ["--output-prefix", str(out), "--skip-existing", "--runtime", "local", "--workers", str(workers)]
    samples: list[tuple[int, float]] = []
    log = folder / "log"
    started = time.monotonic()
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream)
    while process.poll() is None:
        made = sum(1 for entry in os.scandir(out) if entry.name.endswith(".parquet")) if out.exists() else 0
        memory = pss_mib(process.pid)
        if memory:
            samples.append((made, memory))
        time.sleep(SAMPLE_EVERY_S)
    seconds = time.monotonic() - started
    text = log.read_text()
    if process.returncode != 0:
        raise SystemExit(text)
    quarters = [next((mib for made, mib in samples if made >= shards * part), 0.0) for part in (0.25, 0.5, 0.75)]
    quarters = [round(mib) for mib in (*quarters, samples[-1][1])]
    return {
        "seconds": round(seconds, 2),
        "driver_mib": quarters,
        "growth": round(max(quarters) / (quarters[0] or 1), 3),
        "progress_lines": text.count("Shard progress:"),
        "last_line": text.strip().splitlines()[-1] if text.strip() else "",
    }


def pss_mib(pid: int) -> float:
    """Returns the memory of a process in MiB, shared pages in proportion; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


if __name__ == "__main__":
    main()
