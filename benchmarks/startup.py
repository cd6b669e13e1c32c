"""S1: how soon the program answers: `--help`, `check`, and `run --dry-run` on 1,509 local shards.

Usage: uv run python benchmarks/startup.py [--rounds 7] [--shards 1509] [--json FILE]

Each is a process of its own, beside the least that such an answer needs: importing typer and rich, importing
pyarrow, listing the same shards with pyarrow. They take turns; figures are CPU seconds of the process and its
children (medians), since these answers use one core. All run from compiled modules, as installed programs do: the
round that does not count compiles them into a folder of this benchmark's. The line of the libraries says what is left
when nothing of sidecar runs: importing what `check` needs of others.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from paired import in_turn, keep_bytecode, show

_LISTING = """
import sys
from pyarrow import fs
selector = fs.FileSelector(sys.argv[1], recursive=True)
assert len(fs.LocalFileSystem().get_file_info(selector)) == int(sys.argv[2])
"""

_LIBRARIES = (
    "import pyarrow, typer, typer._adapters, pydantic, yaml, importlib.metadata"  # typer parses with the second
)


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
        keep_bytecode(Path(scratch) / "compiled")
        contests = (
            ("sidecar --help", [*sidecar, "--help"], [*python, "import typer, rich"], "<= 2.5"),
            ("sidecar check", [*sidecar, "check", pipeline], [*python, "import pyarrow"], "<= 2"),
            ("the libraries of check alone", [*python, _LIBRARIES], [*python, "import pyarrow"], ""),
            (
                f"sidecar run --dry-run, {arguments.shards} shards",
                [*sidecar, "run", pipeline, "--dry-run", "--output-prefix", out],
                [*python, _LISTING, main_prefix, str(arguments.shards)],
                "<= 3",
            ),
        )
        figures = [
            in_turn(
                name, partial(run, ours), partial(run, other), clock=children_cpu_s, rounds=arguments.rounds, goal=goal
            )
            for name, ours, other, goal in contests
        ]
    show(figures, ("pyarrow", "typer", "rich", "sidecar-cli"), arguments.json)


def children_cpu_s() -> float:
    """Returns the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str]) -> None:
    """Runs a command, which must succeed."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


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
