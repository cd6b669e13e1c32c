"""F1, F2: CPU a row of the nine standard measures, beside decoding alone and beside cleanvision.

Usage: uv run python benchmarks/filters.py [--images DIR] [--rounds 5] [--plain-memory] [--environments DIR]
       [--json FILE]

DIR holds JPEGs; they are sorted into classes of about 1, 4 and 12 megapixels by their headers. Without it
pictures are drawn. F1 runs in this process, on one core; the contestants take turns in each round, and the figures
are medians of CPU times. glibc keeps freed memory, as it does in sidecar's isolated children, unless --plain-memory
is given: then it faults pages in anew for each picture, which weighs on both contestants.

cleanvision is measured on the class of 1 MP, its seven checks of single pictures in a process of its own, in an
environment that is made once below --environments; its imports are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
from environments import DEFAULT_FOLDER, NotInstallableError, make_environment
from sidecar_core.isolation.child import keep_freed_memory
from sidecar_filters.jpeg import read_jpeg
from sidecar_filters.measure import MeasureSpec, RowTask, measure_row
from sidecar_filters.registry import find_filters

NINE = (
    "luma",
    "saturation",
    "color_entropy",
    "clarity",
    "texture",
    "edge_density",
    "jpeg_artifact",
    "exif_rotation",
    "exif_metadata",
)
CLASSES = {"1 MP": (0.8e6, 2e6), "4 MP": (3e6, 6e6), "12 MP": (9e6, 16e6)}
GOALS = {"1 MP": 3.5, "4 MP": 2.2, "12 MP": 1.2}
CLEANVISION, CLEANVISION_GOAL = "cleanvision==0.3.7", 4.0


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder of JPEGs; default pictures drawn here")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain-memory", action="store_true")
    parser.add_argument("--environments", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(0)
    if not options.plain_memory:
        keep_freed_memory()
    pictures = read_pictures(options.images) if options.images else draw_pictures()
    spec = MeasureSpec(find_filters(NINE))
    results = {name: measure(files, spec, options.rounds) for name, files in pictures.items() if files}
    report = {
        "workload": "F1, F2",
        "keeps_freed_memory": not options.plain_memory,
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "opencv-python-headless", "pillow", "sidecar-filters")},
        "results": results,
        "goals": GOALS,
    }
    print(f"{'class':>6} {'files':>6} {'decode ms':>10} {'nine ms':>8} {'rows/s a core':>14} {'ratio':>6} {'goal':>5}")
    for name, each in results.items():
        row = (name, each["files"], each["decode_ms"], each["nine_ms"], each["rows_per_s"], each["ratio"], GOALS[name])
        print("{:>6} {:>6} {:>10} {:>8} {:>14} {:>6} {:>5}".format(*row))
    if pictures["1 MP"]:
        report["cleanvision"] = beside_cleanvision(pictures["1 MP"], spec, options.rounds, options.environments)
        print(report["cleanvision"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def read_pictures(folder: Path) -> dict[str, list[bytes]]:
    """Returns the JPEGs of a folder by class."""
    found: dict[str, list[bytes]] = {name: [] for name in CLASSES}
    for path in sorted(folder.rglob("*.jp*g")):
        data = path.read_bytes()
        jpeg = read_jpeg(data)
        for name, (least, most) in CLASSES.items():
            if least <= jpeg.width * jpeg.height < most:
                found[name].append(data)
    return found


def draw_pictures() -> dict[str, list[bytes]]:
    """Returns drawn JPEGs by class: noise at several scales, which costs a decoder about what photographs do."""
    random = np.random.default_rng(1)
    found: dict[str, list[bytes]] = {}
    for name, (width, height), count in (
        ("1 MP", (1280, 960), 12),
        ("4 MP", (2400, 1700), 6),
        ("12 MP", (4000, 3000), 3),
    ):
        found[name] = []
        for _ in range(count):
            pixels = np.zeros((height, width, 3), np.float32)
            for cells, strength in ((6, 60), (40, 30), (250, 12)):
                noise = random.normal(0, strength, (cells * height // width, cells, 3)).astype(np.float32)
                pixels += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
            encoded = cv2.imencode(
                ".jpg", np.clip(pixels + 128, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 90]
            )
            found[name].append(encoded[1].tobytes())
    return found


def measure(files: list[bytes], spec: MeasureSpec, rounds: int) -> dict[str, float]:
    """Returns CPU milliseconds a picture of decoding and of the nine measures, and the median of their ratios."""
    decode, nine = [], []
    for _ in range(rounds + 1):
        decode.append(cpu_ms(lambda: [cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) for data in files]))
        nine.append(cpu_ms(lambda: measure_all(files, spec)))
    decode, nine = decode[1:], nine[1:]  # the first round loads libraries
    return {
        "files": len(files),
        "decode_ms": round(statistics.median(decode) / len(files), 2),
        "nine_ms": round(statistics.median(nine) / len(files), 2),
        "rows_per_s": round(1000 * len(files) / statistics.median(nine), 1),
        "ratio": round(statistics.median(b / a for a, b in zip(decode, nine, strict=True)), 2),
    }


def measure_all(files: list[bytes], spec: MeasureSpec) -> None:
    """Measures every picture; the marks that a child leaves on stderr go nowhere."""
    with quiet_stderr():
        for data in files:
            row = measure_row(RowTask(data, NINE), spec)
            assert not row.failed, row.details


@contextlib.contextmanager
def quiet_stderr():
    """Points fd 2 to nowhere, as an isolated child's points to a file."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def cpu_ms(work) -> float:
    """Returns the CPU time of a call in milliseconds."""
    before = time.process_time()
    work()
    return 1000 * (time.process_time() - before)


def beside_cleanvision(files: list[bytes], spec: MeasureSpec, rounds: int, root: Path) -> dict[str, object]:
    """Returns rows a second and core of both on the same files, or why cleanvision cannot be installed."""
    try:
        python = make_environment("cleanvision", (CLEANVISION,), root)
    except NotInstallableError as error:
        return {"not installed": str(error)}
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "pictures", Path(name) / "seconds"
        folder.mkdir()
        for index, data in enumerate(files):
            (folder / f"{index:03}.jpg").write_bytes(data)
        command = [str(python), str(Path(__file__).with_name("peer_programs.py")), "cleanvision"]
        command += [str(folder), str(out), "0"]
        theirs, ours = [], []
        for _ in range(rounds):
            subprocess.run(command, check=True, capture_output=True)
            theirs.append(1000 * float(out.read_text()))
            ours.append(cpu_ms(lambda: measure_all(files, spec)))
    return {
        "peer": CLEANVISION,
        "cleanvision_rows_per_s": round(1000 * len(files) / statistics.median(theirs), 1),
        "nine_rows_per_s": round(1000 * len(files) / statistics.median(ours), 1),
        "times_as_fast": round(statistics.median(a / b for a, b in zip(theirs, ours, strict=True)), 2),
        "goal": CLEANVISION_GOAL,
    }


if __name__ == "__main__":
    main()
