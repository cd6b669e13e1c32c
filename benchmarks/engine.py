"""E1, E2, I1, W1: what the engine and the isolation cost around the work itself, and what a second worker brings.

Usage: uv run python benchmarks/engine.py [--only e1 e2 i1 w1] [--images DIR] [--rows 512] [--rounds 3] [--json FILE]

E1  the engine without pixels (a key, scaffolded columns, footers) beside pyarrow reading the key and writing
    the same tables; CPU time
E2  the engine around resizing beside the same calls in a loop; CPU time of all processes
I1  resizing in isolated child processes beside the same calls in this process; CPU time of all processes. And a
    shard with five rows that end their process beside the same shard without them; wall time
W1  rows a second of two workers beside one; wall time

Where the same calls are made in this process, glibc keeps freed memory as it does in isolated children.
The contestants take turns in each round; figures are medians of the rounds' ratios. DIR holds JPEGs, else one is
drawn. Wall times mean something on an idle machine only.
"""

from __future__ import annotations

import argparse
import io
import itertools
import resource
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from paired import in_turn, keep_bytecode, show
from sidecar_core.dataset import load_dataset
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.isolation.child import keep_freed_memory
from sidecar_core.nulls import null_column
from sidecar_core.pipeline import build_pipeline
from sidecar_resize.row import resize_row
from sidecar_resize.spec import ResizeSpec
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

_EXTENSIONS = {f"measure_{number}": pa.float32() for number in range(4)} | {"caption": pa.string()}
_SPEC = ResizeSpec((512 * 512,))
_POISON = b"!abort"


