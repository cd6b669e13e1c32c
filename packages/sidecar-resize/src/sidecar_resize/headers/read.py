"""One entrance for all formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.reasons import Reason

from sidecar_resize.headers.facts import Header, UnusableImageError
from sidecar_resize.headers.gif import read_gif
from sidecar_resize.headers.jpeg import read_jpeg
from sidecar_resize.headers.others import read_avif, read_bmp, read_jp2, read_ppm
from sidecar_resize.headers.png import read_png
from sidecar_resize.headers.sniff import describe_other, sniff_format
from sidecar_resize.headers.tiff import read_tiff
from sidecar_resize.headers.webp import read_webp

if TYPE_CHECKING:
    from collections.abc import Callable

_READERS: dict[str, Callable[[bytes], Header]] = {
    "JPEG": read_jpeg,
    "PNG": read_png,
    "GIF": read_gif,
    "WEBP": read_webp,
    "TIFF": read_tiff,
    "BMP": read_bmp,
    "PPM": read_ppm,
    "AVIF": read_avif,
    "JPEG2000": read_jp2,
}


def read_header(data: bytes) -> Header:
    """Returns what an encoded picture declares about itself.

    Args:
        data: the whole file.

    Raises:
        UnusableImageError: `empty`, `not_an_image`, `decode_failed` for a format that is known and not
            read, or what the format's own reader finds.
    """
    if not data:
        raise UnusableImageError(Reason.EMPTY, "0 bytes")
    name = sniff_format(data)
    if name is None:
        raise UnusableImageError(Reason.NOT_AN_IMAGE, describe_other(data))
    if name not in _READERS:
        raise UnusableImageError(Reason.DECODE_FAILED, f"{name} is a format that is not read")
    return _READERS[name](data)
