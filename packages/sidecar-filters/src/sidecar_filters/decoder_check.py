"""Do the decoders of this machine work? A tiny picture is drawn, decoded again, and looked at.

Parents import this module to name its function; the decoders are imported where it runs, in an isolated child.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar_filters.base import Image

CHECKED_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF")
_SIDE_PX = 32
_LEFT, _RIGHT = (220, 40, 40), (30, 60, 200)
_TOLERANCE = 25


@dataclass(frozen=True)
class Decoded:
    """What the decoders made of a picture that was drawn.

    Attributes:
        pillow: what is wrong with Pillow's picture, or an empty text.
        opencv: likewise; None where OpenCV does not read the format.
    """

    pillow: str
    opencv: str | None


def draw_and_decode(file_format: str, _common: object = None) -> Decoded:
    """Returns whether a picture of that format, red on the left and blue on the right, comes out as it was drawn.

    For isolated children only: a decoder that does not fit the machine may crash.
    """
    import cv2
    import numpy as np
    from PIL import Image as PillowImage

    drawn = PillowImage.new("RGB", (_SIDE_PX, _SIDE_PX), _LEFT)
    drawn.paste(_RIGHT, (_SIDE_PX // 2, 0, _SIDE_PX, _SIDE_PX))
    file = io.BytesIO()
    drawn.save(file, file_format)
    data = file.getvalue()
    by_pillow = np.asarray(PillowImage.open(io.BytesIO(data)).convert("RGB"))
    by_opencv = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    return Decoded(complaint_about(by_pillow), None if by_opencv is None else complaint_about(by_opencv))


def complaint_about(pixels: Image) -> str:
    """Returns what is wrong with (32, 32, 3) uint8 RGB pixels of the picture that was drawn, or an empty text."""
    if pixels.shape != (_SIDE_PX, _SIDE_PX, 3):
        return f"its shape is {pixels.shape}"
    for x, wanted in ((_SIDE_PX // 4, _LEFT), (3 * _SIDE_PX // 4, _RIGHT)):
        color = tuple(int(value) for value in pixels[_SIDE_PX // 2, x])
        if max(abs(one - other) for one, other in zip(color, wanted, strict=True)) > _TOLERANCE:
            return f"a pixel is {color} where {wanted} was drawn"
    return ""
