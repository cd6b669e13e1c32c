"""R3, R4, R5: CPU a row of resizing, beside encoding alone and beside decoding in full with Pillow's Lanczos.

Usage: uv run python benchmarks/resize.py [--images DIR] [--rounds 5] [--json FILE]

DIR holds JPEGs; they are sorted into classes of about 1, 4 and 12 megapixels by their headers. Without it
pictures are drawn. Everything runs in this process, on one core; the contestants take turns in each round, and
the figures are medians of CPU times. glibc keeps freed memory, as it does in sidecar's isolated children: that spares
all contestants the page faults of each picture. R1 and R2, against whole programs of others, are `peers.py`.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("VIPS_CONCURRENCY", "1")

from paired import in_turn, show
from PIL import Image
from sidecar_core.isolation.child import keep_freed_memory
from sidecar_resize.geometry import target_size
from sidecar_resize.row import resize_row
from sidecar_resize.spec import PixelSpec, ResizeSpec

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
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        pictures = read_pictures(arguments.images or draw_pictures(Path(folder)))
    figures = [figure for mpx, images in pictures.items() for figure in measure(mpx, images, arguments.rounds)]
    show(figures, ("pillow", "pyvips", "pyvips-binary", "sidecar-resize"), arguments.json)


def measure(mpx: int, images: list[bytes], rounds: int) -> list[dict[str, object]]:
    """Returns the figures of one class of pictures."""
    if mpx == 1:
        return [against_encoding(images, side, method, rounds) for side in _AREAS for method in _ENCODING_GOALS]
    return [*(against_pillow(images, mpx, side, rounds) for side in _AREAS), fused(images, mpx, rounds)]


def against_encoding(images: list[bytes], side: int, method: int, rounds: int) -> dict[str, object]:
    """R3: ours beside libwebp encoding the same pixels."""
    spec = ResizeSpec((_AREAS[side],), PixelSpec(webp_method=method))
    ready = [resized_pixels(image, _AREAS[side]) for image in images]
    return in_turn(
        f"R3 1 MP to {side}, method {method}, of encoding",
        lambda: [resize_row(image, spec) for image in images],
        lambda: [encode(picture, method) for picture in ready],
        clock=time.process_time,
        rounds=rounds,
        goal=goal_text(_ENCODING_GOALS[method][side]),
    )


def against_pillow(images: list[bytes], mpx: int, side: int, rounds: int) -> dict[str, object]:
    """R4: ours beside a full decode and Pillow's Lanczos."""
    spec = ResizeSpec((_AREAS[side],), PixelSpec(webp_method=4))
    return in_turn(
        f"R4 {mpx} MP to {side}, method 4, of Pillow",
        lambda: [resize_row(image, spec) for image in images],
        lambda: [encode(resized_pixels(image, _AREAS[side]), 4) for image in images],
        clock=time.process_time,
        rounds=rounds,
        goal=goal_text(_PILLOW_GOALS.get((mpx, side))),
    )


def fused(images: list[bytes], mpx: int, rounds: int) -> dict[str, object]:
    """R5: both sizes in one go beside one after the other."""
    both, *each = (ResizeSpec(areas) for areas in (tuple(_AREAS.values()), *((area,) for area in _AREAS.values())))
    return in_turn(
        f"R5 {mpx} MP, both sizes, of two runs",
        lambda: [resize_row(image, both) for image in images],
        lambda: [resize_row(image, spec) for spec in each for image in images],
        clock=time.process_time,
        rounds=rounds,
        goal=goal_text(_FUSED_GOALS[mpx]),
    )


def goal_text(most: float | None) -> str:
    """Returns a goal as the table shows it."""
    return "" if most is None else f"<= {most}"


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


def read_pictures(folder: Path, *, most: int = _MOST_OF_A_CLASS) -> dict[int, list[bytes]]:
    """Returns the first JPEGs of a folder by class of megapixels; other sizes are left out."""
    found: dict[int, list[bytes]] = {}
    for path in sorted(folder.glob("*.jp*g")):
        data = path.read_bytes()
        width, height = Image.open(io.BytesIO(data)).size
        for mpx, (least_px, most_px) in _CLASSES.items():
            if least_px <= width * height <= most_px and len(found.setdefault(mpx, [])) < most:
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
