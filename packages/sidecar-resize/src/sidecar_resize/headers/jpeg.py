"""JPEG: segments, scans, and whether the coded data reach the end of the picture."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sidecar_core.reasons import Reason

from sidecar_resize.headers.facts import MAX_PROFILE_BYTES, Header, UnusableImageError
from sidecar_resize.headers.tags import TagReader, exif_orientation

_END_OF_SCAN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL_HUFFMAN = frozenset((0xC0, 0xC1))
_PROGRESSIVE = frozenset((0xC2, 0xCA))
_NEEDED = _FRAME_MARKERS | {0xC4, 0xCC, 0xDB, 0xDD}

# Sixteen 1-bits are no Huffman code. Put in place of the end marker, they let the decoder look ahead past a
# complete scan, but give an incomplete one nothing to fill the rest of the picture with.
_NO_MORE_DATA = b"\xff\x00" * 8


@dataclass(frozen=True)
class _Scan:
    """Which coefficients of which components a scan holds, and from which bit to which it refines them."""

    components: tuple[int, ...]
    first: int
    last: int
    bit_before: int
    bit_after: int


@dataclass
class _Segments:
    """What a walk over the markers found."""

    kept: list[bytes] = field(default_factory=list[bytes])
    frame_marker: int = 0
    precision: int = 8
    width: int = 0
    height: int = 0
    component_ids: tuple[int, ...] = ()
    declared_px: int = 0
    exif: bytes | None = None
    profile_parts: dict[int, bytes] = field(default_factory=dict[int, bytes])
    profile_count: int = 0
    profile_broken: bool = False
    pictures: int = 1
    scans: list[_Scan] = field(default_factory=list["_Scan"])
    coded_from: int = 0  # the first scan's header
    scan_end: int = 0  # the marker after the last scan's data
    end: int | None = None  # the end-of-image marker
    cut: str | None = None


def read_jpeg(data: bytes) -> Header:
    """Reads a JPEG's markers; of several pictures (MPO) the first.

    Raises:
        UnusableImageError: no frame, no scan, samples that are not 8 bits, or cut within the header.
    """
    found = _walk(data)
    if not found.frame_marker or not found.coded_from:
        if found.cut:
            raise UnusableImageError(Reason.TRUNCATED, f"{found.cut}; 0 % of the rows decoded")
        raise UnusableImageError(Reason.DECODE_FAILED, "JPEG without a frame or without a scan")
    if found.precision != 8:
        raise UnusableImageError(Reason.UNSUPPORTED_MODE, f"JPEG with {found.precision}-bit samples")
    profile, notes = _profile(found)
    return Header(
        source_format="MPO" if found.pictures > 1 else "JPEG",
        pillow_formats=("JPEG",),
        payload=_payload(data, found),
        width=found.width,
        height=found.height,
        declared_px=found.declared_px,
        orientation=exif_orientation(found.exif),
        frames=found.pictures,
        profile=profile,
        cut=found.cut or _missing_scans(found),
        notes=notes,
        may_reduce=found.frame_marker not in (0xC3, 0xC7, 0xCB, 0xCF),
    )


def _walk(data: bytes) -> _Segments:
    found = _Segments()
    at = 2
    while True:
        at = data.find(b"\xff", at)
        while at >= 0 and data[at + 1 : at + 2] == b"\xff":
            at += 1
        if at < 0 or at + 2 > len(data):
            found.cut = "ends before the end-of-image marker"
            break
        marker = data[at + 1]
        if marker == 0xD9:
            found.end = at
            break
        if marker in (0x00, 0x01) or 0xD0 <= marker <= 0xD8:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if at + 2 + max(length, 2) > len(data):
            found.cut = f"ends within segment 0xFF{marker:02X}"
            break
        segment, body = data[at : at + 2 + length], data[at + 4 : at + 2 + length]
        _segment(found, marker, segment, body)
        at += 2 + max(length, 2)
        if marker == 0xDA:
            found.coded_from = found.coded_from or at - 2 - max(length, 2)
            after = _END_OF_SCAN.search(data, at)
            found.scan_end = at = after.start() if after else len(data)
    return found


def _segment(found: _Segments, marker: int, segment: bytes, body: bytes) -> None:
    if marker in _FRAME_MARKERS and len(body) >= 6:
        height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
        found.declared_px = max(found.declared_px, width * height)
        if not found.frame_marker:
            found.frame_marker, found.precision, found.width, found.height = marker, body[0], width, height
            found.component_ids = tuple(body[6::3][: body[5]])
    elif marker == 0xDA and body:
        count = body[0]
        scan = body[1 + 2 * count :]
        if len(scan) >= 3:
            components = tuple(body[1 : 1 + 2 * count : 2])
            found.scans.append(_Scan(components, scan[0], scan[1], scan[2] >> 4, scan[2] & 15))
    elif marker == 0xE1 and body[:6] == b"Exif\0\0" and found.exif is None and not found.coded_from:
        found.exif = body  # of a segment behind a scan it is none: APP1 stands before the picture
    elif marker == 0xE2 and body[:12] == b"ICC_PROFILE\0":
        _profile_part(found, body)
    elif marker == 0xE2 and body[:4] == b"MPF\0":
        found.pictures = _pictures(body[4:])
    is_jfif = marker == 0xE0 and body[:5] == b"JFIF\0" and len(body) >= 14
    is_adobe = marker == 0xEE and body[:5] == b"Adobe" and len(body) >= 12
    if not found.coded_from and (marker in _NEEDED or is_jfif or is_adobe):
        found.kept.append(segment)


def _payload(data: bytes, found: _Segments) -> bytes:
    head = b"\xff\xd8" + b"".join(found.kept)
    end = len(data) if found.end is None else found.end
    one_scan = len(found.scans) == 1 and len(found.scans[0].components) == len(found.component_ids)
    if one_scan and found.frame_marker in _SEQUENTIAL_HUFFMAN:
        tail = _NO_MORE_DATA if found.scan_end < len(data) else b""
        return head + data[found.coded_from : found.scan_end] + tail
    return head + data[found.coded_from : end] + (b"\xff\xd9" if found.end is not None else b"")


def _missing_scans(found: _Segments) -> str | None:
    """A picture that was cut and given an end marker lacks scans; one cut within its last scan passes."""
    if found.frame_marker in _PROGRESSIVE:
        unseen = 16
        left = {component: [unseen] * 64 for component in found.component_ids}
        for scan in found.scans:
            for component in scan.components:
                bits = left.get(component, [])[scan.first : scan.last + 1]
                if any(bit not in (scan.bit_before, unseen if not scan.bit_before else -1) for bit in bits):
                    return "lacks scans of a progressive JPEG"
                if bits:
                    left[component][scan.first : scan.last + 1] = [scan.bit_after] * len(bits)
        if any(any(bits) for bits in left.values()):
            return "lacks the last scans of a progressive JPEG"
    elif not set(found.component_ids) <= {component for scan in found.scans for component in scan.components}:
        return "lacks the scans of some components"
    return None


def _profile_part(found: _Segments, body: bytes) -> None:
    number, count = body[12:13], body[13:14]
    if not count or number[0] in found.profile_parts or number[0] == 0:
        found.profile_broken = True
        return
    found.profile_parts[number[0]] = body[14:]
    found.profile_count = count[0]


def _profile(found: _Segments) -> tuple[bytes | None, list[str]]:
    if not found.profile_parts and not found.profile_broken:
        return None, []
    whole = sorted(found.profile_parts) == list(range(1, found.profile_count + 1))
    profile = b"".join(part for _, part in sorted(found.profile_parts.items()))
    if found.profile_broken or not whole or len(profile) > MAX_PROFILE_BYTES:
        return None, ["profile ignored: its parts are missing, doubled or too long"]
    return profile, []


def _pictures(block: bytes) -> int:
    try:
        reader = TagReader(block)
        entries, _, _ = reader.directory(reader.first)
        count = reader.integers(entries.get(0xB001))
    except ValueError:
        return 1
    return count[0] if count and 1 <= count[0] <= 1000 else 1
