"""J1, J2: looking up columns by key, and making the index for it, beside a Python dict, DuckDB and Polars.

Usage: uv run --with polars python benchmarks/join.py [--keys 5000000] [--rounds 3] [--folder DIR] [--json FILE]

The source has string keys in no order and six columns of structs of three numbers. Lookups are batches of 512 keys,
of which 5 % are not there, and give all columns as an Arrow table. The dict is that of the usual loader, key to
row of Python values; index and dict take turns in one process. The index is made beside sorting the same rows by a
hash of the key, into a file, within 4 GB. Memory is what a worker has for itself (anonymous pages), and what one and
two workers take together with the pages that they share (PSS; Linux only).

Some 200 bytes a key are needed below --folder, and 2 KB a key of memory for the dict, which is left out above
--dict-keys. Without Polars installed its lines are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

BATCH_KEYS = 512
MISSING = 0.05
BATCHES = 100
STRUCTS = 6
MEMORY = "4GB"
GOALS = {"lookups": 4.0, "private": 0.01, "open_ms": 10.0, "build": 1.5, "build_peak_mib": 4000}


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dict-keys", type=int, default=6_000_000, help="the most keys with which to make a dict")
    parser.add_argument("--folder", type=Path, help="where the files go; default the folder for temporary files")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        PARTS[options.part](options.folder, options.keys)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        results = measure(Path(name), options)
    report = {
        "workload": "J1, J2",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("pyarrow", "numpy", "sidecar-core", *peers())},
        "keys": options.keys,
        "results": results,
        "goals": GOALS,
    }
    show(results)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def peers() -> list[str]:
    return [name for name in ("duckdb", "polars") if importlib.util.find_spec(name)]


def measure(folder, options):
    """Runs every part in a process of its own."""

    def run(part):
        print(f"… {part}", file=sys.stderr, flush=True)
        return json.loads(finish(start(part, folder, options.keys)))

    run("data")
    makers = ["index", *(f"sort_{name}" for name in peers())]
    made = {name: [] for name in makers}
    for _ in range(options.rounds):
        for name in makers:
            made[name].append(run(name))
    results: dict[str, object] = {"make": {name: median_of(rounds) for name, rounds in made.items()}, "make_all": made}
    for name in peers():
        ratios = [mine["s"] / theirs["s"] for mine, theirs in zip(made["index"], made[f"sort_{name}"], strict=True)]
        results[f"make_ratio_{name}"] = round(statistics.median(ratios), 2)
    results["workers"] = two_workers(folder, options.keys)
    results["lookups"] = {name: run(f"lookups_{name}") for name in ("index", *peers())}
    if options.keys <= options.dict_keys:
        results["dict"] = run("dict")
    return results


def start(part, folder, keys):
    command = [sys.executable, __file__, "--part", part, "--folder", str(folder), "--keys", str(keys)]
    environment = {**os.environ, "SIDECAR_CACHE_DIR": str(folder / "cache"), "POLARS_TEMP_DIR": str(folder)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def finish(process):
    answer, _ = process.communicate("")
    if process.returncode:
        raise SystemExit(f"a part ended with {process.returncode}")
    return answer


def median_of(rounds):
    return {name: round(statistics.median(each[name] for each in rounds), 2) for name in rounds[0]}


def two_workers(folder, keys):
    """Returns the memory of one worker, then of two at a time."""
    print("… worker", file=sys.stderr, flush=True)
    processes, found = [], []
    for _ in range(2):
        processes.append(start("worker", folder, keys))
        found.append(json.loads(processes[-1].stdout.readline()))
        found[-1]["pss_mib"] = round(sum(proc_mib(each.pid, "Pss") for each in processes))
    for process in processes:
        finish(process)
    one, two = found
    return {**one, "pss_of_two_mib": two["pss_mib"]}


def show(results):
    print(f"{'made by':18} {'seconds':>9} {'CPU s':>8} {'peak MiB':>9} {'index/it':>9} {'goal':>6}")
    for name, each in results["make"].items():
        ratio = results.get(f"make_ratio_{name.removeprefix('sort_')}", "")
        goal = GOALS["build"] if ratio else ""
        print(f"{name:18} {each['s']:>9} {each['cpu_s']:>8} {each['peak_mib']:>9} {ratio:>9} {goal:>6}")
    print(f"\n{'looked up in':18} {'keys/s':>9} {'private MiB':>12} {'open ms':>9}")
    worker = results["workers"]
    lines = {**results["lookups"]}
    lines["index"] = {**lines["index"], "private_mib": worker["private_mib"]}
    if "dict" in results:
        lines["dict"] = results["dict"]["dict"]
    for name, each in lines.items():
        print(f"{name:18} {each['keys_per_s']:>9} {each['private_mib']:>12} {each.get('open_ms', ''):>9}")
    if "dict" in results:
        share = worker["private_mib"] / results["dict"]["dict"]["private_mib"]
        print(f"index beside dict: {results['dict']['ratio']} x lookups/s (goal {GOALS['lookups']}), in turn;")
        print(f"  {share:.2%} of its private memory (goal {GOALS['private']:.0%})")
    print(f"one worker {worker['pss_mib']} MiB with the mapped pages, two together {worker['pss_of_two_mib']} MiB")


# What runs in processes of their own.


def make_data(folder, keys):
    """Writes the source: keys in no order, numbers that do not compress."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [pa.field("mean", pa.float32()), pa.field("spread", pa.float32()), pa.field("count", pa.int32())]
    schema = pa.schema([("key", pa.string()), *((f"score_{n}", pa.struct(fields)) for n in range(STRUCTS))])
    random = np.random.default_rng(0)
    with pq.ParquetWriter(folder / "source.parquet", schema) as writer:
        for first in range(0, keys, 500_000):
            rows = min(500_000, keys - first)
            columns = [keys_of(np.arange(first, first + rows))]
            for _ in range(STRUCTS):
                numbers = [random.random(rows, np.float32), random.random(rows, np.float32)]
                numbers.append(random.integers(0, 1000, rows, np.int32))
                columns.append(pa.StructArray.from_arrays([pa.array(each) for each in numbers], fields=fields))
            writer.write_table(pa.table(columns, schema=schema))
    print("{}")


