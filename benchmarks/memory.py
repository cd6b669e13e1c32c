"""M1: peak memory of a resize run on a large shard beside a small one of the same pictures.

Usage: uv run python benchmarks/memory.py [--images DIR] [--rows 1000 20000] [--json FILE]

Each shard holds the same pictures over and over, in one row group, which is the hardest case. The peak
is read while the run goes on: of the driver alone, and of the driver with all its children (PSS, so
that shared pages count once). Linux only.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SAMPLE_EVERY_S = 0.05


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder of pictures; default pictures drawn here")
    parser.add_argument("--rows", type=int, nargs=2, default=(1000, 20_000), metavar=("SMALL", "LARGE"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pictures = read_pictures(options.images) if options.images else draw_pictures()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            main_prefix = Path(folder) / f"main_{rows}"
            write_shard(main_prefix / "part-00000.parquet", pictures, rows)
            results.append({"rows": rows, **measure(main_prefix, Path(folder) / f"out_{rows}", options.workers)})
    report = {
        "workload": "M1",
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("pyarrow", "pillow", "sidecar-core", "sidecar-resize")},
        "picture_bytes": sum(map(len, pictures)) // len(pictures),
        "results": results,
        "ratio_driver": round(results[1]["driver_mib"] / results[0]["driver_mib"], 3),
        "ratio_all": round(results[1]["all_mib"] / results[0]["all_mib"], 3),
        "goal": 1.2,
    }
    print(f"{'rows':>8} {'driver MiB':>11} {'all MiB':>9} {'seconds':>8}")
    for each in results:
        print(f"{each['rows']:>8} {each['driver_mib']:>11} {each['all_mib']:>9} {each['seconds']:>8}")
    print(f"ratio: driver {report['ratio_driver']}, all {report['ratio_all']}; goal at most {report['goal']}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def read_pictures(folder: Path) -> list[bytes]:
    """Returns the files of a folder."""
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix.lower() in {".jpg", ".png", ".webp"}]


def draw_pictures() -> list[bytes]:
    """Returns a few noisy JPEGs of some 50 KB, drawn in a process of its own."""
    drawing = (
        "import io, sys, struct\n"
        "from PIL import Image\n"
        "for size in ((320, 240), (240, 320), (400, 300), (300, 300)):\n"
        "    picture = Image.effect_noise(size, 90).convert('RGB')\n"
        "    out = io.BytesIO(); picture.save(out, 'JPEG', quality=92)\n"
        "    sys.stdout.buffer.write(struct.pack('<I', out.tell()) + out.getvalue())\n"
    )
    data = subprocess.run([sys.executable, "-c", drawing], check=True, capture_output=True).stdout
    pictures = []
    while data:
        length = int.from_bytes(data[:4], "little")
        pictures.append(data[4 : 4 + length])
        data = data[4 + length :]
    return pictures


def write_shard(path: Path, pictures: list[bytes], rows: int) -> None:
    """Writes a shard of one row group in which the pictures take turns, without holding it in memory."""
    path.parent.mkdir(parents=True)
    schema = pa.schema([("image_key", pa.string()), ("image", pa.binary())])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        batch_rows = 256
        for first in range(0, rows, batch_rows):
            numbers = range(first, min(first + batch_rows, rows))
            columns = [
                pa.array([f"{number:08d}" for number in numbers]),
                pa.array([pictures[number % len(pictures)] for number in numbers], pa.binary()),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema), row_group_size=10**9)


def measure(main_prefix: Path, out: Path, workers: int) -> dict[str, float]:
    """Runs the build and returns the peaks of its memory in MiB."""
    command = [sys.executable, "-m", "sidecar_cli.main", "build-0-262mp", "--main-prefix", str(main_prefix)]
    command += ["--output-prefix", str(out), "--workers", str(workers)]
    started = time.monotonic()
    driver_kib = all_kib = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            driver_kib = max(driver_kib, rss_kib(process.pid))
            all_kib = max(all_kib, sum(pss_kib(pid) for pid in (process.pid, *descendants(process.pid))))
            time.sleep(SAMPLE_EVERY_S)
        if process.returncode:
            raise SystemExit(process.stderr.read().decode() if process.stderr else "the run failed")
    return {
        "driver_mib": driver_kib // 1024,
        "all_mib": all_kib // 1024,
        "seconds": round(time.monotonic() - started, 1),
    }


def descendants(pid: int) -> list[int]:
    """Returns the children of a process, and theirs."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for task in Path(f"/proc/{pid}/task").iterdir():
            if task.name != str(pid):
                children += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return [each for child in children for each in (child, *descendants(child))]


def rss_kib(pid: int) -> int:
    """Returns the peak resident size of a process, or 0 when it is gone."""
    return _proc_kib(f"/proc/{pid}/status", "VmHWM:")


def pss_kib(pid: int) -> int:
    """Returns the proportional resident size of a process, or 0 when it is gone."""
    return _proc_kib(f"/proc/{pid}/smaps_rollup", "Pss:")


def _proc_kib(path: str, label: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(label)), 0)


if __name__ == "__main__":
    main()
