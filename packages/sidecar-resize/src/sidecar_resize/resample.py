"""Shrinking pixels with libvips. Imported only in isolated child processes: it loads libvips and Pillow.

libvips gets decoded pixels and gives pixels back; it never sees a file, so that no decoder is added to those
that must be trusted. Its Lanczos costs a fourth of Pillow's.
"""

from __future__ import annotations

import os

os.environ.setdefault("VIPS_CONCURRENCY", "1")  # a child is one worker; set before the library is loaded

import pyvips
from PIL import Image

from sidecar_resize.pillow_memory import pixels_of

pyvips.cache_set_max(0)  # no two pictures are the same

_MODES = ("L", "RGB")
_GAP = 2.0  # where more than twice this is to be shrunk, whole pixels are averaged first; libvips' own choice


def can_shrink(image: Image.Image, scaled: tuple[int, int]) -> bool:
    """Returns whether `shrink` can be used: no side grows, and there is no alpha to premultiply."""
    return image.mode in _MODES and scaled[0] <= image.width and scaled[1] <= image.height


def shrink(image: Image.Image, scaled: tuple[int, int], box: tuple[int, int, int, int]) -> Image.Image:
    """Scales a picture down with Lanczos (3 lobes) and cuts a part out; only that part is computed.

    Args:
        image: L or RGB.
        scaled: (width, height) in pixels after scaling, no larger than the picture.
        box: (left, top, right, bottom) in pixels of the scaled picture.

    Raises:
        ValueError: libvips rounds to another size than `scaled`, or fails.
        MemoryError: there is no memory for the result.
    """
    pixels, raw_mode = pixels_of(image)
    left, top, right, bottom = box
    try:
        source = pyvips.Image.new_from_memory(pixels, image.width, image.height, len(raw_mode), "uchar")
        by_x, by_y = 1 / (scaled[0] / image.width), 1 / (scaled[1] / image.height)
        whole = source.reduce(by_x, by_y, kernel="lanczos3", gap=_GAP)
        if (whole.width, whole.height) != scaled:
            raise ValueError(f"scaled to {whole.width} x {whole.height} instead of {scaled[0]} x {scaled[1]}")
        part = whole if box == (0, 0, *scaled) else whole.crop(left, top, right - left, bottom - top)
        made = part.write_to_memory()
    except pyvips.Error as error:
        if "memory" in str(error).lower():
            raise MemoryError(str(error)) from error
        raise ValueError(f"libvips: {error}") from error
    return Image.frombytes(image.mode, (right - left, bottom - top), made, "raw", raw_mode)
