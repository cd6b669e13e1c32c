"""S1: how soon the program answers: `--help`, `check`, and `run --dry-run` on 1,509 local shards.

Usage: uv run python benchmarks/startup.py [--rounds 7] [--shards 1509] [--json FILE]

Each is a process of its own, beside the least that such an answer needs: importing typer and rich, importing
pyarrow, listing the same shards with pyarrow. They take turns; figures are CPU seconds of the process and its
children (medians), since these answers use one core.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_LISTING = """
import sys
from pyarrow import fs
selector = fs.FileSelector(sys.argv[1], recursive=True)
assert len(fs.LocalFileSystem().get_file_info(selector)) == int(sys.argv[2])
"""


def main() -> None:
    """Measures and prints a table; with --json writes the figures too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shards", type=int, default=1509)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sidecar = [sys.executable, "-m", "sidecar_cli.main"]
    python = [sys.executable, "-c"]
    with tempfile.TemporaryDirectory() as scratch:
        main_prefix, pipeline = write_world(Path(scratch), arguments.shards)
        out = f"{scratch}/out"
        contests = (
            ("sidecar --help", [*sidecar, "--help"], [*python, "import typer, rich"], 2.5),
            ("sidecar check", [*sidecar, "check", pipeline], [*python, "import pyarrow"], 2.0),
            (
                f"sidecar run --dry-run, {arguments.shards} shards",
                [*sidecar, "run", pipeline, "--dry-run", "--output-prefix", out],
                [*python, _LISTING, main_prefix, str(arguments.shards)],
                3.0,
            ),
        )
        figures = [measure(*contest, rounds=arguments.rounds) for contest in contests]
    machine = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyarrow", "typer", "rich", "sidecar-cli")},
    }
    print(json.dumps(machine))
    print(f"{'figure':<38} {'ours s':>8} {'other s':>8} {'ratio':>7} {'goal':>6}")
    for each in figures:
        print(f"{each['name']:<38} {each['ours_s']:>8} {each['other_s']:>8} {each['ratio']:>7} {each['goal']:>6}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2))


def measure(name: str, ours: list[str], other: list[str], goal: float, *, rounds: int) -> dict[str, object]:
    """Runs both in turn after one round that does not count; returns medians and the median of the ratios."""
    times = [(run(ours), run(other)) for _ in range(rounds + 1)][1:]
    return {
        "name": name,
        "ours_s": round(statistics.median(mine for mine, _ in times), 3),
        "other_s": round(statistics.median(theirs for _, theirs in times), 3),
        "ratio": round(statistics.median(mine / theirs for mine, theirs in times), 2),
        "goal": goal,
    }


def run(command: list[str]) -> float:
    """Returns the CPU seconds of a command, which must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_world(folder: Path, shards: int) -> tuple[str, str]:
    """Writes small shards, a dataset and a pipeline; returns the main prefix and the pipeline's file."""
    main = folder / "main"
    main.mkdir()
    table = pa.table({"image_key": ["a", "b"], "image": [b"x", b"y"]})
    for number in range(shards):
        pq.write_table(table, main / f"part-{number:05}.parquet")
    (folder / "dataset.yaml").write_text(
        f"name: many\nmain_prefix: {main}\nsidecar_prefix: {folder}/sidecar\nkey_column: image_key\n"
        "schema_extensions: [{name: caption, type: string}]\n"
    )
    (folder / "pipeline.yaml").write_text("dataset: ./dataset.yaml\noperations: [{type: extract_scaffold}]\n")
    return str(main), str(folder / "pipeline.yaml")


if __name__ == "__main__":
    main()
