"""TIFF and BigTIFF: the first directory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sidecar_core.reasons import Reason

from sidecar_resize.headers.facts import MAX_PROFILE_BYTES, Header, UnusableImageError
from sidecar_resize.headers.tags import ORIENTATION, Entry, TagReader, orientation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _SAMPLE_FORMAT, _PROFILE = 256, 257, 258, 262, 339, 34675
_DATA_PLACES = ((273, 279), (324, 325), (513, 514))  # strips, tiles, old-style JPEG: offsets and byte counts
_TILE_WIDTH, _TILE_HEIGHT = 322, 323
_MAX_PAGES = 10_000
_MAX_MISSING_BYTES = 65_536


def read_tiff(data: bytes) -> Header:
    """Reads the first page's tags, and counts the pages.

    The orientation in the payload is set to 1: the decoder would else turn the picture by itself. So is the photometric
    interpretation of gray samples wider than 8 bits of which zero is white: no decoder would invert them.

    Raises:
        UnusableImageError: the first directory or its size cannot be read, or samples have no known scale.
    """
    try:
        reader = TagReader(data)
        entries, following, whole = reader.directory(reader.first)
    except (ValueError, struct.error):
        raise UnusableImageError(Reason.TRUNCATED, "ends within the TIFF header; 0 % of the rows decoded") from None
    numbers = {tag: reader.integers(entries.get(tag)) for tag in (_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _SAMPLE_FORMAT)}
    cut = _cut(reader, entries, whole=whole)
    if not numbers[_WIDTH] or not numbers[_HEIGHT] or min(numbers[_WIDTH][0], numbers[_HEIGHT][0]) < 1:
        reason = Reason.TRUNCATED if cut else Reason.DECODE_FAILED
        raise UnusableImageError(reason, f"TIFF without a size{'; ' + cut if cut else ''}; 0 % of the rows decoded")
    width, height = numbers[_WIDTH][0], numbers[_HEIGHT][0]
    bits, kinds = numbers[_BITS] or [1], numbers[_SAMPLE_FORMAT] or [1]
    orientation = orientation_of(reader, entries)
    inverted = numbers[_PHOTOMETRIC] == [0] and len(bits) == 1 and 8 < bits[0] <= 16 and kinds[0] == 1
    set_to_one = [entries.get(tag) for tag in (ORIENTATION, *([_PHOTOMETRIC] if inverted else []))]
    return Header(
        source_format="TIFF",
        pillow_formats=("TIFF",),
        payload=_with_ones(reader, set_to_one) + bytes(_missing_bytes(reader, entries) if cut else 0),
        width=width,
        height=height,
        declared_px=max(width * height, _tile_px(reader, entries)),
        orientation=orientation,
        frames=_count_pages(reader, following),
        profile=reader.blob(entries.get(_PROFILE), MAX_PROFILE_BYTES),
        cut=cut,
        gray_bits=bits[0] if 8 < bits[0] < 16 else 16 if bits[0] <= 16 and kinds[0] == 1 else 0,
        white_is_zero=inverted,
    )


def _cut(reader: TagReader, entries: dict[int, Entry], *, whole: bool) -> str | None:
    size = len(reader.data)
    if not whole:
        return "ends before its directory does"
    if any(reader.beyond(entry) for entry in entries.values()):
        return "ends within the value of a tag"
    for offsets_tag, counts_tag in _DATA_PLACES:
        offsets, counts = reader.integers(entries.get(offsets_tag)), reader.integers(entries.get(counts_tag))
        end = max((offset + count for offset, count in zip(offsets, counts, strict=False)), default=0)
        if end > size:
            return f"holds {size} bytes, and its pixels end at byte {end}"
        if offsets_tag in entries and not offsets and entries[offsets_tag].at > size:
            return "ends before its table of strips"
    return None


def _missing_bytes(reader: TagReader, entries: dict[int, Entry]) -> int:
    """How many zero bytes let the decoder open a file whose directory or tags are cut."""
    missing = max((reader.beyond(entry) for entry in entries.values()), default=0)
    return min(missing + 8, _MAX_MISSING_BYTES)


def _tile_px(reader: TagReader, entries: dict[int, Entry]) -> int:
    wide, high = reader.integers(entries.get(_TILE_WIDTH)), reader.integers(entries.get(_TILE_HEIGHT))
    return wide[0] * high[0] if wide and high else 0


def _with_ones(reader: TagReader, entries: Sequence[Entry | None]) -> bytes:
    """Returns the file with 1 as the value of each tag that is there and has one whole number."""
    data = reader.data
    for entry in entries:
        values = reader.integers(entry)
        if entry is None or not values or values[0] == 1 or entry.count != 1:
            continue
        width = {1: 1, 6: 1, 3: 2, 8: 2, 4: 4, 9: 4, 13: 4}.get(entry.type_code, 8)
        value = (1).to_bytes(width, "little" if reader.order == "<" else "big")
        data = b"".join((data[: entry.at], value, data[entry.at + width :]))
    return data


def _count_pages(reader: TagReader, following: int) -> int:
    seen = {0, reader.first}
    pages = 1
    while following not in seen and pages < _MAX_PAGES:
        seen.add(following)
        try:
            entries, following, _ = reader.directory(following)
        except struct.error:
            break
        if not entries:
            break
        pages += 1
    return pages
