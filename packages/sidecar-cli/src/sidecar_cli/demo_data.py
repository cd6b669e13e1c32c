"""The demo's main dataset: part clean, with shapes whose boxes are known, part dirty as real crawls are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.reasons import Reason
from sidecar_core.storage import normalise_prefix, open_storage

from sidecar_cli.demo_pictures import PictureRecipe, Shape, draw_picture
from sidecar_cli.pack import PackReport, PackRow, refuse_existing_shards, write_main_dataset

SEED = 20
_SHARDS = 3
_DRAW_TIMEOUT_S = 60.0

_COLORS = {
    "red": (215, 30, 35),
    "green": (25, 160, 60),
    "blue": (35, 70, 215),
    "yellow": (240, 205, 25),
    "magenta": (200, 30, 180),
    "cyan": (20, 185, 205),
}
_KINDS = ("circle", "square", "triangle")
# width, height: both ways up, square, wide, and some that are smaller than a target
_SIZES = ((640, 480), (480, 640), (512, 512), (800, 450), (450, 800), (720, 480), (400, 600), (980, 420), (330, 990))
# format, mode, frames, extension
_FILES = (
    ("JPEG", "RGB", 1, "jpg"),
    ("PNG", "RGB", 1, "png"),
    ("WEBP", "RGB", 1, "webp"),
    ("JPEG", "L", 1, "jpg"),
    ("JPEG", "CMYK", 1, "jpg"),
    ("PNG", "RGBA", 1, "png"),
    ("PNG", "P", 1, "png"),
    ("PNG", "I;16", 1, "png"),
    ("PNG", "LA", 1, "png"),
    ("WEBP", "RGBA", 1, "webp"),
    ("GIF", "P", 1, "gif"),
    ("GIF", "P", 3, "gif"),
    ("TIFF", "RGB", 1, "tif"),
    ("TIFF", "CMYK", 1, "tif"),
    ("AVIF", "RGB", 1, "avif"),
    ("BMP", "RGB", 1, "bmp"),
)
_ROUNDS = 4
_TURNED = (("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp"))
_HTML = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>Not Found</body></html>\n"
_LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 48213\n"
)


@dataclass(frozen=True)
class DemoRow:
    """A row of the demo, and what is known about it.

    Attributes:
        key: the row's key.
        kind: what it shows, for people.
        recipe: what to draw, or None for bytes that are no picture.
        image: the bytes of a row that is not drawn; None there is a null.
        caption: a sentence, or None.
        reasons: per target side, why a resize must call it invalid; None for valid. Empty where either is right.
    """

    key: str
    kind: str
    recipe: PictureRecipe | None = None
    image: bytes | None = None
    caption: str | None = None
    reasons: tuple[tuple[int, Reason | None], ...] = ()

    @property
    def description(self) -> str | None:
        """The structured description: the shapes with their boxes, yxyx, 0-1000 of the displayed picture."""
        if self.recipe is None or not self.recipe.shapes:
            return None
        width, height = self.recipe.width, self.recipe.height
        objects = [
            {
                "label": shape.label,
                "box_2d": [
                    round(1000 * shape.box_xyxy_px[1] / height),
                    round(1000 * shape.box_xyxy_px[0] / width),
                    round(1000 * shape.box_xyxy_px[3] / height),
                    round(1000 * shape.box_xyxy_px[2] / width),
                ],
            }
            for shape in self.recipe.shapes
        ]
        return json.dumps({"high_level_description": self.caption, "objects": objects}, ensure_ascii=False)


def demo_rows(seed: int = SEED) -> list[DemoRow]:
    """Returns the demo's rows in their order; the same for the same seed."""
    random = Random(seed)
    rows = [*_clean_rows(random), *_turned_rows(random), *_dirty_rows(random)]
    random.shuffle(rows)
    return rows


