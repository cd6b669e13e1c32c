"""What every header reader returns and raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidecar_core.errors import SidecarError

if TYPE_CHECKING:
    from sidecar_core.reasons import Reason

MAX_PROFILE_BYTES = 4 * 2**20  # the largest printer profiles are about 3 MiB


class UnusableImageError(SidecarError):
    """A picture cannot be used; caught where a row's audit is written.

    Attributes:
        reason: one of the closed list.
        detail: the fact, in a few words.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.args = (reason, detail)  # with which it is made again in another process
        self.reason = reason
        self.detail = detail


@dataclass
class Header:
    """What the bytes of one picture declare.

    Attributes:
        source_format: JPEG, MPO, PNG, GIF, WEBP, TIFF, BMP, AVIF, JPEG2000 or PPM.
        pillow_formats: the only formats that the decoder may take `payload` for.
        payload: the picture with what no pixel depends on left out (metadata, later frames).
        width: stored width in pixels, before the orientation is applied; 0 when only the decoder knows.
        height: stored height in pixels, likewise.
        declared_px: the largest number of pixels that any part of the file declares.
        orientation: the orientation tag when it is 1-8, else None.
        frames: frames, pages or pictures in the file; 0 when only the decoder knows.
        profile: the embedded ICC profile, or None.
        cut: why the file counts as cut short, or None when it is whole.
        notes: what was tolerated, for the audit.
        gray_bits: significant bits of a sample, where one is wider than 8 bits.
        white_is_zero: the decoder returns wide gray samples of which zero is white, not black.
        color_key: the colour (in samples as stored) that a PNG declares transparent, or None.
        sample_bits: bits a sample as stored; only where `color_key` is set.
        frame_box: (left, top, right, bottom) of a first frame that does not cover its canvas, or None.
        may_reduce: the decoder can decode at 1/2, 1/4 or 1/8 of the size.
    """

    source_format: str
    pillow_formats: tuple[str, ...]
    payload: bytes
    width: int = 0
    height: int = 0
    declared_px: int = 0
    orientation: int | None = None
    frames: int = 1
    profile: bytes | None = None
    cut: str | None = None
    notes: list[str] = field(default_factory=list[str])
    gray_bits: int = 16
    white_is_zero: bool = False
    color_key: tuple[int, ...] | None = None
    sample_bits: int = 8
    frame_box: tuple[int, int, int, int] | None = None
    may_reduce: bool = False
