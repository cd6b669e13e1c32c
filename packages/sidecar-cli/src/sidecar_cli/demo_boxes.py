"""The demo's boxes: moved into its resized pictures, and looked at there: each must sit on the shape it names."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, cast

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.shard_reader import open_parquet
from sidecar_resize.boxes import find_boxes
from sidecar_resize.crop_meta import META_COLUMN

from sidecar_cli.demo_data import demo_rows
from sidecar_cli.demo_pictures import colors_at
from sidecar_cli.pack import IMAGE_COLUMN, KEY_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sidecar_core.isolation import IsolationPool
    from sidecar_core.storage import Storage

    from sidecar_cli.demo_data import DemoRow
    from sidecar_cli.demo_pictures import Shape

PIPELINE = """\
# The descriptions with their boxes moved into the 512 and the 1024 pictures.
dataset: main
operations:
  - type: crop_structured_description
    resized:
      512: ../../0_262mp/
      1024: ../../1_05mp/
"""
_NEAR = 48  # of 255: what JPEG, palettes and CMYK may do to a flat colour
_GRAY_MODES = ("L", "LA", "I;16")
_INSIDE = {  # (y, x) as fractions of the shape's bounds
    "square": ((0.12, 0.12), (0.12, 0.88), (0.88, 0.12), (0.88, 0.88)),
    "circle": ((0.12, 0.5), (0.5, 0.12), (0.5, 0.88), (0.88, 0.5)),
    "triangle": ((0.3, 0.5), (0.88, 0.2), (0.88, 0.8)),
}

Color = tuple[int, int, int]


def find_box_surprises(cropped: Storage, resized: Mapping[int, Storage], isolation: IsolationPool) -> list[str]:
    """Returns one sentence for each row whose moved boxes are not on the shapes that they name.

    Args:
        cropped: the output of the crop pipeline.
        resized: the resized datasets, by side.
        isolation: children that look at the pictures.
    """
    known = {row.key: row for row in demo_rows()}
    surprises: list[str] = []
    for info in cropped.list_shards():
        with open_parquet(cropped, info.rel_path) as file:
            rows = file.read().to_pylist()
        for row in rows:
            drawn = known[row[KEY_COLUMN]]
            expected = "no_description" if drawn.description is None else "ok"
            status = row[META_COLUMN]["status"]
            if status != expected:
                surprises.append(f"{cropped.prefix}: the boxes of {drawn.key} are {status!r}, and must be {expected!r}")
        for side, storage in resized.items():
            with open_parquet(storage, info.rel_path) as file:
                pictures = file.read(columns=[IMAGE_COLUMN]).column(IMAGE_COLUMN).to_pylist()
            texts = [row[f"structured_description_crop_{side}"] for row in rows]
            drawn_rows = [known[row[KEY_COLUMN]] for row in rows]
            surprises += _look_at(side, drawn_rows, pictures, texts, isolation)
    return surprises


def _look_at(
    side: int,
    rows: Sequence[DemoRow],
    pictures: Sequence[bytes | None],
    texts: Sequence[str | None],
    isolation: IsolationPool,
) -> Iterator[str]:
    """Yields what is wrong with the boxes of one target's pictures."""
    looked_at: list[tuple[DemoRow, bytes, list[tuple[float, float]]]] = []
    for row, picture, text in zip(rows, pictures, texts, strict=True):
        shapes = () if row.recipe is None else row.recipe.shapes
        boxes = [box.box_yxyx_1000 for box in find_boxes(text)]
        if len(boxes) != len(shapes):
            yield f"the {side} picture of {row.key} has {len(boxes)} boxes, and {len(shapes)} shapes are drawn"
        elif picture is not None and shapes:
            points = [_points(shape, box) for shape, box in zip(shapes, boxes, strict=True)]
            looked_at.append((row, picture, list(chain.from_iterable(points))))
    colors = isolation.map_rows(colors_at, [(picture, points) for _, picture, points in looked_at])
    for (row, _, _), found in zip(looked_at, colors, strict=True):
        if isinstance(found, WorkerCallFailed):
            raise found
        yield from _wrong_colors(side, row, cast("list[Color]", found))


def _points(shape: Shape, box_yxyx_1000: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    """Returns points just inside a shape, if it fills the box."""
    top, left, bottom, right = box_yxyx_1000
    return [(top + y * (bottom - top), left + x * (right - left)) for y, x in _INSIDE[shape.kind]]


def _wrong_colors(side: int, row: DemoRow, colors: Sequence[Color]) -> Iterator[str]:
    if row.recipe is None:
        return
    left = iter(colors)
    for shape in row.recipe.shapes:
        wanted = _as_gray(shape.color) if row.recipe.mode in _GRAY_MODES else shape.color
        for color in [next(left) for _ in _INSIDE[shape.kind]]:
            if max(abs(got - want) for got, want in zip(color, wanted, strict=True)) > _NEAR:
                yield f"in the {side} picture of {row.key}, the box of {shape.label!r} is on {color}, not on {wanted}"
                break


def _as_gray(color: Color) -> Color:
    red, green, blue = color
    level = round(0.299 * red + 0.587 * green + 0.114 * blue)
    return level, level, level
