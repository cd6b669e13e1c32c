"""PNG: chunks. The still picture (IDAT) is what counts, also of an animated PNG."""

from __future__ import annotations

import zlib

from sidecar_core.reasons import Reason

from sidecar_resize.headers.facts import MAX_PROFILE_BYTES, Header, UnusableImageError
from sidecar_resize.headers.tags import exif_orientation

_SIGNATURE_BYTES = 8
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT")


def read_png(data: bytes) -> Header:
    """Reads a PNG's chunks and rebuilds it from those that decide its pixels.

    Text, colour-space hints and animation are left out: none of them can stop or blow up the decoding.

    Raises:
        UnusableImageError: the header chunk is missing, cut or says nonsense, or a palette is missing.
    """
    chunks, cut, broken_crc = _walk(data)
    header = chunks.get(b"IHDR", [b""])[0]
    if len(header) < 13:
        reason = Reason.TRUNCATED if cut else Reason.DECODE_FAILED
        raise UnusableImageError(reason, "PNG without a whole IHDR chunk; 0 % of the rows decoded")
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    bits, color_type = header[8], header[9]
    if not width or not height:
        raise UnusableImageError(Reason.DECODE_FAILED, f"PNG declares {width} x {height} px")
    if color_type == 3 and not chunks.get(b"PLTE") and not cut:
        raise UnusableImageError(Reason.DECODE_FAILED, "PNG with palette indices and no palette")
    if not chunks.get(b"IDAT") and not cut:
        raise UnusableImageError(Reason.DECODE_FAILED, "PNG without image data")
    if broken_crc and not cut:
        raise UnusableImageError(Reason.DECODE_FAILED, f"checksum wrong in {', '.join(sorted(broken_crc))}")
    transparency = chunks.get(b"tRNS", [b""])[0]
    profile, notes = _profile(chunks.get(b"iCCP", []))
    return Header(
        source_format="PNG",
        pillow_formats=("PNG",),
        payload=_rebuild(chunks, transparency if color_type == 3 else b""),
        width=width,
        height=height,
        declared_px=width * height,
        orientation=exif_orientation(chunks.get(b"eXIf", [b""])[0]),
        frames=_frames(chunks),
        profile=profile,
        cut=cut,
        notes=notes,
        color_key=_color_key(color_type, transparency),
        sample_bits=bits,
    )


def _walk(data: bytes) -> tuple[dict[bytes, list[bytes]], str | None, set[str]]:
    chunks: dict[bytes, list[bytes]] = {}
    broken_crc: set[str] = set()
    at = _SIGNATURE_BYTES
    while at + 8 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        begin, end = at + 8, at + 8 + length
        if kind == b"IEND":
            return chunks, None if len(data) >= at + 12 else "ends within the IEND chunk", broken_crc
        body = data[begin:end]
        chunks.setdefault(kind, []).append(body)
        if len(data) < end + 4:
            break
        if kind in _CRITICAL and zlib.crc32(body, zlib.crc32(kind)) != int.from_bytes(data[end : end + 4], "big"):
            broken_crc.add(kind.decode())
        at = end + 4
    # damage to a later chunk's length leads the walk astray, though the end is there
    if data.find(b"IEND\xaeB`\x82", at) >= 0 and b"IDAT" in chunks and not _last_is(chunks, b"IDAT"):
        return chunks, None, broken_crc
    return chunks, "ends before the IEND chunk", broken_crc


def _last_is(chunks: dict[bytes, list[bytes]], kind: bytes) -> bool:
    return next(reversed(chunks)) == kind


def _rebuild(chunks: dict[bytes, list[bytes]], palette_alpha: bytes) -> bytes:
    parts = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", chunks[b"IHDR"][0][:13])]
    if chunks.get(b"PLTE"):
        parts.append(_chunk(b"PLTE", chunks[b"PLTE"][0]))
    if palette_alpha:
        parts.append(_chunk(b"tRNS", palette_alpha))
    parts.extend((_chunk(b"IDAT", b"".join(chunks.get(b"IDAT", []))), _chunk(b"IEND", b"")))
    return b"".join(parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return b"".join((len(body).to_bytes(4, "big"), kind, body, zlib.crc32(body, zlib.crc32(kind)).to_bytes(4, "big")))


def _color_key(color_type: int, transparency: bytes) -> tuple[int, ...] | None:
    samples = {0: 1, 2: 3}.get(color_type, 0)
    if not samples or len(transparency) < 2 * samples:
        return None
    return tuple(int.from_bytes(transparency[2 * i : 2 * i + 2], "big") for i in range(samples))


def _frames(chunks: dict[bytes, list[bytes]]) -> int:
    animation = chunks.get(b"acTL", [b""])[0]
    declared = int.from_bytes(animation[:4], "big")
    if not 1 <= declared < 2**20:
        return 1
    order = list(chunks)
    still_is_first = b"fcTL" in chunks and order.index(b"fcTL") < (
        order.index(b"IDAT") if b"IDAT" in chunks else len(order)
    )
    return declared if still_is_first else declared + 1


def _profile(bodies: list[bytes]) -> tuple[bytes | None, list[str]]:
    if not bodies:
        return None, []
    _, _, packed = bodies[0].partition(b"\0")
    unpack = zlib.decompressobj()
    try:
        profile = unpack.decompress(packed[1:], MAX_PROFILE_BYTES)
    except zlib.error:
        profile = b""
    if not profile or not unpack.eof:
        return None, ["profile ignored: it cannot be unpacked"]
    return profile, []
