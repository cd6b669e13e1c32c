"""From sRGB pixels to the stored bytes. Imported only in isolated child processes: it loads Pillow."""

from __future__ import annotations

import io
from importlib import import_module
from typing import TYPE_CHECKING

from PIL import Image
from sidecar_core.reasons import Reason

from sidecar_resize.headers import UnusableImageError
from sidecar_resize.headers.webp import webp_size
from sidecar_resize.resample import can_shrink, shrink

if TYPE_CHECKING:
    from sidecar_resize.geometry import TargetSize
    from sidecar_resize.spec import PixelSpec

import_module("PIL.WebPImagePlugin")  # else saving the first one loads all plugins to find it, 40 ms

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def resize_upright(
    image: Image.Image, stored: tuple[int, int], size: TargetSize, *, orientation: int | None, reduction: int = 1
) -> Image.Image:
    """Scales, crops and turns upright.

    The crop is mapped back into the stored frame, so that neither the pixels that are cut away are computed
    nor the full picture is turned. libvips shrinks, Pillow enlarges and resizes what has alpha; both use Lanczos.

    Args:
        image: L, RGB or RGBA (straight alpha), as stored, possibly decoded at 1 / `reduction`.
        stored: full (width, height) in pixels as stored.
        size: where the upright picture ends up.
        orientation: 1-8 or None.
        reduction: 1, 2, 4 or 8.

    Returns:
        A picture of exactly `size.width` x `size.height`.
    """
    turned = (orientation or 1) >= 5
    scaled = (size.resized_height, size.resized_width) if turned else (size.resized_width, size.resized_height)
    crop = (size.crop_left, size.crop_top, size.crop_left + size.width, size.crop_top + size.height)
    box = _as_stored(crop, (size.resized_width, size.resized_height), orientation or 1)
    if can_shrink(image, scaled):
        result = shrink(image, scaled, box)
    else:
        result = _resize_with_pillow(image, stored, scaled, box, reduction)
    return result.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else result


def _resize_with_pillow(
    image: Image.Image,
    stored: tuple[int, int],
    scaled: tuple[int, int],
    box: tuple[int, int, int, int],
    reduction: int,
) -> Image.Image:
    """Scales and crops in one step: the part to keep is given to the resampler as its source box."""
    by_x, by_y = stored[0] / scaled[0] / reduction, stored[1] / scaled[1] / reduction
    left, top, right, bottom = box[0] * by_x, box[1] * by_y, box[2] * by_x, box[3] * by_y
    source = (max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height))
    return image.resize((box[2] - box[0], box[3] - box[1]), Image.Resampling.LANCZOS, box=source)


def encode(image: Image.Image, pixels: PixelSpec) -> bytes:
    """Returns the encoded bytes, without any metadata.

    Raises:
        UnusableImageError: `encode_failed`.
        MemoryError: the memory cap was reached.
    """
    image.info.clear()  # PNG and JPEG would store the source's profile and comment
    out = io.BytesIO()
    try:
        if pixels.output_format == "webp":
            image.save(out, "WEBP", quality=pixels.quality, method=pixels.webp_method)
        elif pixels.output_format == "jpeg":
            image.save(out, "JPEG", quality=pixels.quality)
        else:
            image.save(out, "PNG")
    except MemoryError:
        raise
    except Exception as error:
        raise UnusableImageError(Reason.ENCODE_FAILED, f"{type(error).__name__}: {str(error)[:200]}") from error
    encoded = out.getvalue()
    if pixels.output_format == "webp" and webp_size(encoded) != image.size:
        raise UnusableImageError(Reason.ENCODE_FAILED, f"encoded {webp_size(encoded)} instead of {image.size}")
    return encoded


def _as_stored(box: tuple[int, int, int, int], shown: tuple[int, int], orientation: int) -> tuple[int, int, int, int]:
    """Maps a box of the upright picture into the picture as stored; the inverse of turning it upright."""
    left, top, right, bottom = box
    width, height = shown
    if orientation in (2, 3, 6, 7):  # a stored axis runs against the shown x axis
        left, right = width - right, width - left
    if orientation in (3, 4, 7, 8):
        top, bottom = height - bottom, height - top
    return (top, left, bottom, right) if orientation >= 5 else (left, top, right, bottom)
