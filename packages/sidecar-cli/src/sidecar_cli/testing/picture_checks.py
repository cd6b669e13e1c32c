"""Looks at pictures on behalf of tests; runs in isolated children, the only place that imports Pillow."""

from __future__ import annotations

import io
from dataclasses import dataclass


@dataclass(frozen=True)
class SeenPicture:
    """What a viewer shows of a file.

    Attributes:
        format: the file format.
        mode: the pixel mode in the file.
        orientation: the EXIF orientation, 1 without one.
        frames: number of frames.
        width: as displayed, px.
        height: as displayed, px.
        colors: (red, green, blue) at the places that were asked for.
    """

    format: str
    mode: str
    orientation: int
    frames: int
    width: int
    height: int
    colors: tuple[tuple[int, int, int], ...]


def look_at(task: tuple[bytes, list[tuple[float, float]]], _common: object = None) -> SeenPicture:
    """Decodes a picture as a viewer does.

    Args:
        task: the encoded bytes, and places as (y, x), each 0-1 of the displayed picture.
    """
    from PIL import Image, ImageOps

    content, places = task
    with Image.open(io.BytesIO(content)) as picture:
        orientation = picture.getexif().get(0x0112, 1)
        frames = getattr(picture, "n_frames", 1)
        file_format, mode = str(picture.format), picture.mode
        picture.load()
        upright = picture if file_format == "TIFF" else ImageOps.exif_transpose(picture)
        rgb = upright.convert("RGB")
        colors = [rgb.getpixel((int(x * rgb.width), int(y * rgb.height))) for y, x in places]
    return SeenPicture(file_format, mode, orientation, frames, rgb.width, rgb.height, tuple(colors))  # pyright: ignore[reportArgumentType] - RGB pixels are triples
