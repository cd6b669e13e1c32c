"""What must hold between a stored picture and the audit beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sidecar_core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sidecar_resize.picture_facts import PictureFacts

_REASONS = frozenset(reason.value for reason in Reason)


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


def check_state(audit: Mapping[str, object], *, has_image: bool) -> Iterator[str]:
    """Yields what contradicts itself in one row: valid, reason and image belong together.

    Args:
        audit: the row's audit by name, without prefix.
        has_image: whether the image column is not null.
    """
    valid, reason = audit["valid"], audit["reason"]
    if valid is None:
        yield "valid is null"
    elif valid and reason is not None:
        yield f"valid, and has the reason {reason!r}"
    elif not valid and reason not in _REASONS:
        yield f"invalid with the reason {reason!r}, which is none of the list"
    if valid and not has_image:
        yield "valid, and has no image"
    elif has_image and not valid:
        yield "invalid, and has an image"


def check_audit(audit: Mapping[str, object], rules: ResizeRules) -> Iterator[str]:
    """Yields what is wrong with the numbers of a valid row."""
    names = ("width", "height", "source_width", "source_height", "resized_width", "resized_height")
    numbers = {name: audit[name] for name in (*names, "crop_left", "crop_top", "crop_loss")}
    missing = [name for name, value in numbers.items() if value is None]
    if missing:
        yield f"valid, and {missing[0]} is null"
        return
    width, height, source_width, source_height, resized_width, resized_height = (
        cast("int", numbers[name]) for name in names
    )
    if abs(width * height / rules.area_px - 1) > 0.1:
        yield f"{width} x {height} is not within 10 % of {rules.area_px} px"
    if width % rules.patch or height % rules.patch:
        yield f"{width} x {height} is no multiple of {rules.patch} px"
    one, other = width * source_height, height * source_width
    loss = 1 - min(one, other) / max(one, other)
    if loss > rules.max_crop_loss:
        yield f"{source_width} x {source_height} lost {loss:.1%} to become {width} x {height}"
    if abs(loss - cast("float", numbers["crop_loss"])) > 1e-6:
        yield f"crop_loss is {numbers['crop_loss']}, and the sizes give {loss:.6f}"
    left, top = cast("int", numbers["crop_left"]), cast("int", numbers["crop_top"])
    if min(left, top) < 0 or left + width > resized_width or top + height > resized_height:
        yield f"the crop at {left}, {top} reaches out of {resized_width} x {resized_height}"


def check_picture(audit: Mapping[str, object], found: PictureFacts, length: int, rules: ResizeRules) -> Iterator[str]:
    """Yields where a valid row's bytes differ from its audit.

    Args:
        audit: the row's audit by name, without prefix.
        found: what the bytes decode to.
        length: how many bytes there are.
        rules: of the dataset.
    """
    if found.error is not None:
        yield f"the image does not decode: {found.error}"
        return
    if found.file_format != rules.output_format:
        yield f"the image is {found.file_format}, not {rules.output_format}"
    if (found.width, found.height) != (audit["width"], audit["height"]):
        yield f"the image is {found.width} x {found.height}, and the audit says {audit['width']} x {audit['height']}"
    if audit["output_bytes"] != length:
        yield f"the image has {length} bytes, and the audit says {audit['output_bytes']}"
