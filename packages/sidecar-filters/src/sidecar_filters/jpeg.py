"""The structure of a JPEG file: its header, and where it ends. Pure Python, decodes nothing.

Source: ITU-T T.81, annexes A and B; ITU-T T.871 (JFIF).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Final

SOF_MARKERS: Final = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_PROGRESSIVE: Final = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_LOSSLESS: Final = frozenset({0xC3, 0xC7, 0xCB, 0xCF})
_HUFFMAN_DCT: Final = frozenset({0xC0, 0xC1, 0xC2})
_SEQUENTIAL_HUFFMAN: Final = frozenset({0xC0, 0xC1})
_SCAN_BOOKKEEPING: Final = frozenset({0xC2, 0xCA})  # progressive; hierarchical files have frames that add up
_STANDALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
_SOS, _EOI, _DQT, _SOI = 0xDA, 0xD9, 0xDB, 0xD8
# A marker in entropy-coded data: neither a stuffed zero, nor a restart, nor a fill byte.
_SCAN_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
# Sixteen 1-bits are no Huffman code. In place of the end marker they let a decoder look ahead past a whole scan,
# and give it nothing to fill the rest of a cut one with.
_NO_MORE_DATA: Final = b"\xff\x00" * 8
_UNSEEN: Final = 16  # above any bit position


@dataclass(frozen=True)
class JpegComponent:
    """One component of the frame: its number, sampling factors and quantisation table's number."""

    number: int
    horizontal: int
    vertical: int
    table: int


@dataclass(frozen=True)
class JpegScan:
    """A scan's header: whose coefficients it holds, which, and from which bit to which it refines them."""

    components: tuple[int, ...]
    first: int
    last: int
    bit_before: int
    bit_after: int


