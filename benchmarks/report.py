"""Peak memory, time and size of a report on a million rows, without and with pictures.

Usage: uv run python benchmarks/report.py [--rows 1000000] [--shards 20] [--json FILE]

The sidecar has as many measures as all filters together. The second time, its main dataset holds a tiny picture a
row. The peak is that of the process that makes the report (VmHWM), its decoding children not counted. Linux only.
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
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sidecar_core.align import key_digest
from sidecar_core.footer import FooterInfo, InputVersion

STRUCTS, FIELDS = 10, 5
REASONS = ("ok",) * 47 + ("truncated", "not_an_image", "crashed")


def main() -> None:
    """Measures and prints a table; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        pictures = draw_pictures()
        for rows in sorted({min(20_000, options.rows), options.rows}):
            for with_pictures in (False, True):
                name = f"{rows}_{with_pictures}"
                write_dataset(root / name, rows, options.shards, pictures if with_pictures else None)
                results.append({"rows": rows, "pictures": with_pictures, **measure(root / name / "out")})
    print(f"{'rows':>9} {'pictures':>9} {'peak MiB':>9} {'seconds':>8} {'page MB':>8}")
    for each in results:
        shown = "yes" if each["pictures"] else "no"
        print(f"{each['rows']:>9} {shown:>9} {each['peak_mib']:>9} {each['seconds']:>8} {each['page_mb']:>8}")
    if options.json:
        report = {
            "workload": "report",
            "machine": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "packages": {name: version(name) for name in ("pyarrow", "sidecar-core", "sidecar-cli")},
            "measures": STRUCTS * FIELDS,
            "results": results,
        }
        options.json.write_text(json.dumps(report, indent=2))


def write_dataset(root: Path, rows: int, shards: int, pictures: list[bytes] | None) -> None:
    """Writes a sidecar, and with pictures the main dataset that its footers name, shard by shard."""
    for number in range(shards):
        start, end = rows * number // shards, rows * (number + 1) // shards
        rel_path = f"part-{number:05d}.parquet"
        count = end - start
        keys = pa.array([f"{row:09d}.jpg" for row in range(start, end)])
        columns = {"image_key": keys}
        for struct in range(STRUCTS):
            values = [
                pc.power(pc.random(count, initializer=(number * STRUCTS + struct) * FIELDS + field), 1 + field).cast(
                    pa.float32()
                )
                for field in range(FIELDS)
            ]
            columns[f"filter_{struct}"] = pa.StructArray.from_arrays(values, [f"measure_{n}" for n in range(FIELDS)])
        reasons = pa.array([REASONS[row % len(REASONS)] for row in range(count)])
        columns["filter_status"] = pa.StructArray.from_arrays([reasons, reasons], ["status", "detail"])
        inputs = ()
        if pictures is not None:
            path = root / "main" / rel_path
            images = pa.array([pictures[row % len(pictures)] for row in range(count)])
            write(path, pa.table({"image_key": keys, "image": images}))
            inputs = (InputVersion("main", str(path), path.stat().st_size),)
        digest = key_digest(keys)
        footer = FooterInfo("f" * 64, "run", "0.1.0", inputs, count, digest, (digest,), {})
        write(root / "out" / rel_path, pa.table(columns).replace_schema_metadata(footer.to_metadata()))


def write(path: Path, table: pa.Table) -> None:
    """Writes a shard with row groups as outputs have them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=65_536)


def draw_pictures() -> list[bytes]:
    """Returns a few tiny JPEGs, drawn in a process of its own."""
    drawing = (
        "import io, sys, struct\n"
        "from PIL import Image\n"
        "for size in ((32, 24), (24, 32), (40, 40)):\n"
        "    out = io.BytesIO(); Image.effect_noise(size, 90).convert('RGB').save(out, 'JPEG')\n"
        "    sys.stdout.buffer.write(struct.pack('<I', out.tell()) + out.getvalue())\n"
    )
    data = subprocess.run([sys.executable, "-c", drawing], check=True, capture_output=True).stdout
    pictures = []
    while data:
        length = int.from_bytes(data[:4], "little")
        pictures.append(data[4 : 4 + length])
        data = data[4 + length :]
    return pictures


def measure(prefix: Path) -> dict[str, float]:
    """Makes the report in a process of its own; returns its peak memory, time and size."""
    code = (
        "import sys\n"
        "from sidecar_cli.main import main\n"
        "status = main(['report', sys.argv[1], '--json'])\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM:'))\n"
        "print(peak.split()[1], file=sys.stderr)\n"
        "sys.exit(status)\n"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, str(prefix)], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    return {
        "peak_mib": int(done.stderr.split()[-1]) // 1024,
        "seconds": round(time.monotonic() - started, 1),
        "page_mb": round(result["bytes"] / 1e6, 2),
        "rows_read": result["rows_read"],
        "pictures_shown": result["pictures"],
    }


if __name__ == "__main__":
    main()
