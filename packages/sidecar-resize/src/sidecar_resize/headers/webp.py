"""WEBP: RIFF chunks, canvas size, and whether the container is whole."""

from __future__ import annotations

from sidecar_core.reasons import Reason

from sidecar_resize.headers.facts import MAX_PROFILE_BYTES, Header, UnusableImageError
from sidecar_resize.headers.tags import exif_orientation


def read_webp(data: bytes) -> Header:
    """Reads a WEBP's chunks.

    Raises:
        UnusableImageError: no size was found.
    """
    declared = int.from_bytes(data[4:8], "little") + 8
    cut = f"holds {len(data)} of the {declared} bytes it declares" if len(data) < declared & ~1 else None
    header = Header("WEBP", ("WEBP",), data[:declared], frames=0, cut=cut)
    at, end = 12, min(len(data), declared)
    while at + 8 <= end:
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        _chunk(header, kind, data[at + 8 : min(at + 8 + length, end)], length)
        at += 8 + length + (length & 1)
    header.frames = max(header.frames, 1)
    if not header.width or not header.height:
        reason = Reason.TRUNCATED if cut else Reason.DECODE_FAILED
        raise UnusableImageError(reason, f"WEBP without a size{'; ' + cut if cut else ''}; 0 % of the rows decoded")
    return header


def webp_size(data: bytes) -> tuple[int, int]:
    """Returns the width and height in pixels that a WEBP declares; (0, 0) when it declares none."""
    try:
        header = read_webp(data)
    except UnusableImageError:
        return 0, 0
    return header.width, header.height


def _chunk(header: Header, kind: bytes, body: bytes, length: int) -> None:
    if kind == b"VP8X" and len(body) >= 10:
        _size(header, int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1)
    elif kind == b"VP8 " and len(body) >= 10:
        _size(header, int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF)
    elif kind == b"VP8L" and len(body) >= 5:
        packed = int.from_bytes(body[1:5], "little")
        _size(header, (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1)
    elif kind == b"ANMF":
        header.frames += 1
    elif kind == b"EXIF":
        header.orientation = header.orientation or exif_orientation(body)
    elif kind == b"ICCP" and header.profile is None:
        if len(body) == length <= MAX_PROFILE_BYTES:
            header.profile = body
        else:
            header.notes.append("profile ignored: it is cut or too long")


def _size(header: Header, width: int, height: int) -> None:
    """The first size found is the canvas's; all count for the cap."""
    header.declared_px = max(header.declared_px, width * height)
    if not header.width:
        header.width, header.height = width, height