def make_demo_dataset(
    prefix: str, *, seed: int = SEED, workers: int | None = None, storage: StorageOptions | None = None
) -> PackReport:
    """Draws the demo's pictures in isolated children and writes its main dataset.

    Args:
        prefix: where it goes.
        seed: another seed gives other pictures.
        workers: children that draw; default the machine's cores.
        storage: how to reach the prefix.

    Raises:
        RefusedError: the prefix already holds shards.
        WorkerCallFailed: a picture could not be drawn.
    """
    target = open_storage(normalise_prefix(prefix), storage or StorageOptions())
    refuse_existing_shards(target)
    rows = demo_rows(seed)
    images = _draw_all(rows, workers)
    packed = [PackRow(row.key, image, row.caption, row.description) for row, image in zip(rows, images, strict=True)]
    per_shard = -(-len(packed) // _SHARDS)
    shards = [packed[start : start + per_shard] for start in range(0, len(packed), per_shard)]
    return write_main_dataset(target, shards, shard_count=len(shards), captions=True, descriptions=True)


def _draw_all(rows: Sequence[DemoRow], workers: int | None) -> list[bytes | None]:
    recipes = [row.recipe for row in rows if row.recipe is not None]
    options = IsolationOptions() if workers is None else IsolationOptions(workers=workers)
    with IsolationPool(options) as pool:
        drawn = pool.map_rows(draw_picture, recipes, timeout_s=_DRAW_TIMEOUT_S)
    for picture in drawn:
        if isinstance(picture, WorkerCallFailed):
            raise picture
    pictures = iter(drawn)
    return [row.image if row.recipe is None else bytes(next(pictures)) for row in rows]  # pyright: ignore[reportArgumentType] - draw_picture returns bytes


def _clean_rows(random: Random) -> list[DemoRow]:
    rows: list[DemoRow] = []
    for number in range(_ROUNDS * len(_FILES)):
        file_format, mode, frames, extension = _FILES[number % len(_FILES)]
        size = _SIZES[number % len(_SIZES)]
        recipe = PictureRecipe(*size, file_format, mode, frames=frames, tint=_tint(random))
        key = f"clean/{number:03d} {file_format.lower()} {mode.lower().replace(';', '')}.{extension}"
        rows.append(_with_shapes(DemoRow(key, f"{file_format} {mode}", recipe), random))
    return rows


def _turned_rows(random: Random) -> list[DemoRow]:
    """Pictures that are stored turned or mirrored, with an EXIF orientation that says so."""
    rows: list[DemoRow] = []
    for orientation in range(1, 9):
        file_format, extension = _TURNED[orientation % len(_TURNED)] if orientation % 2 else _TURNED[0]
        recipe = PictureRecipe(640, 420, file_format, orientation=orientation, tint=_tint(random))
        key = f"gedreht/größe=640/orientation={orientation}.{extension}"
        rows.append(_with_shapes(DemoRow(key, f"{file_format} orientation {orientation}", recipe), random))
    return rows


def _dirty_rows(random: Random) -> list[DemoRow]:
    whole = PictureRecipe(600, 400, "JPEG", tint=_tint(random))
    png = replace(whole, format="PNG")
    apng = PictureRecipe(320, 240, "PNG", frames=3, damage="apng_frame", tint=_tint(random))
    broken: list[tuple[str, str, PictureRecipe | bytes | None, Reason | None]] = [
        *(
            (f"truncated-{n}.jpg", "truncated JPEG", replace(whole, damage="truncated"), Reason.TRUNCATED)
            for n in range(4)
        ),
        ("truncated.png", "truncated PNG", replace(png, damage="truncated"), Reason.TRUNCATED),
        *((f"page-{n}.jpg", "HTML page saved as .jpg", _HTML, Reason.NOT_AN_IMAGE) for n in range(3)),
        *((f"pointer-{n}.png", "Git LFS pointer", _LFS_POINTER, Reason.NOT_AN_IMAGE) for n in range(2)),
        *((f"empty-{n}.jpg", "empty file", b"", Reason.EMPTY) for n in range(2)),
        *((f"null-{n}.jpg", "null", None, Reason.MISSING) for n in range(2)),
        *(
            (
                f"bomb-{n}.png",
                "PNG that declares 30,000 × 30,000 px",
                replace(png, damage="bomb_header"),
                Reason.TOO_MANY_PIXELS,
            )
            for n in range(2)
        ),
        ("noise.webp", "random bytes", random.randbytes(2000), Reason.NOT_AN_IMAGE),
        ("zeros.jpg", "zero bytes", bytes(4096), Reason.NOT_AN_IMAGE),
        ("strip.png", "12,000 × 20 px", PictureRecipe(12_000, 20, "PNG"), Reason.ASPECT_RATIO_TOO_EXTREME),
        *((f"exif-{n}.jpg", "garbage EXIF", replace(whole, damage="garbage_exif"), None) for n in range(2)),
    ]
    rows = [_dirty_row(name, kind, content, ((512, reason), (1024, reason))) for name, kind, content, reason in broken]
    panorama = PictureRecipe(10_000, 100, "JPEG")
    rows.append(
        _dirty_row("panorama.jpg", "10,000 × 100 px", panorama, ((512, Reason.ASPECT_RATIO_TOO_EXTREME), (1024, None)))
    )
    rows += [_dirty_row(f"apng-{n}.png", "APNG with a damaged frame", apng, ()) for n in range(2)]
    return rows


def _dirty_row(
    name: str, kind: str, content: PictureRecipe | bytes | None, reasons: tuple[tuple[int, Reason | None], ...]
) -> DemoRow:
    key = f"dirty/{name}"
    if isinstance(content, PictureRecipe):
        return DemoRow(key, kind, content, reasons=reasons)
    return DemoRow(key, kind, image=content, reasons=reasons)


def _with_shapes(row: DemoRow, random: Random) -> DemoRow:
    """Draws one to four shapes, each in a quarter of its own, so that none hides another."""
    if row.recipe is None:
        return row
    width, height = row.recipe.width, row.recipe.height
    quarters = random.sample([(0, 0), (0, 1), (1, 0), (1, 1)], random.randint(1, 4))
    shapes: list[Shape] = []
    for right, down in quarters:
        side_w, side_h = (random.randint(span // 5, span * 2 // 5) for span in (width, height))
        left = right * width // 2 + random.randint(0, width // 2 - side_w)
        top = down * height // 2 + random.randint(0, height // 2 - side_h)
        color = random.choice(sorted(_COLORS))
        kind = random.choice(_KINDS)
        gray = row.recipe.mode in ("L", "LA", "I;16")
        label = kind if gray else f"{color} {kind}"
        shapes.append(Shape(label, kind, _COLORS[color], (left, top, left + side_w, top + side_h)))
    listed = " and ".join(f"a {shape.label}" for shape in shapes)
    return replace(
        row,
        recipe=replace(row.recipe, shapes=tuple(shapes)),
        caption=f"{listed[0].upper()}{listed[1:]} on a soft background.",
        reasons=((512, None), (1024, None)),
    )


def _tint(random: Random) -> tuple[int, int, int]:
    return (random.randint(150, 230), random.randint(150, 230), random.randint(150, 230))
