"""What must hold between a stored picture and the audit beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sidecar_core.reasons import Reason

from sidecar_resize.geometry import cover_size, is_scaled_to_cover

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sidecar_resize.geometry import TargetSize
    from sidecar_resize.picture_facts import PictureFacts

_REASONS = frozenset(reason.value for reason in Reason)
_GEOMETRY_REASONS = (Reason.ASPECT_RATIO_TOO_EXTREME, Reason.TOO_SMALL)
_RESIZED = ("resized_width", "resized_height", "crop_left", "crop_top")
_OF_THE_RESULT = ("width", "height", *_RESIZED, "upscaled", "output_bytes")
_SIZES = ("width", "height", "source_width", "source_height", *_RESIZED)


@dataclass(frozen=True)
class ResizeRules:
    """What the pictures of a resized dataset must keep to.

    Attributes:
        area_px: wanted area in square pixels; each picture's is within 10 % of it.
        patch: both sides are multiples of this, in pixels.
        max_crop_loss: no picture lost more than this share, 0-1.
        output_format: webp, png or jpeg.
    """

    area_px: int
    patch: int = 32
    max_crop_loss: float = 0.25
    output_format: str = "webp"


def check_state(audit: Mapping[str, object]) -> Iterator[str]:
    """Yields what contradicts itself in the audit of one row: valid, reason and what only the one or the other has.

    Args:
        audit: the row's audit by name, without prefix.
    """
    valid, reason, source_bytes = audit["valid"], audit["reason"], audit["source_bytes"]
    if valid is None:
        yield "valid is null"
    elif valid and reason is not None:
        yield f"valid, and has the reason {reason!r}"
    elif not valid and reason not in _REASONS:
        yield f"invalid with the reason {reason!r}, which is none of the list"
    if not valid:
        held = next((name for name in _OF_THE_RESULT if audit[name] is not None), None)
        if held is not None:
            yield f"invalid, and {held} is {audit[held]}"
        if reason in _GEOMETRY_REASONS and audit["crop_loss"] is None:
            yield f"invalid with the reason {reason!r}, and crop_loss is null"
    is_absent = {Reason.MISSING: source_bytes is None, Reason.EMPTY: source_bytes == 0}
    if any(absent != (reason == absence) for absence, absent in is_absent.items()):
        told = "valid" if valid else f"invalid with the reason {reason!r}"
        yield f"{told}, and source_bytes is {'null' if source_bytes is None else source_bytes}"
    orientation = audit["orientation"]
    if orientation is not None and orientation not in range(1, 9):
        yield f"orientation is {orientation}, which is not 1 to 8"


def check_presence(audit: Mapping[str, object], length: int | None) -> Iterator[str]:
    """Yields where a row's audit says otherwise than whether there is an image, or how long it is.

    Args:
        audit: the row's audit by name, without prefix.
        length: how many bytes the image has; None for a null.
    """
    if length is None:
        if audit["valid"]:
            yield "valid, and has no image"
    elif not audit["valid"]:
        yield "invalid, and has an image"
    elif audit["output_bytes"] != length:
        yield f"the image has {length} bytes, and the audit says {audit['output_bytes']}"


def check_audit(audit: Mapping[str, object], rules: ResizeRules) -> Iterator[str]:
    """Yields what is wrong with the numbers of a valid row.

    Args:
        audit: the row's audit by name, without prefix.
        rules: of the dataset.
    """
    missing = [name for name in (*_SIZES, "crop_loss", "upscaled", "output_bytes") if audit[name] is None]
    if missing:
        yield f"valid, and {missing[0]} is null"
        return
    width, height, source_width, source_height = (cast("int", audit[name]) for name in _SIZES[:4])
    if min(width, height, source_width, source_height) < 1:
        yield f"{source_width} x {source_height} became {width} x {height}, and a side has no pixel"
        return
    if abs(width * height / rules.area_px - 1) > 0.1:
        yield f"{width} x {height} is not within 10 % of {rules.area_px} px"
    if width % rules.patch or height % rules.patch:
        yield f"{width} x {height} is no multiple of {rules.patch} px"
    cover = cover_size(source_width, source_height, width, height)
    if cover.crop_loss > rules.max_crop_loss:
        yield f"{source_width} x {source_height} lost {cover.crop_loss:.1%} to become {width} x {height}"
    if abs(cover.crop_loss - cast("float", audit["crop_loss"])) > 1e-6:
        yield f"crop_loss is {audit['crop_loss']}, and the sizes give {cover.crop_loss:.6f}"
    yield from _check_cover(audit, cover)


def _check_cover(audit: Mapping[str, object], cover: TargetSize) -> Iterator[str]:
    """Yields where the scaling and the crop differ from those that the sizes of source and result give.

    The crop is held against the stated scaled size, so that a wrong one is told once.
    """
    width, height, source_width, source_height, resized_width, resized_height, left, top = (
        cast("int", audit[name]) for name in _SIZES
    )
    source = f"{source_width} x {source_height}"
    if not is_scaled_to_cover(source_width, source_height, (width, height), (resized_width, resized_height)):
        wanted = f"{cover.resized_width} x {cover.resized_height}"
        yield f"{source} covers {width} x {height} as {wanted}, and the audit says {resized_width} x {resized_height}"
    if min(left, top) < 0 or left + width > resized_width or top + height > resized_height:
        yield f"the crop at {left}, {top} reaches out of {resized_width} x {resized_height}"
    elif (left, top) != (centre := ((resized_width - width) // 2, (resized_height - height) // 2)):
        yield f"the crop is at {left}, {top}, and the middle is at {centre[0]}, {centre[1]}"
    if audit["upscaled"] is not cover.upscaled:
        yield f"{source} became {width} x {height}, and upscaled is {audit['upscaled']}"


def check_picture(audit: Mapping[str, object], found: PictureFacts, rules: ResizeRules) -> Iterator[str]:
    """Yields where a row's decoded image differs from its audit.

    Args:
        audit: the row's audit by name, without prefix.
        found: what the bytes decode to.
        rules: of the dataset.
    """
    if found.error is not None:
        yield f"the image does not decode: {found.error}"
        return
    if found.file_format != rules.output_format:
        yield f"the image is {found.file_format}, not {rules.output_format}"
    if (found.width, found.height) != (audit["width"], audit["height"]):
        yield f"the image is {found.width} x {found.height}, and the audit says {audit['width']} x {audit['height']}"
