"""R3, R4, R5: CPU a row of resizing, beside encoding alone and beside decoding in full with Pillow's Lanczos.

Usage: uv run python benchmarks/resize.py [--images DIR] [--rounds 5] [--json FILE]

DIR holds JPEGs; they are sorted into classes of about 1, 4 and 12 megapixels by their headers. Without it
pictures are drawn. Everything runs in this process, on one core; the contestants take turns in each round, and
the figures are medians of CPU times. R1 and R2, against whole programs of others, are `resize_peers.py`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("VIPS_CONCURRENCY", "1")

from PIL import Image
from sidecar_resize.geometry import target_size
from sidecar_resize.row import resize_row
from sidecar_resize.spec import PixelSpec, ResizeSpec

if TYPE_CHECKING:
    from collections.abc import Callable

_AREAS = {512: 512 * 512, 1024: 1024 * 1024}
_CLASSES = {1: (0.7e6, 1.5e6), 4: (3e6, 6e6), 12: (10e6, 15e6)}
_MOST_OF_A_CLASS = 8
_ENCODING_GOALS = {4: {512: 1.45, 1024: 1.2}, 2: {512: 1.8, 1024: 1.35}}
_PILLOW_GOALS = {(4, 512): 0.55, (12, 512): 0.25}
_FUSED_GOALS = {4: 0.95, 12: 0.85}


def main() -> None:
    """Measures and prints a table; with --json writes the figures too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pictures = read_pictures(arguments.images or draw_pictures(Path(folder)))
    figures = [figure for mpx, images in pictures.items() for figure in measure(mpx, images, arguments.rounds)]
    machine = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pillow", "pyvips", "pyvips-binary", "sidecar-resize")},
    }
    print(json.dumps(machine))
    print(f"{'figure':<38} {'ours ms':>9} {'other ms':>9} {'ratio':>7} {'goal':>6}")
    for each in figures:
        print(f"{each['name']:<38} {each['ours_ms']:>9} {each['other_ms']:>9} {each['ratio']:>7} {each['goal']:>6}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2))


def measure(mpx: int, images: list[bytes], rounds: int) -> list[dict[str, object]]:
    """Returns the figures of one class of pictures."""
    if mpx == 1:
        return [against_encoding(images, side, method, rounds) for side in _AREAS for method in _ENCODING_GOALS]
    return [*(against_pillow(images, mpx, side, rounds) for side in _AREAS), fused(images, mpx, rounds)]


def against_encoding(images: list[bytes], side: int, method: int, rounds: int) -> dict[str, object]:
    """R3: ours beside libwebp encoding the same pixels."""
    spec = ResizeSpec((_AREAS[side],), PixelSpec(webp_method=method))
    ready = [resized_pixels(image, _AREAS[side]) for image in images]
    return ratio(
        f"R3 1 MP to {side}, method {method}, of encoding",
        lambda: [resize_row(image, spec) for image in images],
        lambda: [encode(picture, method) for picture in ready],
        rounds,
        len(images),
        _ENCODING_GOALS[method][side],
    )


def against_pillow(images: list[bytes], mpx: int, side: int, rounds: int) -> dict[str, object]:
    """R4: ours beside a full decode and Pillow's Lanczos."""
    spec = ResizeSpec((_AREAS[side],), PixelSpec(webp_method=4))
    return ratio(
        f"R4 {mpx} MP to {side}, method 4, of Pillow",
        lambda: [resize_row(image, spec) for image in images],
        lambda: [encode(resized_pixels(image, _AREAS[side]), 4) for image in images],
        rounds,
        len(images),
        _PILLOW_GOALS.get((mpx, side)),
    )


def fused(images: list[bytes], mpx: int, rounds: int) -> dict[str, object]:
    """R5: both sizes in one go beside one after the other."""
    both, *each = (ResizeSpec(areas) for areas in (tuple(_AREAS.values()), *((area,) for area in _AREAS.values())))
    return ratio(
        f"R5 {mpx} MP, both sizes, of two runs",
        lambda: [resize_row(image, both) for image in images],
        lambda: [resize_row(image, spec) for spec in each for image in images],
        rounds,
        len(images),
        _FUSED_GOALS[mpx],
    )


def ratio(
    name: str, ours: Callable[[], object], other: Callable[[], object], rounds: int, count: int, goal: float | None
) -> dict[str, object]:
    """Times both in turn; returns medians in ms a picture and the median of the rounds' ratios."""
    ours()
    other()
    times: list[tuple[float, float]] = []
    for _ in range(rounds):
        started = time.process_time()
        ours()
        between = time.process_time()
        other()
        times.append((between - started, time.process_time() - between))
    return {
        "name": name,
        "ours_ms": round(statistics.median(mine for mine, _ in times) / count * 1e3, 2),
        "other_ms": round(statistics.median(theirs for _, theirs in times) / count * 1e3, 2),
        "ratio": round(statistics.median(mine / theirs for mine, theirs in times), 3),
        "goal": "" if goal is None else goal,
    }


def resized_pixels(image: bytes, area_px: int) -> Image.Image:
    """Returns a full decode, scaled with Pillow's Lanczos and cropped as ours is."""
    picture = Image.open(io.BytesIO(image)).convert("RGB")
    size = target_size(picture.width, picture.height, area_px)
    scaled = picture.resize((size.resized_width, size.resized_height), Image.Resampling.LANCZOS)
    return scaled.crop((size.crop_left, size.crop_top, size.crop_left + size.width, size.crop_top + size.height))


def encode(picture: Image.Image, method: int) -> bytes:
    """Returns the picture as WEBP of quality 95."""
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=95, method=method)
    return out.getvalue()


def read_pictures(folder: Path) -> dict[int, list[bytes]]:
    """Returns the JPEGs of a folder by class of megapixels; other sizes are left out."""
    found: dict[int, list[bytes]] = {}
    for path in sorted(folder.glob("*.jp*g")):
        data = path.read_bytes()
        width, height = Image.open(io.BytesIO(data)).size
        for mpx, (least, most) in _CLASSES.items():
            if least <= width * height <= most and len(found.setdefault(mpx, [])) < _MOST_OF_A_CLASS:
                found[mpx].append(data)
    return dict(sorted(found.items()))


def draw_pictures(folder: Path) -> Path:
    """Draws pictures with edges, slopes and grain in three sizes; returns their folder."""
    for mpx, size in {1: (1152, 864), 4: (2304, 1728), 12: (4000, 3000)}.items():
        noise = Image.effect_noise((size[0] // 2, size[1] // 2), 60).resize(size, Image.Resampling.BICUBIC)
        slope = Image.linear_gradient("L").resize(size)
        Image.merge("RGB", (noise, slope, Image.blend(noise, slope, 0.5))).save(folder / f"{mpx}.jpg", quality=90)
    return folder


if __name__ == "__main__":
    main()