@dataclass
class JpegFile:
    """What was found by walking the markers.

    Attributes:
        width: columns, or 0 when no frame header was found.
        height: rows, or 0.
        precision: bits a sample.
        frame: the frame header's marker (0xC0 baseline, 0xC2 progressive…).
        components: in the frame's order.
        tables: quantisation tables by number, 64 values in zigzag order, as they are at the first scan.
        scans: in the file's order.
        scan_end: offset of the marker after the last scan's data, or of the file's end.
        end: offset after the end marker, or None when it is not there.
        problems: what is wrong with the structure, in words.
    """

    width: int = 0
    height: int = 0
    precision: int = 0
    frame: int = 0
    components: tuple[JpegComponent, ...] = ()
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict[int, "tuple[int, ...]"])
    scans: list[JpegScan] = field(default_factory=list[JpegScan])
    scan_end: int = 0
    end: int | None = None
    problems: list[str] = field(default_factory=list[str])

    @property
    def progressive(self) -> bool:
        """Whether coefficients come in several scans."""
        return self.frame in _PROGRESSIVE

    @property
    def lossless(self) -> bool:
        """Whether samples are predicted (T.81, annex H), which common decoders do not read."""
        return self.frame in _LOSSLESS

    @property
    def one_scan(self) -> bool:
        """Whether all rows are in one Huffman-coded sequential scan, so that where its data end, the picture ends."""
        whole = len(self.scans) == 1 and set(self.scans[0].components) == {c.number for c in self.components}
        return whole and self.frame in _SEQUENTIAL_HUFFMAN

    @property
    def missing_scans(self) -> str | None:
        """Which scans are missing, in words, or None when all are there, or none at all."""
        if not self.scans:
            return None
        if self.frame in _SCAN_BOOKKEEPING:
            return _missing_bits([each.number for each in self.components], self.scans)
        if not {each.number for each in self.components} <= {n for scan in self.scans for n in scan.components}:
            return "the scans of some components are missing"
        return None

    @property
    def luminance_table(self) -> tuple[int, ...] | None:
        """The first component's quantisation table, 64 values in zigzag order."""
        return self.tables.get(self.components[0].table) if self.components else None

    @property
    def scales_down(self) -> bool:
        """Whether decoders can decode it at 1/2, 1/4 and 1/8: Huffman-coded DCT, 8 bits, gray or three components."""
        return self.frame in _HUFFMAN_DCT and self.precision == 8 and len(self.components) in (1, 3)

    @property
    def subsampling(self) -> str | None:
        """The usual name of the chroma subsampling, or the factors themselves when it has none."""
        if not self.components:
            return None
        if len(self.components) == 1:
            return "4:0:0"
        factors = [(c.horizontal, c.vertical) for c in self.components]
        luma, *chroma = factors[:3]
        if len(set(chroma)) == 1 and not luma[0] % chroma[0][0] and not luma[1] % chroma[0][1]:
            ratio = (luma[0] // chroma[0][0], luma[1] // chroma[0][1])
            names = {
                (1, 1): "4:4:4",
                (2, 1): "4:2:2",
                (2, 2): "4:2:0",
                (1, 2): "4:4:0",
                (4, 1): "4:1:1",
                (4, 2): "4:1:0",
                (1, 4): "4:4:1",
            }
            if ratio in names:
                return names[ratio]
        return ",".join(f"{h}x{v}" for h, v in factors)


def read_jpeg(data: bytes) -> JpegFile:
    """Walks the markers from the start of image to the end of image; never raises."""
    jpeg = JpegFile()
    position = 2
    scanned = False
    while (start := _marker_at(data, position)) is not None:
        if start != position and not scanned and data[position] != 0xFF:
            jpeg.problems.append(f"{start - position} bytes between segments at byte {position}")
        marker = data[start + 1]
        position = start + 2
        if marker == _EOI:
            jpeg.end = position
            jpeg.problems.extend([jpeg.missing_scans] if jpeg.missing_scans else [])
            return jpeg
        if marker in _STANDALONE:
            continue
        body = _segment(data, position)
        if body is not None:
            position += len(body) + 2
            if marker == _SOS:
                _take_scan(jpeg, body)
            elif not scanned:
                _take_header(jpeg, marker, body)
        else:
            jpeg.problems.append(f"segment {marker:#04x} at byte {start} reaches beyond the end")
            if not scanned:
                return jpeg
            # In a scan it is more likely a flipped bit than a segment.
        scanned |= marker == _SOS
        if scanned:
            found = _SCAN_MARKER.search(data, position)
            position = found.start() if found else len(data)
            jpeg.scan_end = position if marker == _SOS else jpeg.scan_end
    jpeg.problems.append("no end of image marker")
    return jpeg


def _marker_at(data: bytes, position: int) -> int | None:
    """Returns where the next marker's last 0xFF is, past fill bytes and stuffed zeros, or None when there is none."""
    start = data.find(b"\xff", position)
    while 0 <= start < len(data) - 1:
        if data[start + 1] not in (0x00, 0xFF):
            return start
        start = data.find(b"\xff", start + 1)
    return None


def _segment(data: bytes, position: int) -> bytes | None:
    """Returns the body of the segment whose length is at `position`, or None when it is not all there."""
    if position + 2 > len(data):
        return None
    (length,) = struct.unpack_from(">H", data, position)
    if length < 2 or position + length > len(data):
        return None
    return data[position + 2 : position + length]


def jpeg_without_end(data: bytes, jpeg: JpegFile) -> bytes:
    """Returns a file of one scan without its end marker, so that decoders that miss data say so, and fill nothing in.

    Args:
        data: the file.
        jpeg: what was found in it; `one_scan`.
    """
    return data[: jpeg.scan_end] + (_NO_MORE_DATA if jpeg.scan_end < len(data) else b"")


def _take_scan(jpeg: JpegFile, body: bytes) -> None:
    count = body[0] if body else 0
    spectral = body[1 + 2 * count :]
    if len(spectral) >= 3:
        first, last, bits = spectral[:3]
        jpeg.scans.append(JpegScan(tuple(body[1 : 1 + 2 * count : 2]), first, last, bits >> 4, bits & 15))


def _missing_bits(components: list[int], scans: list[JpegScan]) -> str | None:
    """What a progressive file lacks: scans must refine each coefficient to its last bit, and follow each other."""
    left = {number: [_UNSEEN] * 64 for number in components}
    for scan in scans:
        for number in scan.components:
            bits = left.get(number, [])[scan.first : scan.last + 1]
            expected = scan.bit_before or _UNSEEN
            if any(bit not in (scan.bit_before, expected) for bit in bits):
                return "scans of a progressive JPEG are missing"
            if bits:
                left[number][scan.first : scan.last + 1] = [scan.bit_after] * len(bits)
    return "the last scans of a progressive JPEG are missing" if any(map(any, left.values())) else None


def _take_header(jpeg: JpegFile, marker: int, body: bytes) -> None:
    """Reads a frame header or quantisation tables; libjpeg uses the first frame, and the last tables before a scan."""
    if marker in SOF_MARKERS and not jpeg.frame and len(body) >= 6 and len(body) >= 6 + 3 * body[5]:
        jpeg.frame = marker
        jpeg.precision, jpeg.height, jpeg.width, count = struct.unpack_from(">BHHB", body)
        jpeg.components = tuple(
            JpegComponent(body[at], body[at + 1] >> 4 or 1, body[at + 1] & 15 or 1, body[at + 2])
            for at in range(6, 6 + 3 * count, 3)
        )
    if marker == _DQT:
        position = 0
        while position < len(body):
            wide, number = body[position] >> 4, body[position] & 15
            size = 128 if wide else 64
            values = body[position + 1 : position + 1 + size]
            if len(values) < size:
                jpeg.problems.append("a quantisation table is cut short")
                return
            jpeg.tables[number] = struct.unpack(">64H" if wide else ">64B", values)
            position += 1 + size
