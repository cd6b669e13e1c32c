"""The structure of a TIFF file: its first picture's size, its orientation, and where its data ends.

Source: TIFF 6.0, section 2; BigTIFF as in libtiff.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, TypeVar

TIFF_SIGNATURES: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_SIZES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_CODES: Final = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}
_WIDTH, _HEIGHT, _STRIPS, _STRIP_SIZES, _TILES, _TILE_SIZES, _ORIENTATION = 256, 257, 273, 279, 324, 325, 274
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
_USED: Final = frozenset(
    {_WIDTH, _HEIGHT, _STRIPS, _STRIP_SIZES, _TILES, _TILE_SIZES, _ORIENTATION, _BITS, _PHOTOMETRIC, _SAMPLE_FORMAT}
)
_UNSIGNED, _SIGNED, _UNDEFINED = 1, 2, 4
_WHITE_IS_ZERO: Final = 0
Default = TypeVar("Default", int, None)
_MOST_DIRECTORIES: Final = 1000
_MOST_VALUES: Final = 1 << 20


@dataclass
class TiffFile:
    """What was found by walking the directories.

    Attributes:
        size: (width, height) of the first picture as stored, or None.
        orientation: the first picture's orientation tag, whatever it says, or None.
        bits: of the first picture's first sample.
        sample_format: of the first picture's first sample: 1 unsigned, 2 signed, 3 floating-point, 4 undefined.
        white_is_zero: the first picture is gray, and 0 is white.
        end: offset after the last byte that a directory, strip or tile occupies.
        problems: what is wrong with the structure, in words.
    """

    size: tuple[int, int] | None = None
    orientation: int | None = None
    bits: int = 1
    sample_format: int = _UNSIGNED
    white_is_zero: bool = False
    end: int = 0
    problems: list[str] = field(default_factory=list[str])

    @property
    def unknown_scale(self) -> str | None:
        """Why it is not known which of the first picture's values is white, in words, or None when it is."""
        integers = (_UNSIGNED, _UNDEFINED) if self.bits > 8 else (_UNSIGNED, _UNDEFINED, _SIGNED)
        if self.bits <= 16 and self.sample_format in integers:
            return None
        kind = {_UNSIGNED: "unsigned", _SIGNED: "signed", 3: "floating-point"}.get(self.sample_format, "other")
        return f"samples of {self.bits} bits, {kind}: their scale is not known"


def read_tiff(data: bytes) -> TiffFile:
    """Walks the directories of a TIFF file.

    Raises:
        struct.error: the file ends within its first header.
    """
    tiff = TiffFile()
    order = "<" if data[:1] == b"I" else ">"
    big = data[2:3] == b"+" or data[3:4] == b"+"
    (offset,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    seen: set[int] = set()
    while offset and offset not in seen and len(seen) < _MOST_DIRECTORIES:
        seen.add(offset)
        try:
            tags, offset, end = _directory(data, offset, order, big=big)
        except (struct.error, OverflowError):
            tiff.problems.append("a directory reaches beyond the end")
            tiff.end = max(tiff.end, len(data) + 1)
            break
        tiff.end = max(tiff.end, end)
        for offsets, sizes in ((_STRIPS, _STRIP_SIZES), (_TILES, _TILE_SIZES)):
            pairs = zip(tags.get(offsets, ()), tags.get(sizes, ()), strict=False)
            tiff.end = max([tiff.end, *(start + size for start, size in pairs)])
        if len(seen) == 1:
            if tags.get(_WIDTH) and tags.get(_HEIGHT):
                tiff.size = (tags[_WIDTH][0], tags[_HEIGHT][0])
            tiff.orientation = _first(tags, _ORIENTATION, None)
            tiff.bits = _first(tags, _BITS, 1)
            tiff.sample_format = _first(tags, _SAMPLE_FORMAT, _UNSIGNED)
            tiff.white_is_zero = _first(tags, _PHOTOMETRIC, None) == _WHITE_IS_ZERO
    if tiff.end > len(data) and not tiff.problems:
        tiff.problems.append(f"its data reaches to byte {tiff.end} and it has {len(data)}")
    return tiff


def _first(tags: dict[int, tuple[int, ...]], tag: int, otherwise: Default) -> int | Default:
    return next(iter(tags.get(tag, ())), otherwise)


def _directory(data: bytes, offset: int, order: str, *, big: bool) -> tuple[dict[int, tuple[int, ...]], int, int]:
    """Returns the tags that matter here, the next directory's offset, and the end of this one."""
    count_code, entry_size, inline, pointer = ("Q", 20, 8, "Q") if big else ("H", 12, 4, "I")
    (count,) = struct.unpack_from(order + count_code, data, offset)
    position = offset + struct.calcsize(order + count_code)
    if count * entry_size > len(data):
        raise struct.error("more entries than bytes")
    tags: dict[int, tuple[int, ...]] = {}
    end = position + count * entry_size + struct.calcsize(order + pointer)
    for at in range(position, position + count * entry_size, entry_size):
        tag, kind, number = struct.unpack_from(order + "HH" + pointer, data, at)
        size = _SIZES.get(kind, 1) * number
        value_at = at + 4 + struct.calcsize(order + pointer)
        if size > inline:
            (value_at,) = struct.unpack_from(order + pointer, data, value_at)
            end = max(end, value_at + size)
        if tag in _USED and kind in _CODES and number <= _MOST_VALUES:
            tags[tag] = struct.unpack_from(f"{order}{number}{_CODES[kind]}", data, value_at)
    (following,) = struct.unpack_from(order + pointer, data, position + count * entry_size)
    return tags, following, end
