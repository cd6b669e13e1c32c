"""The facts that are recorded of each row beside its resized picture. Light: child processes import it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Audit:
    """What is recorded of one row for one target; fields that could not be known are None.

    Attributes:
        valid: the picture was made.
        reason: why not: a value of `sidecar_core.Reason`; None when valid.
        detail: the fact behind the reason, or what was tolerated.
        source_width: width in pixels as displayed, after the orientation.
        source_height: height in pixels as displayed, after the orientation.
        source_format: format of the bytes, whatever the file was called.
        source_mode: the decoder's name of the stored pixels' layout, such as RGB, CMYK or I;16.
        source_bytes: length of the encoded source in bytes.
        orientation: the orientation tag, 1-8; None when there is none or it is out of range.
        frames: frames, pages or pictures in the source; the first was used.
        resized_width: width in pixels after scaling, before the crop.
        resized_height: height in pixels after scaling, before the crop.
        crop_left: columns cut at the left of the scaled picture.
        crop_top: rows cut at the top of the scaled picture.
        width: width of the result in pixels.
        height: height of the result in pixels.
        crop_loss: share of the scaled picture that was, or would have been, cut away, 0-1.
        upscaled: the picture was made larger.
        color_note: what was done to bring the colours to 8-bit sRGB; None when nothing was.
        output_bytes: length of the encoded result in bytes.
    """

    valid: bool = False
    reason: str | None = None
    detail: str | None = None
    source_width: int | None = None
    source_height: int | None = None
    source_format: str | None = None
    source_mode: str | None = None
    source_bytes: int | None = None
    orientation: int | None = None
    frames: int | None = None
    resized_width: int | None = None
    resized_height: int | None = None
    crop_left: int | None = None
    crop_top: int | None = None
    width: int | None = None
    height: int | None = None
    crop_loss: float | None = None
    upscaled: bool | None = None
    color_note: str | None = None
    output_bytes: int | None = None


def default_audit_prefix(side_px: int) -> str:
    """Returns the customary prefix of the audit columns for pictures of about side_px² pixels.

    512 gives `0_26mp_process`, 1024 `1_05mp_process`; areas under 10,000 px² are named by their side.
    """
    megapixels = f"{side_px * side_px / 1e6:.2f}"
    return f"{side_px}px_process" if megapixels == "0.00" else f"{megapixels.replace('.', '_')}mp_process"
