"""Pictures drawn for tests, and small files that are broken in the ways in which real ones are."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidecar_filters.base import Image


def scene(width: int = 320, height: int = 240, seed: int = 1) -> Image:
    """Returns (height, width, 3) uint8 BGR: a gradient with coloured shapes and some noise."""
    import cv2
    import numpy as np

    random = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    planes = [40 + 120 * x, 60 + 100 * y, 180 - 90 * x * y]
    pixels = np.clip(np.stack(planes, axis=-1) + random.normal(0, 3, (height, width, 3)), 0, 255).astype(np.uint8)
    for _ in range(12):
        center = (int(random.integers(width)), int(random.integers(height)))
        radius = int(random.integers(2, max(3, min(width, height) // 5)))
        cv2.circle(pixels, center, radius, tuple(int(c) for c in random.integers(0, 256, 3)), -1)
    return pixels


def encoded(pixels: Image, kind: str = "JPEG", **options: Any) -> bytes:  # noqa: ANN401 - Pillow's options
    """Returns the bytes of a picture: `pixels` is BGR, gray, or BGRA; `options` are those of Pillow's `save`."""
    import numpy as np
    from PIL import Image as PillowImage

    order = {3: [2, 1, 0], 4: [2, 1, 0, 3]}.get(pixels.shape[2] if pixels.ndim == 3 else 0)
    image = PillowImage.fromarray(np.ascontiguousarray(pixels[..., order]) if order else pixels)
    return saved(image, kind, **options)


def saved(image: Any, kind: str, **options: Any) -> bytes:  # noqa: ANN401 - a Pillow picture, Pillow's options
    """Returns the bytes that Pillow writes for one of its pictures."""
    target = io.BytesIO()
    image.save(target, kind, **({"quality": 90} if kind == "JPEG" else {}) | options)
    return target.getvalue()


def jpeg_declaring(data: bytes, width: int, height: int) -> bytes:
    """Returns a JPEG whose frame header says another size."""
    from sidecar_filters.jpeg import SOF_MARKERS

    position = 2
    while data[position + 1] not in SOF_MARKERS:
        position += 2 + struct.unpack_from(">H", data, position + 2)[0]
    return data[: position + 5] + struct.pack(">HH", height, width) + data[position + 9 :]


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Returns a PNG chunk with its length and checksum."""
    return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))


def damaged_apng() -> bytes:
    """Returns an animated PNG with bits flipped in its second frame: the kind that kills OpenCV 5.0."""
    frames = [scene(64, 48, seed) for seed in (1, 2)]
    from PIL import Image as PillowImage

    first, second = (PillowImage.fromarray(frame) for frame in frames)
    data = bytearray(saved(first, "PNG", save_all=True, append_images=[second]))
    at = data.rfind(b"fdAT") + 40
    data[at : at + 4] = b"\xff\xff\xff\xff"
    return bytes(data)


def broken_files() -> dict[str, bytes]:
    """Returns files from which no pixel can be measured, by what is wrong with them."""
    jpeg = encoded(scene())
    progressive = encoded(scene(), progressive=True)
    png = encoded(scene(), "PNG")
    webp = encoded(scene(), "WEBP")
    return {
        "empty": b"",
        "html": b"<html><body>404</body></html>",
        "noise": bytes(range(256)) * 4,
        "signature only": png[:8],
        "jpeg cut in its header": jpeg[:30],
        "jpeg cut in its scan": jpeg[: len(jpeg) // 2],
        "jpeg without its end": jpeg[:-2],
        "progressive jpeg cut": progressive[: len(progressive) * 2 // 3],
        "png cut": png[: len(png) // 2],
        "png with a bit flipped": png[: len(png) // 2] + bytes([png[len(png) // 2] ^ 16]) + png[len(png) // 2 + 1 :],
        "webp cut": webp[: len(webp) // 2],
        "jpeg of 900 megapixels": jpeg_declaring(jpeg, 30_000, 30_000),
        "png of 900 megapixels": png[:8]
        + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0))
        + png[33:],
    }


def odd_pictures() -> dict[str, bytes]:
    """Returns whole pictures at the edges of what a measure can expect."""
    import numpy as np

    noise = np.random.default_rng(3).integers(0, 256, (100, 140, 3), dtype=np.uint8)
    return {
        "one pixel": encoded(scene(8, 8)[:1, :1], "PNG"),
        "one row": encoded(scene(300, 8)[:1], "PNG"),
        "one column": encoded(scene(8, 300)[:, :1], "PNG"),
        "very long": encoded(np.repeat(scene(8, 8)[:1], 4000, axis=1)[:, :30_000], "PNG"),
        "seven by nine": encoded(scene(7, 9), "PNG"),
        "black": encoded(np.zeros((40, 60, 3), np.uint8), "PNG"),
        "white": encoded(np.full((40, 60, 3), 255, np.uint8), "PNG"),
        "gray": encoded(np.full((600, 600), 128, np.uint8)),
        "noise": encoded(noise, "PNG"),
        "animated": damaged_apng(),
    }
