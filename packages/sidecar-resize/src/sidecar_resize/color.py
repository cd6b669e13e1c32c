"""Any decoded picture to 8-bit sRGB. Imported only in isolated child processes: it loads Pillow."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageCms
from sidecar_core.reasons import Reason

from sidecar_resize.headers import UnusableImageError

if TYPE_CHECKING:
    from sidecar_resize.headers import Header

_SAME_WITHIN = 2  # levels: a profile that moves no colour further is sRGB by another name
_SPACES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}


def to_srgb(
    image: Image.Image, header: Header, *, background: tuple[int, int, int], keep_alpha: bool
) -> tuple[Image.Image, list[str]]:
    """Brings a decoded picture to 8-bit sRGB.

    Args:
        image: as decoded, in any of Pillow's modes.
        header: its profile, transparent colour, sample width and frame.
        background: (red, green, blue), 0-255, shown through transparency.
        keep_alpha: return transparency instead of blending it away.

    Returns:
        A picture of mode L, RGB or (only with `keep_alpha`) RGBA with straight alpha, and what was done.

    Raises:
        UnusableImageError: `unsupported_mode`: samples whose scale is not known.
    """
    notes: list[str] = []
    color, alpha = _split(image, header, notes)
    color = _apply_profile(color, header.profile, notes)
    if color.mode not in ("L", "RGB"):
        if color.mode == "CMYK":
            notes.append("CMYK without a usable profile")
        color = color.convert("RGB")
    if alpha is None or alpha.getextrema() == (255, 255):
        return color, notes
    if keep_alpha:
        color = color.convert("RGB")
        color.putalpha(alpha)
        notes.append("alpha kept")
        return color, notes
    blended = Image.new("RGB", color.size, background)
    blended.paste(color, mask=alpha)
    notes.append("alpha blended on #{:02x}{:02x}{:02x}".format(*background))
    return blended, notes


def _split(image: Image.Image, header: Header, notes: list[str]) -> tuple[Image.Image, Image.Image | None]:
    """Returns the colours (L, RGB, CMYK or LAB) and the alpha (L), if there is any."""
    mode = image.mode
    if mode.startswith("I") or mode == "F":
        color, alpha = _gray_from_wide(image, header, notes)
    elif header.color_key is not None and mode in ("1", "L", "RGB"):
        color, alpha = image.convert("L") if mode == "1" else image, _keyed_alpha(image, header)
    elif mode in ("P", "PA") or (mode == "L" and "transparency" in image.info):
        color, alpha = _from_palette(image)
    elif mode in ("LA", "La", "RGBA", "RGBa"):
        straight = image.convert({"La": "LA", "RGBa": "RGBA"}.get(mode, mode))
        color, alpha = straight.convert("L" if mode in ("LA", "La") else "RGB"), straight.getchannel("A")
    elif mode in ("L", "RGB", "CMYK", "LAB"):
        color, alpha = image, None
    elif mode == "1":
        color, alpha = image.convert("L"), None
    else:
        color, alpha = image.convert("RGB"), None
    if header.frame_box is not None:  # a GIF's canvas is transparent where its frame does not reach
        inside = Image.new("L", color.size, 0)
        inside.paste(255 if alpha is None else alpha.crop(header.frame_box), header.frame_box)
        alpha = inside
    return color, alpha


def _gray_from_wide(image: Image.Image, header: Header, notes: list[str]) -> tuple[Image.Image, Image.Image | None]:
    """16 bits are divided by 256 (the high byte), narrower samples by their own scale."""
    wide = image.mode.startswith("I;16") or (image.mode == "I" and header.source_format in ("PPM", "PNG"))
    if not wide or not header.gray_bits:
        raise UnusableImageError(Reason.UNSUPPORTED_MODE, f"mode {image.mode}: the scale of its samples is not known")
    bits = header.gray_bits
    notes.append(f"{bits}-bit gray divided by {1 << (bits - 8)}")
    if image.mode == "I" or bits != 16:
        narrow = [min(value >> (bits - 8), 255) for value in range(65_536)]
        color = image.convert("I").point(narrow, "L")
    else:
        raw = image.tobytes()
        color = Image.frombytes("L", image.size, raw[0::2] if image.mode == "I;16B" else raw[1::2])
    if header.white_is_zero:
        color = ImageChops.invert(color)
        notes.append("inverted: zero is white")
    if header.color_key is None:
        return color, None
    opaque = [255] * 65_536
    opaque[header.color_key[0] & 0xFFFF] = 0
    return color, image.convert("I").point(opaque, "L")


def _keyed_alpha(image: Image.Image, header: Header) -> Image.Image:
    """Transparent where every sample equals the key, compared at the depth in which it is stored."""
    key = header.color_key or ()
    if header.sample_bits == 16:  # Pillow kept the high bytes; the low ones need a decode of their own
        bands = [*image.split(), *_low_bytes(header).split()]
        wanted = [value >> 8 & 255 for value in key] + [value & 255 for value in key]
    else:
        scale = 255 // ((1 << header.sample_bits) - 1) if header.sample_bits < 8 else 1
        bands = list((image.convert("L") if image.mode == "1" else image).split())
        wanted = [(value & ((1 << header.sample_bits) - 1)) * scale for value in key]
    alpha = Image.new("L", image.size, 0)
    for band, value in zip(bands, wanted, strict=False):
        table = [255] * 256
        table[value] = 0
        alpha = ImageChops.lighter(alpha, band.point(table))
    return alpha


def _low_bytes(header: Header) -> Image.Image:
    image = Image.open(io.BytesIO(header.payload), formats=list(header.pillow_formats))
    image.tile = [tile._replace(args="RGB;16L") for tile in image.tile]  # type: ignore[attr-defined]
    image.load()
    return image


def _from_palette(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    has_alpha = "transparency" in image.info or image.mode == "PA"
    if not has_alpha and (image.palette is None or image.palette.mode == "RGB"):
        return image.convert("RGB"), None
    straight = image.convert("RGBA")
    return straight.convert("RGB"), straight.getchannel("A")


def _apply_profile(color: Image.Image, profile: bytes | None, notes: list[str]) -> Image.Image:
    if color.mode == "LAB":
        notes.append("LAB converted")
        return ImageCms.applyTransform(color, _lab_transform())  # type: ignore[return-value]
    if not profile:
        return color
    transform, space, note = _profile_transform(profile)
    if note:
        notes.append(note)
    if transform is None or space is None:
        return color
    if space == "RGB" and color.mode == "L":
        color = color.convert("RGB")
    if space != color.mode:
        notes[-1] = f"profile ignored: it is for {space}, and the picture is {color.mode}"
        return color
    return ImageCms.applyTransform(color, transform)  # type: ignore[return-value]


@lru_cache(maxsize=16)
def _profile_transform(profile: bytes) -> tuple[ImageCms.ImageCmsTransform | None, str | None, str]:
    """Returns the transform to sRGB (None: not needed or not possible), its input mode, and a note."""
    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        declared = str(getattr(opened.profile, "xcolor_space", "")).strip()
        space = _SPACES.get(declared)
        name = (ImageCms.getProfileDescription(opened) or "unnamed").strip()[:60]
        if space is None:
            return None, None, f"profile ignored: its colour space is {declared!r}"
        transform = ImageCms.buildTransform(opened, _srgb(), space, "RGB")
        unchanged = space != "CMYK" and _changes_nothing(transform, space)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken profile must not cost the picture
        return None, None, f"profile ignored: {type(error).__name__}: {str(error)[:80]}"
    if unchanged:
        return None, space, ""
    return transform, space, f"{name} converted to sRGB"


def _changes_nothing(transform: ImageCms.ImageCmsTransform, space: str) -> bool:
    if space == "L":
        sample = Image.frombytes("L", (256, 1), bytes(range(256)))
    else:
        steps = [level * 17 for level in range(16)]
        sample = Image.frombytes(
            "RGB", (64, 64), bytes(v for r in steps for g in steps for b in steps for v in (r, g, b))
        )
    after: Image.Image = ImageCms.applyTransform(sample, transform)  # type: ignore[assignment]
    spread = ImageChops.difference(sample.convert("RGB"), after).getextrema()
    return max(high for _, high in spread) <= _SAME_WITHIN  # type: ignore[misc]


@lru_cache(maxsize=1)
def _srgb() -> ImageCms.ImageCmsProfile:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))


@lru_cache(maxsize=1)
def _lab_transform() -> ImageCms.ImageCmsTransform:
    return ImageCms.buildTransform(ImageCms.createProfile("LAB"), _srgb(), "LAB", "RGB")
