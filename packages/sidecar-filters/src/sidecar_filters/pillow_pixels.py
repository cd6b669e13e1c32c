"""Pillow's many modes to 8-bit BGR. Used in isolated children only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np
from PIL import ImageCms

from sidecar_filters.base import Reason, UnreadableError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image as PillowImage

    from sidecar_filters.base import Image

_PREMULTIPLIED: Final = {"La": "LA", "RGBa": "RGBA"}
_STRIP_PIXELS: Final = 1 << 18
_WHITES: Final = (1.0, 255.0, 65535.0, 2147483647.0, 4294967295.0)


def pillow_to_bgr(image: PillowImage) -> Image:
    """Decodes the first frame: 16 bits scaled, palettes and CMYK converted, transparency composed on white.

    Args:
        image: as opened; is loaded.

    Returns:
        (h, w, 3) uint8 BGR, in the orientation in which Pillow gives it.

    Raises:
        UnreadableError: the mode cannot be converted.
        Exception: whatever Pillow raises.
    """
    image.load()
    mode = image.mode
    if mode.startswith("I;16"):
        return _gray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if mode in ("I", "F"):
        return _gray(_scaled(np.asarray(image), smallest_white=65535.0 if mode == "I" else 1.0))
    if mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        image = cast("PillowImage", ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB"))
    if mode in ("LA", "RGBA", "PA", *_PREMULTIPLIED) or "transparency" in image.info:
        return _on_white(image)
    try:
        rgb = image.convert("RGB")
    except ValueError as error:
        raise UnreadableError(Reason.UNSUPPORTED_MODE, f"Pillow's mode {mode!r} cannot be converted") from error
    return np.ascontiguousarray(np.asarray(rgb)[..., ::-1])


def _gray(plane: Image) -> Image:
    return np.repeat(plane[..., None], 3, axis=2)


def _scaled(values: NDArray[np.generic], *, smallest_white: float) -> Image:
    """Scales numbers whose white is not declared: the smallest usual white that none exceeds."""
    levels = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    top = float(levels.max(initial=0.0))
    white = next((white for white in _WHITES if white >= max(top, smallest_white)), top)
    return np.clip(levels * (255.0 / white) + 0.5, 0, 255).astype(np.uint8)


def _on_white(image: PillowImage) -> Image:
    """Composes in strips of rows: the steps between took 4 GiB for a whole picture of 150 megapixels."""
    width, height = image.size
    composed = np.empty((height, width, 3), np.uint8)
    rows = max(1, _STRIP_PIXELS // max(width, 1))
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        rgba = np.asarray(strip.convert(_PREMULTIPLIED.get(strip.mode, strip.mode)).convert("RGBA"))
        alpha = rgba[..., 3:].astype(np.uint16)
        color = rgba[..., 2::-1].astype(np.uint16)
        composed[top : top + rows] = (color * alpha + 255 * (255 - alpha) + 127) // 255
    return composed