def main() -> None:
    """Measures and prints a table; with --json writes the figures too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["e1", "e2", "i1", "w1"], default=["e1", "e2", "i1", "w1"])
    parser.add_argument("--images", type=Path)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    keep_freed_memory()
    images = list(itertools.islice(itertools.cycle(read_images(arguments.images)), arguments.rows))
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        keep_bytecode(folder / "compiled")
        if "e1" in arguments.only:
            figures.append(measure_e1(folder, arguments.rounds))
        if "e2" in arguments.only:
            figures.append(measure_e2(folder, images, arguments.rounds))
        if "i1" in arguments.only:
            figures += [measure_i1(images, arguments.rounds), measure_poison(folder, arguments.rows, arguments.rounds)]
        if "w1" in arguments.only:
            figures.append(measure_w1(folder, images, arguments.rounds))
    show(figures, ("pyarrow", "sidecar-core", "sidecar-runtimes", "sidecar-resize"), arguments.json)


def measure_e1(folder: Path, rounds: int, shards: int = 8, rows: int = 100_000) -> dict[str, object]:
    """The engine without pixels beside plain pyarrow."""
    main = folder / "e1"
    main.mkdir()
    for number in range(shards):
        keys = pa.array([f"{number:04}/{row:08}.jpg" for row in range(rows)])
        pq.write_table(pa.table({"image_key": keys, "image": pa.array([b"x" * 20] * rows)}), main / f"{number}.parquet")
    extensions = "".join(f"  - {{name: {name}, type: {_yaml_type(dtype)}}}\n" for name, dtype in _EXTENSIONS.items())
    pipeline = make_pipeline(folder, main, [{"type": "extract_scaffold"}], f"schema_extensions:\n{extensions}")
    turn = itertools.count()

    def ours() -> None:
        run(pipeline, folder / f"e1-ours-{next(turn)}", workers=1)

    def plain() -> None:
        out = folder / f"e1-plain-{next(turn)}"
        out.mkdir()
        for number in range(shards):
            table = pq.read_table(main / f"{number}.parquet", columns=["image_key"])
            for name, dtype in _EXTENSIONS.items():
                table = table.append_column(name, null_column(dtype, table.num_rows))
            pq.write_table(table, out / f"{number}.parquet", compression="zstd", row_group_size=65_536)

    return in_turn(
        "E1 engine without pixels, CPU, of plain pyarrow", ours, plain, clock=cpu_s, rounds=rounds, goal="<= 2"
    )


def measure_e2(folder: Path, images: list[bytes], rounds: int) -> dict[str, object]:
    """The engine around the codecs beside the codecs alone."""
    pipeline = make_pipeline(folder, write_main(folder / "e2", images), [_RESIZE])
    turn = itertools.count()
    return in_turn(
        "E2 engine around the codecs, CPU, of the codecs alone",
        lambda: run(pipeline, folder / f"e2-{next(turn)}", workers=1),
        lambda: [resize_row(image, _SPEC) for image in images],
        clock=cpu_s,
        rounds=rounds,
        goal="<= 1.10",
    )


def measure_i1(images: list[bytes], rounds: int) -> dict[str, object]:
    """Isolated rows beside the same calls in this process."""

    def isolated() -> None:
        with IsolationPool(IsolationOptions(workers=1)) as pool:
            pool.map_rows(resize_row, images, common=_SPEC)

    return in_turn(
        "I1 isolated rows, CPU, of the same calls in process",
        isolated,
        lambda: [resize_row(image, _SPEC) for image in images],
        clock=cpu_s,
        rounds=rounds,
        goal="<= 1.10",
    )


def measure_poison(folder: Path, rows: int, rounds: int) -> dict[str, object]:
    """A shard with five rows that end their process beside one without."""
    operation = {"type": "measure_bytes", "delay_s": 0.02}
    poisoned = [_POISON if row % (rows // 5) == 7 else b"x" * row for row in range(rows)]
    clean = make_pipeline(folder, write_main(folder / "clean", [b"x" * row for row in range(rows)]), [operation])
    dirty = make_pipeline(folder, write_main(folder / "dirty", poisoned), [operation])
    turn = itertools.count()
    return in_turn(
        f"I1 five poison rows in {rows}, wall, of a clean shard",
        lambda: run(dirty, folder / f"dirty-{next(turn)}", workers=2),
        lambda: run(clean, folder / f"clean-{next(turn)}", workers=2),
        clock=time.monotonic,
        rounds=rounds,
        goal="<= 1.6",
    )


def measure_w1(folder: Path, images: list[bytes], rounds: int) -> dict[str, object]:
    """One worker beside two; the ratio of their wall times is that of rows a second."""
    pipeline = make_pipeline(folder, write_main(folder / "w1", images), [_RESIZE])
    turn = itertools.count()
    return in_turn(
        "W1 one worker, wall, of two workers",
        lambda: run(pipeline, folder / f"w1-{next(turn)}", workers=1),
        lambda: run(pipeline, folder / f"w1-{next(turn)}", workers=2),
        clock=time.monotonic,
        rounds=rounds,
        goal=">= 1.8",
    )


_RESIZE = {"type": "resize_image", "targets": [{"area": 512}]}


def make_pipeline(folder: Path, main: Path, operations: list[dict[str, object]], extra: str = ""):
    """Returns a pipeline over a main dataset."""
    yaml = folder / f"{main.name}.yaml"
    yaml.write_text(
        f"name: {main.name}\nmain_prefix: {main}/\nsidecar_prefix: {folder}/unused-{main.name}/\n"
        f"key_column: image_key\nimage_column: image\n{extra}"
    )
    return build_pipeline(load_dataset(yaml), operations, plugins=("sidecar_core.testing.ops",))


def run(pipeline, out: Path, *, workers: int) -> None:
    """Runs a pipeline on this machine; every shard must be made."""
    prepared = prepare_run(pipeline, RunOptions(output_prefix=str(out), workers=workers, runtime="local"))
    report = execute_run(prepared, runtime=LocalRuntime(workers=workers), command=["benchmark"])
    if not report.ok:
        raise SystemExit(f"shards failed: {report.failed}")


def write_main(folder: Path, images: list[bytes], shards: int = 2) -> Path:
    """Writes pictures as a main dataset of a few shards; returns its folder."""
    folder.mkdir()
    each = -(-len(images) // shards)
    for number in range(shards):
        part = images[number * each : (number + 1) * each]
        keys = [f"{number}/{row}" for row in range(len(part))]
        table = pa.table({"image_key": keys, "image": pa.array(part, pa.binary())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=128, compression="none")
    return folder


def cpu_s() -> float:
    """Returns the CPU seconds of this process and of all children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def read_images(folder: Path | None) -> list[bytes]:
    """Returns a folder's JPEGs of about a megapixel, or one drawn picture."""
    if folder is None:
        from PIL import Image

        noise = Image.effect_noise((576, 432), 60).resize((1152, 864), Image.Resampling.BICUBIC)
        out = io.BytesIO()
        Image.merge("RGB", (noise, noise, Image.linear_gradient("L").resize(noise.size))).save(out, "JPEG", quality=90)
        return [out.getvalue()]
    images = [path.read_bytes() for path in sorted(folder.glob("*.jp*g"))]
    return [image for image in images if len(image) < 600_000] or images


def _yaml_type(dtype: pa.DataType) -> str:
    return {pa.float32(): "float32", pa.string(): "string"}[dtype]


if __name__ == "__main__":
    main()
