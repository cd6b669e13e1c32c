"""What a stored picture really is, found by decoding it in an isolated child process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PictureFacts:
    """A stored picture, decoded.

    Attributes:
        file_format: webp, png or jpeg, as the decoder names it in small letters.
        width: width in pixels.
        height: height in pixels.
        error: why it does not decode, or None.
    """

    file_format: str = ""
    width: int = 0
    height: int = 0
    error: str | None = None


def picture_facts(image: bytes, _common: object = None) -> PictureFacts:
    """Decodes a picture whole and returns what it is; runs in a child, and raises nothing on bad bytes."""
    import io

    from PIL import Image

    try:
        with Image.open(io.BytesIO(image), formats=["WEBP", "PNG", "JPEG"]) as picture:
            picture.load()
            return PictureFacts((picture.format or "").lower(), picture.width, picture.height)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - Pillow raises nearly every builtin on damaged bytes
        return PictureFacts(error=f"{type(error).__name__}: {str(error)[:200]}")
