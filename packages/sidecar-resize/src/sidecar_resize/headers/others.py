"""BMP, PPM, AVIF and JPEG 2000: only what tells whether the file is whole and how large it declares to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_resize.headers.facts import Header

if TYPE_CHECKING:
    from collections.abc import Iterator

_END_OF_CODESTREAM = b"\xff\xd9"
_SIZE_MARKER = b"\xff\x4f\xff\x51"


def read_bmp(data: bytes) -> Header:
    """Reads nothing: the decoder checks a BMP's size and data by itself."""
    return Header("BMP", ("BMP", "DIB"), data)


def read_ppm(data: bytes) -> Header:
    """Reads nothing: the decoder checks a PPM's size and data by itself."""
    return Header("PPM", ("PPM",), data)


def read_avif(data: bytes) -> Header:
    """Walks the boxes to see whether the last one is whole; size and frames come from the decoder."""
    cut = None
    for kind, begin, end in _boxes(data, 0):
        needed = max(end, _last_item_byte(data, begin, end) if kind == b"meta" else 0)
        if needed > len(data):
            cut = f"holds {len(data)} of the {needed} bytes it declares"
    return Header("AVIF", ("AVIF",), data, frames=0, cut=cut)


def read_jp2(data: bytes) -> Header:
    """Finds the codestream, its declared size (it can differ from the container's) and its end."""
    header = Header("JPEG2000", ("JPEG2000",), data)
    start = data.find(_SIZE_MARKER)
    if start >= 0:
        size = data[start + 8 : start + 24]
        right, bottom, left, top = (int.from_bytes(size[i : i + 4], "big") for i in (0, 4, 8, 12))
        header.declared_px = max(right - left, 0) * max(bottom - top, 0)
    if start < 0 or data.find(_END_OF_CODESTREAM, start) < 0:
        header.cut = "ends before the end of its codestream"
    return header


def _last_item_byte(data: bytes, begin: int, end: int) -> int:
    """Returns where the last byte of any item is, as the item locations of a meta box say."""
    for kind, inner, inner_end in _boxes(data[:end], begin + 4):
        if kind == b"iloc":
            return _last_extent(data[inner:inner_end])
    return 0


def _last_extent(box: bytes) -> int:
    version, at = box[0] if box else 255, 6
    if version > 2 or len(box) < 8:
        return 0
    offset_bytes, length_bytes, base_bytes, index_bytes = box[4] >> 4, box[4] & 15, box[5] >> 4, box[5] & 15

    def take(count: int) -> int:
        nonlocal at
        at += count
        return int.from_bytes(box[at - count : at], "big")

    last = 0
    for _ in range(take(4 if version == 2 else 2)):
        take(4 if version == 2 else 2)
        in_file = not version or not take(2) & 15
        take(2)
        base = take(base_bytes)
        for _ in range(take(2)):
            take(index_bytes if version else 0)
            offset, length = take(offset_bytes), take(length_bytes)
            last = max(last, base + offset + length) if in_file else last
        if at > len(box):
            return 0
    return last


def _boxes(data: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Yields (type, begin, end) of the boxes from `at` on; an end past `data` is the last."""
    while at + 8 <= len(data):
        size, kind, head = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8], 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        elif size == 0:
            size = len(data) - at
        if size < head:
            return
        yield kind, at + head, at + size
        at += size
