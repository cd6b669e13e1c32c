"""R1, R2: resizing 512 pictures of 1 MP to 512 with two workers, as a whole program, beside those of others.

Usage: uv run python benchmarks/peers.py [--images DIR] [--rows 512] [--rounds 3] [--only NAME…]
       [--environments DIR] [--json FILE]

The contestants take turns in one run: `sidecar build-0-262mp` with encoder method 4 (R1) and with its default, method
2 (R2); a pool of two Pillow processes, also at method 2; Hugging Face datasets; Daft; img2dataset. Each of the others
runs in an environment of its own, made by `uv venv` once below --environments (default a folder of the user's cache)
with the versions pinned here; one that cannot be made is reported and left out. What they do is `peer_programs.py`.

All read the same pictures and write WEBP of quality 95, lossy, to Parquet. The others use libwebp's default, method 4,
unless said. All but img2dataset make the same sizes; it cannot crop to them, so its shorter side is chosen to give as
many pixels in all. img2dataset also ignores the EXIF orientation. Time is that of the whole process with its start;
CPU time is that of all its processes. The Python code of all is compiled: that of the others when it is installed, that
of sidecar in a run that does not count. Rows/s of two workers mean something on an idle machine only; CPU time does on
a busy one too.

PSNR and SSIM (luma, Gaussian window of 11 px) compare what is decoded from the outputs with a full decode and Pillow's
LANCZOS, unencoded, over all distinct pictures. DIR holds JPEGs, of which those of about 1 MP are taken; without it
pictures are drawn.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import resize as resize_benchmark
from environments import DEFAULT_FOLDER, NotInstallableError, make_environment
from paired import keep_bytecode
from PIL import Image, ImageOps
from sidecar_resize import geometry

AREA_PX = 512 * 512
GOALS = {"R1": 1.3, "R2": 2.0, "psnr_loss_db": 0.7, "ssim_loss": 0.003, "bytes": 0.02}
MOST_CRASHES = 3  # of a peer, in all rounds
PILLOW = "pillow==13.0.0"
PROGRAMS = Path(__file__).with_name("peer_programs.py")
QUIET = {
    "NO_ALBUMENTATIONS_UPDATE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "DO_NOT_TRACK": "1",
    "DAFT_PROGRESS_BAR": "0",
}


@dataclass(frozen=True)
class Contestant:
    """A program that resizes.

    Attributes:
        name: for the table.
        requirements: what its environment holds; empty for sidecar, which runs in this one.
        program: its name in `peer_programs.py`, or None for sidecar.
        method: libwebp's method, where it can be set.
    """

    name: str
    requirements: tuple[str, ...] = ()
    program: str | None = None
    method: int = 4

    @property
    def is_peer(self) -> bool:
        """Whether it is one of those that sidecar is measured against."""
        return self.program is not None and self.method == 4


CONTESTANTS = (
    Contestant("sidecar, method 4"),
    Contestant("sidecar, default", method=2),
    Contestant("Pillow pool of 2", (PILLOW, "pyarrow==26.0.1"), "pillow"),
    Contestant("Pillow pool, method 2", (PILLOW, "pyarrow==26.0.1"), "pillow", method=2),
    Contestant("datasets map(num_proc=2)", ("datasets==5.2.0", PILLOW, "pyarrow==26.0.1"), "huggingface"),
    Contestant("Daft batch function", ("daft==0.7.26", PILLOW), "daft"),
    Contestant("img2dataset, 2 processes", ("img2dataset==1.47.0",), "img2dataset"),
)
SHOWN_PACKAGES = ("pillow", "pyarrow", "datasets", "daft", "img2dataset", "opencv-python-headless", "numpy")


def main() -> None:
    """Measures and prints tables; with --json also writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="a folder of JPEGs; default pictures drawn here")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contestants whose names begin so")
    parser.add_argument("--environments", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [each for each in CONTESTANTS if not options.only or each.name.startswith(tuple(options.only))]
    pythons, unavailable = make_environments(chosen, options.environments)
    contestants = [each for each in chosen if each in pythons]
    with tempfile.TemporaryDirectory(prefix="sidecar-peers-") as name:
        folder = Path(name)
        pictures = resize_benchmark.read_pictures(options.images or draw_pictures(folder), most=64)[1]
        write_main(folder / "main", pictures, options.rows)
        rounds: dict[str, list[dict[str, float]]] = {each.name: [] for each in contestants}
        quality: dict[str, dict[str, float]] = {}
        crashes: dict[str, list[str]] = {}
        keep_bytecode(folder / "compiled")
        ours = [each for each in contestants if each.program is None]
        if ours:
            measure(ours[0], pythons[ours[0]], folder / "main", folder / "out", options.rows, {})
            clear(folder)
        for number in range(options.rounds):
            for each in contestants[:: 1 if number % 2 == 0 else -1]:
                out = folder / "out"
                rounds[each.name].append(measure(each, pythons[each], folder / "main", out, options.rows, crashes))
                print(f"round {number + 1}: {each.name}: {rounds[each.name][-1]}", file=sys.stderr, flush=True)
                if each.name not in quality:
                    quality[each.name] = judge(each, out, pictures, options.rows)
                clear(folder)
    results = {
        name: {**{key: statistics.median(turn[key] for turn in turns) for key in turns[0]}, **quality[name]}
        for name, turns in rounds.items()
    }
    report = {
        "workload": f"R1, R2: {options.rows} rows of 1 MP to 512, 2 workers",
        "pictures": f"{len(pictures)} {'photos' if options.images else 'drawn'}",
        "machine": {"machine": platform.platform(), "cores": os.cpu_count(), "load": os.getloadavg()},
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("pyarrow", "pillow", "pyvips", "sidecar-resize", "sidecar-core")},
        "peers": {each.name: installed(pythons[each]) for each in contestants if each.program},
        "unavailable": unavailable,
        "crashes": crashes,
        "results": results,
        "rounds": rounds,
        "ratios": compare(contestants, rounds),
        "goals": GOALS,
    }
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2), encoding="utf-8")


