"""Hashes for finding the same file, and pictures that look the same."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, cast

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sidecar_filters.base import Image, Measures, Picture


def measure_fingerprint(picture: Picture) -> Measures:
    """SHA-256 of the bytes, and two 64-bit perceptual hashes of the upright picture as signed numbers.

    Near duplicates differ in few bits. The first bit is the top left one, in rows.

    Sources: Krawetz 2013 (dHash), 2011 (pHash), with imagehash's choices.
    """
    from sidecar_filters.decode import upright

    gray = upright(picture.gray, picture.header.orientation)
    return {**hash_bytes(picture.data), "dhash": _dhash(gray), "phash": _phash(gray)}


def hash_bytes(data: bytes) -> Measures:
    """Returns the part of a fingerprint that any bytes have."""
    return {"sha256": hashlib.sha256(data).hexdigest()}


def _dhash(gray: Image) -> int:
    """Whether each pixel of 9×8 is darker than the one to its right."""
    small = _shrunk(gray, 9, 8)
    return _signed(small[:, 1:] > small[:, :-1])


def _phash(gray: Image) -> int:
    """Which of the 8×8 lowest frequencies of 32×32 pixels are above their median."""
    import cv2
    import numpy as np

    low = cv2.dct(_shrunk(gray, 32, 32).astype(np.float64))[:8, :8]
    return _signed(low > np.median(low))


def _shrunk(gray: Image, width: int, height: int) -> Image:
    import cv2
    import numpy as np

    return cast("Image", cv2.resize(np.ascontiguousarray(gray), (width, height), interpolation=cv2.INTER_AREA))


def _signed(bits: NDArray[np.bool_]) -> int:
    import numpy as np

    return int.from_bytes(np.packbits(bits).tobytes(), "big", signed=True)


FINGERPRINT = register_filter(
    Filter(
        "fingerprint",
        struct="filter_fingerprint_v1",
        needs=Need.HEADER | Need.ANALYSIS,
        measure=measure_fingerprint,
        version=2,
        when_unreadable=hash_bytes,
    )
)
