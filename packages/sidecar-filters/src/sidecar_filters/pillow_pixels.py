"""Pillow's many modes to 8-bit BGR. Used in isolated children only."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from PIL import Image as PillowImageModule
from PIL import ImageCms

from sidecar_filters.base import Reason, UnreadableError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image as PillowImage
    from PIL.ImageFile import ImageFile

    from sidecar_filters.base import Image
    from sidecar_filters.containers import Container

_PREMULTIPLIED: Final = {"La": "LA", "RGBa": "RGBA"}
_STRIP_PIXELS: Final = 1 << 18
_SIXTEEN_BITS_IN_I: Final = frozenset({"PNG", "PPM"})
_KEYED_MODES: Final = frozenset({"1", "L", "RGB", "I", "I;16"})


def pillow_to_bgr(image: PillowImage, data: bytes, container: Container | None) -> Image:
    """Decodes the first frame: 16 bits scaled, palettes and CMYK converted, transparency composed on white.

    Args:
        image: as opened; is loaded.
        data: what it was opened from.
        container: what `data` says of bits and of a transparent colour, which Pillow mixes up; or None.

    Returns:
        (h, w, 3) uint8 BGR, in the orientation in which Pillow gives it.

    Raises:
        UnreadableError: the scale of its samples is not known, or the mode cannot be converted.
        Exception: whatever Pillow raises.
    """
    tiles = cast("ImageFile", image).tile
    frame = tiles[0].extents if image.format == "GIF" and tiles else None
    image.load()
    key = container.color_key if container is not None and image.mode in _KEYED_MODES else None
    if image.mode.startswith("I") or image.mode == "F":
        pixels = _gray(_narrowed(image, container))
    elif key is None and (image.mode in ("LA", "RGBA", "PA", *_PREMULTIPLIED) or "transparency" in image.info):
        pixels = _on_white(image)
    else:
        pixels = _opaque(image)
    if key is not None and container is not None:
        pixels[_hidden(image, data, key, container.bits)] = 255
    if frame is not None:
        _whiten_around(pixels, frame)
    return pixels


def _opaque(image: PillowImage) -> Image:
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        image = cast("PillowImage", ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB"))
    try:
        rgb = image.convert("RGB")
    except ValueError as error:
        raise UnreadableError(Reason.UNSUPPORTED_MODE, f"Pillow's mode {image.mode!r} cannot be converted") from error
    return np.ascontiguousarray(np.asarray(rgb)[..., ::-1])


def _gray(plane: Image) -> Image:
    return np.repeat(plane[..., None], 3, axis=2)


def _narrowed(image: PillowImage, container: Container | None) -> Image:
    """Returns the high byte of gray samples that have 9 to 16 bits."""
    if not (image.mode.startswith("I;16") or (image.mode == "I" and image.format in _SIXTEEN_BITS_IN_I)):
        raise UnreadableError(
            Reason.UNSUPPORTED_MODE, f"Pillow's mode {image.mode!r}: the scale of its samples is not known"
        )
    is_tiff = container is not None and container.format == "TIFF"
    bits = container.bits if container is not None and is_tiff and container.bits > 8 else 16
    levels = np.minimum(np.asarray(image) >> (bits - 8), 255).astype(np.uint8)
    return 255 - levels if container is not None and container.white_is_zero else levels  # Pillow inverts 8 bits only


def _hidden(image: PillowImage, data: bytes, key: tuple[int, ...], bits: int) -> NDArray[np.bool_]:
    """Returns where a PNG's samples, at the depth in which they are stored, are those of its transparent colour.

    Pillow scales samples of fewer than 8 bits, and of 16 bits of colour keeps the high byte.
    """
    bands = list(image.convert("L").split() if image.mode == "1" else image.split())
    if bits == 16 and len(key) == 3:
        bands += _low_bytes(data).split()
        wanted = [value >> 8 for value in key] + [value & 255 for value in key]
    else:
        scale = 255 // ((1 << bits) - 1) if bits < 8 else 1
        wanted = [(value & ((1 << bits) - 1)) * scale for value in key]
    hidden = np.ones((image.height, image.width), np.bool_)
    for band, value in zip(bands, wanted, strict=True):
        hidden &= np.asarray(band) == value
    return hidden


def _low_bytes(data: bytes) -> PillowImage:
    """Returns the low bytes of a PNG with 16 bits of each colour."""
    image = PillowImageModule.open(io.BytesIO(data), formats=["PNG"])
    image.tile = [tile._replace(args="RGB;16L") for tile in image.tile]
    image.load()
    return image


def _whiten_around(pixels: Image, frame: tuple[int, int, int, int]) -> None:
    """Makes the canvas white where it shows through around a frame."""
    left, top, right, bottom = frame
    for around in (pixels[:top], pixels[bottom:], pixels[:, :left], pixels[:, right:]):
        around[:] = 255


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