def keys_of(numbers):
    """Returns a key of some 17 characters for each number."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    scattered = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)
    return pc.binary_join_element_wise("img", pa.array(scattered).cast(pa.string()), "_")


def batches_of(keys):
    """Returns batches of keys to look up."""
    import numpy as np

    random = np.random.default_rng(1)
    return [keys_of(random.integers(0, int(keys * (1 + MISSING)), BATCH_KEYS)) for _ in range(BATCHES)]


def open_index(folder):
    from sidecar_core.parquet_index import IndexSpec
    from sidecar_core.parquet_index.cached import open_cached

    return open_cached(IndexSpec(source=str(folder / "source.parquet"), key_column="key"))


def measured(action):
    """Runs it; returns seconds, processor seconds and the process's peak of resident memory."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return {
        "s": round(time.perf_counter() - wall, 2),
        "cpu_s": round(time.process_time() - processor, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def make_index(folder, _):
    import shutil

    import sidecar_core.parquet_index.cached  # noqa: F401 - what is measured is not its import

    shutil.rmtree(folder / "cache", ignore_errors=True)
    print(json.dumps(measured(lambda: open_index(folder))))


def sort_duckdb(folder, _):
    import duckdb

    def sort():
        with duckdb.connect() as connection:
            connection.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = '{folder}/duckdb'")
            rows = f"SELECT * FROM '{folder}/source.parquet' ORDER BY hash(key)"
            connection.execute(f"COPY ({rows}) TO '{folder}/sorted' (FORMAT parquet, COMPRESSION uncompressed)")

    print(json.dumps(measured(sort)))
    (folder / "sorted").unlink()


def sort_polars(folder, _):
    import polars as pl

    def sort():
        rows = pl.scan_parquet(folder / "source.parquet").with_columns(pl.col("key").hash().alias("hash"))
        rows.sort("hash").sink_ipc(folder / "sorted", compression="uncompressed")

    print(json.dumps(measured(sort)))
    (folder / "sorted").unlink()


def worker(folder, keys):
    """Opens the index, looks keys up, says what memory that took, and stays until its input ends."""
    import sidecar_core.parquet_index.cached  # noqa: F401

    batches = batches_of(keys)
    before = private_mib()
    index = open_index(folder)
    for batch in batches:
        index.take(index.lookup(batch))
    print(json.dumps({"private_mib": round(private_mib() - before, 1)}), flush=True)
    sys.stdin.read()
    del index


def lookups_index(folder, keys):
    batches = batches_of(keys)
    indexes = [open_index(folder)]
    openings = []
    for _ in range(5):
        started = time.perf_counter()
        indexes.append(open_index(folder))
        openings.append(1000 * (time.perf_counter() - started))
    index = indexes[-1]
    rate = rate_of(lambda batch: index.take(index.lookup(batch)), batches)
    print(json.dumps({**rate, "open_ms": round(statistics.median(openings), 1), "private_mib": ""}))


def lookups_duckdb(folder, keys):
    import duckdb
    import pyarrow as pa

    batches = batches_of(keys)
    before = private_mib()
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE source AS SELECT * FROM '{folder}/source.parquet'")
        connection.execute("CREATE INDEX by_key ON source (key)")
        private = round(private_mib() - before)

        def ask(batch):
            asked = pa.table({"key": batch, "row": range(len(batch))})
            connection.register("asked", asked)
            return connection.sql(
                "SELECT s.* FROM asked a LEFT JOIN source s USING (key) ORDER BY row"
            ).to_arrow_table()

        print(json.dumps({**rate_of(ask, batches[:5]), "private_mib": private}))


def lookups_polars(folder, keys):
    import polars as pl

    batches = batches_of(keys)
    before = private_mib()
    source = pl.read_parquet(folder / "source.parquet")
    private = round(private_mib() - before)

    def ask(batch):
        return pl.DataFrame({"key": pl.from_arrow(batch)}).join(source, on="key", how="left", maintain_order="left")

    print(json.dumps({**rate_of(ask, batches[:5]), "private_mib": private}))


def beside_dict(folder, keys):
    """Lets the index and a dict take turns with the same batches, and compares what they answer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = batches_of(keys)
    before = private_mib()
    rows: dict[str, dict[str, object]] = {}
    file = pq.ParquetFile(folder / "source.parquet")
    for batch in file.iter_batches(65_536):
        names = batch.schema.names[1:]
        values = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        for key, row in zip(batch.column("key").to_pylist(), values, strict=True):
            rows[key] = dict(zip(names, row, strict=True))
    private = round(private_mib() - before)
    index = open_index(folder)
    nothing = dict.fromkeys(index.schema.names)

    def ask_dict(batch):
        found = [rows.get(key, nothing) for key in batch.to_pylist()]
        return pa.table(
            {field.name: pa.array([row[field.name] for row in found], field.type) for field in index.schema}
        )

    def ask_index(batch):
        return index.take(index.lookup(batch))

    for batch in batches[:3]:
        assert ask_index(batch).equals(ask_dict(batch))
    ratios, rates = [], []
    for first in range(0, BATCHES, 10):
        mine = rate_of(ask_index, batches[first : first + 10])["keys_per_s"]
        theirs = rate_of(ask_dict, batches[first : first + 10])["keys_per_s"]
        ratios.append(mine / theirs)
        rates.append(theirs)
    result = {"keys_per_s": round(statistics.median(rates)), "private_mib": private}
    print(json.dumps({"dict": result, "ratio": round(statistics.median(ratios), 2)}))


def rate_of(ask, batches):
    """Returns keys a second of processor time, the median of the batches."""
    seconds = []
    for batch in batches:
        started = time.process_time()
        ask(batch)
        seconds.append(time.process_time() - started)
    return {"keys_per_s": round(BATCH_KEYS / statistics.median(seconds))}


def private_mib():
    return proc_mib("self", "Anonymous")


def proc_mib(pid, label):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{label}:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"no {label} in /proc/{pid}/smaps_rollup")


PARTS = {
    "data": make_data,
    "index": make_index,
    "sort_duckdb": sort_duckdb,
    "sort_polars": sort_polars,
    "worker": worker,
    "lookups_index": lookups_index,
    "lookups_duckdb": lookups_duckdb,
    "lookups_polars": lookups_polars,
    "dict": beside_dict,
}

if __name__ == "__main__":
    main()
