"""Draws a tiny picture and decodes it again; runs in an isolated child, the only place that imports the decoders."""

from __future__ import annotations

import io
from dataclasses import dataclass

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
    """Returns whether a picture of that format, red on the left and blue on the right, comes out as it was drawn."""
    import cv2
    import numpy as np
    from PIL import Image

    drawn = Image.new("RGB", (_SIDE_PX, _SIDE_PX), _LEFT)
    drawn.paste(_RIGHT, (_SIDE_PX // 2, 0, _SIDE_PX, _SIDE_PX))
    file = io.BytesIO()
    drawn.save(file, file_format)
    data = file.getvalue()
    by_pillow = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    by_opencv = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    return Decoded(_complaint(by_pillow), None if by_opencv is None else _complaint(by_opencv))


def _complaint(pixels: object) -> str:
    import numpy as np

    found = np.asarray(pixels)
    if found.shape != (_SIDE_PX, _SIDE_PX, 3):
        return f"its shape is {found.shape}"
    for x, wanted in ((_SIDE_PX // 4, _LEFT), (3 * _SIDE_PX // 4, _RIGHT)):
        color = tuple(int(value) for value in found[_SIDE_PX // 2, x])
        if max(abs(one - other) for one, other in zip(color, wanted, strict=True)) > _TOLERANCE:
            return f"a pixel is {color} where {wanted} was drawn"
    return ""