def make_environments(contestants: list[Contestant], root: Path) -> tuple[dict[Contestant, Path], dict[str, str]]:
    """Returns each contestant's Python, and for those that cannot be installed, why."""
    pythons: dict[Contestant, Path] = {}
    unavailable: dict[str, str] = {}
    for each in contestants:
        if each.program is None:
            pythons[each] = Path(sys.executable)
            continue
        try:
            pythons[each] = make_environment(each.program, each.requirements, root)
        except NotInstallableError as error:
            unavailable[each.name] = str(error)
    return pythons, unavailable


def installed(python: Path) -> dict[str, str]:
    """Returns the versions of what matters in an environment."""
    code = (
        "import sys, json; from importlib.metadata import distributions; "
        "print(json.dumps({d.name.lower(): d.version for d in distributions() if d.name.lower() in sys.argv[1:]}))"
    )
    found = subprocess.run([str(python), "-c", code, *SHOWN_PACKAGES], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def draw_pictures(folder: Path) -> Path:
    """Draws pictures as `resize.py` does; returns their folder."""
    (folder / "drawn").mkdir()
    return resize_benchmark.draw_pictures(folder / "drawn")


def write_main(main: Path, pictures: list[bytes], rows: int) -> None:
    """Writes the pictures in turn, as a shard, as files and as a list of these; and the geometry for the others."""
    (main / "shard").mkdir(parents=True)
    (main / "files").mkdir()
    (main / "modules").mkdir()
    shutil.copy(geometry.__file__, main / "modules")
    keys = [f"{row:06}.jpg" for row in range(rows)]
    images = list(itertools.islice(itertools.cycle(pictures), rows))
    for key, image in zip(keys, images, strict=True):
        (main / "files" / key).write_bytes(image)
    table = pa.table({"image_key": keys, "image": pa.array(images, pa.binary())})
    pq.write_table(table, main / "shard/main.parquet", row_group_size=128, compression="none", use_dictionary=False)
    urls = [f"file://{main}/files/{key}" for key in keys]
    pq.write_table(pa.table({"image_key": keys, "url": urls}), main / "urls.parquet")


def shorter_side(pictures: list[bytes]) -> int:
    """Returns the length to which img2dataset scales shorter sides, to give as many pixels as the others."""
    sizes = [Image.open(io.BytesIO(picture)).size for picture in pictures]
    wanted = sum(target.width * target.height for target in (geometry.target_size(*size, AREA_PX) for size in sizes))
    return round((wanted / sum(max(size) / min(size) for size in sizes)) ** 0.5)


def clear(folder: Path) -> None:
    """Removes what a contestant wrote."""
    for path in folder.glob("out*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def measure(
    each: Contestant, python: Path, main: Path, out: Path, rows: int, crashes: dict[str, list[str]]
) -> dict[str, float]:
    """Runs a contestant, a peer that crashes once more; returns seconds of the wall and of CPU, and rows/s."""
    if each.program is None:
        command = [str(python), "-m", "sidecar_cli.main", "build-0-262mp", "--main-prefix", str(main / "shard")]
        command += ["--output-prefix", str(out), "--workers", "2", "--webp-method", str(each.method)]
    else:
        number = each.method
        if each.program == "img2dataset":
            number = shorter_side([path.read_bytes() for path in sorted((main / "files").iterdir())])
        command = [str(python), str(PROGRAMS), each.program, str(main), str(out), str(number)]
    environment = {**os.environ, **QUIET}
    if each.program is not None:
        environment["PYTHONPATH"] = str(main / "modules")
        del environment["PYTHONPYCACHEPREFIX"]  # what uv compiled is beside the sources
    log = out.with_name("out-log")
    started = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said = f"ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}"
        if each.program is None or len(crashes.get(each.name, ())) >= MOST_CRASHES:
            raise SystemExit(f"{each.name} {said}")
        print(f"{each.name} {said}", file=sys.stderr, flush=True)
        crashes.setdefault(each.name, []).append(said)
        clear(out.parent)
        return measure(each, python, main, out, rows, crashes)
    return {
        "wall_s": round(seconds, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "rows_per_s": round(rows / seconds, 1),
    }


def judge(each: Contestant, out: Path, pictures: list[bytes], rows: int) -> dict[str, float]:
    """Returns mean PSNR in dB, SSIM and bytes of a contestant's outputs of the distinct pictures."""
    files = sorted(out.rglob("*.parquet")) if out.is_dir() else [out]
    column = "webp" if each.program == "img2dataset" else "image"
    found: dict[str, bytes] = {}
    for file in files:
        table = pq.ParquetFile(file).read(columns=["image_key", column])
        found.update(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
    assert len(found) == rows, f"{each.name}: {len(found)} rows"
    scores: list[tuple[float, float]] = []
    for row, picture in enumerate(pictures[:rows]):
        made = np.asarray(Image.open(io.BytesIO(found[f"{row:06}.jpg"])).convert("RGB"))
        wanted = reference(picture, None if each.program != "img2dataset" else (made.shape[1], made.shape[0]))
        assert made.shape == wanted.shape, f"{each.name}, row {row}: {made.shape} where {wanted.shape} was wanted"
        scores.append((psnr(made, wanted), ssim(made, wanted)))
    sizes = [len(image) for image in found.values()]
    return {
        "psnr_db": round(statistics.mean(score for score, _ in scores), 2),
        "ssim": round(statistics.mean(score for _, score in scores), 4),
        "bytes_a_row": round(statistics.mean(sizes)),
    }


def reference(picture: bytes, size: tuple[int, int] | None) -> np.ndarray:
    """Returns the pixels of a full decode and Pillow's LANCZOS, cropped; or scaled to `size` as it lies in the file."""
    image = Image.open(io.BytesIO(picture))
    if size is not None:
        return np.asarray(image.convert("RGB").resize(size, Image.Resampling.LANCZOS))
    image = ImageOps.exif_transpose(image).convert("RGB")
    target = geometry.target_size(image.width, image.height, AREA_PX)
    scaled = image.resize((target.resized_width, target.resized_height), Image.Resampling.LANCZOS)
    left, top = target.crop_left, target.crop_top
    return np.asarray(scaled.crop((left, top, left + target.width, top + target.height)))


def psnr(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the peak signal-to-noise ratio over all channels in dB."""
    error = np.mean((first.astype(np.float64) - second) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def ssim(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the mean structural similarity of the luma (Wang et al. 2004: Gaussian window of 11 px, sigma 1.5)."""
    a, b = (cv2.cvtColor(each, cv2.COLOR_RGB2GRAY).astype(np.float64) for each in (first, second))

    def blurred(values: np.ndarray) -> np.ndarray:
        return cv2.GaussianBlur(values, (11, 11), 1.5)[5:-5, 5:-5]

    mean_a, mean_b = blurred(a), blurred(b)
    spread_a, spread_b = blurred(a * a) - mean_a**2, blurred(b * b) - mean_b**2
    both = blurred(a * b) - mean_a * mean_b
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    upper = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    return float(np.mean(upper / ((mean_a**2 + mean_b**2 + c1) * (spread_a + spread_b + c2))))


def compare(contestants: list[Contestant], rounds: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Returns how many times as fast as the best peer of its round sidecar is, by the wall and by CPU time: medians."""
    peers = [each.name for each in contestants if each.is_peer]
    ratios: dict[str, dict[str, float]] = {}
    for goal, ours in (("R1", CONTESTANTS[0].name), ("R2", CONTESTANTS[1].name)):
        if peers and ours in rounds:
            ratios[goal] = {
                key: round(
                    statistics.median(
                        min(rounds[peer][number][key] for peer in peers) / turn[key]
                        for number, turn in enumerate(rounds[ours])
                    ),
                    2,
                )
                for key in ("wall_s", "cpu_s")
            }
    return ratios


def show(report: dict) -> None:
    """Prints the machine, a table, and what is beside each goal."""
    print(json.dumps({key: report[key] for key in ("workload", "pictures", "machine", "python", "packages")}))
    for name, packages in report["peers"].items():
        print(f"  {name}: {', '.join(f'{each} {number}' for each, number in sorted(packages.items()))}")
    print(f"{'':26} {'rows/s':>7} {'wall s':>7} {'CPU s':>7} {'PSNR dB':>8} {'SSIM':>7} {'bytes':>7}")
    for name, each in report["results"].items():
        print(
            f"{name:26} {each['rows_per_s']:>7} {each['wall_s']:>7} {each['cpu_s']:>7} {each['psnr_db']:>8} "
            f"{each['ssim']:>7} {each['bytes_a_row']:>7}"
        )
    for name, ends in report["crashes"].items():
        print(f"{name}: crashed and was run again, {len(ends)} x: {ends[0][:80]}")
    for name, why in report["unavailable"].items():
        print(f"{name}: could not be installed: {why}")
    for name, ratio in report["ratios"].items():
        goal = GOALS[name]
        print(f"{name}: {ratio['wall_s']} x the best peer's rows/s, {ratio['cpu_s']} x by CPU time; goal >= {goal}")
    best, ours = (report["results"].get(name) for name in ("Pillow pool of 2", CONTESTANTS[1].name))
    if best and ours:
        print(
            f"R2: {ours['psnr_db'] - best['psnr_db']:+.2f} dB, {ours['ssim'] - best['ssim']:+.4f} SSIM and "
            f"{ours['bytes_a_row'] / best['bytes_a_row'] - 1:+.1%} bytes beside Pillow's LANCZOS and method 4; goals "
            f"-{GOALS['psnr_loss_db']}, -{GOALS['ssim_loss']}, {GOALS['bytes']:.0%}"
        )


if __name__ == "__main__":
    main()
