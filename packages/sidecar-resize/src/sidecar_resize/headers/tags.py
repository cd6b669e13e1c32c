"""TIFF tags, as TIFF files, EXIF blocks and MPF blocks hold them.

Only values that were asked for are read, so a malformed tag elsewhere never matters.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 13: 4, 16: 8, 17: 8, 18: 8}
_TYPE_CODES = {1: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}
_MAX_VALUES = 1 << 20

ORIENTATION = 0x0112
_EXIF_MAGIC = 42


@dataclass(frozen=True)
class Entry:
    """One tag of a directory: its type, count, and where its value begins."""

    type_code: int
    count: int
    at: int


class TagReader:
    """Reads directories of tags.

    Args:
        data: a block that begins with `II` or `MM`.

    Raises:
        ValueError: it begins otherwise, or ends within its first eight bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.order = {b"II": "<", b"MM": ">"}.get(data[:2], "")
        if not self.order or len(data) < 8:
            raise ValueError("no TIFF header")
        self.magic = self._int(2, "H")
        self.big = self.magic == 43
        self.first = self._int(8, "Q") if self.big and len(data) >= 16 else self._int(4, "I")

    def directory(self, at: int) -> tuple[dict[int, Entry], int, bool]:
        """Returns the directory at offset `at`, the offset of the next one (0: none), and whether it is whole."""
        count_code, entry_bytes = ("Q", 20) if self.big else ("H", 12)
        entries: dict[int, Entry] = {}
        begin = at + (8 if self.big else 2)
        if at < 8 or begin > len(self.data):
            return entries, 0, False
        count = self._int(at, count_code)
        room = (len(self.data) - begin) // entry_bytes
        for index in range(min(count, room, 65_536)):
            self._entry(begin + index * entry_bytes, entries)
        end = begin + count * entry_bytes
        pointer = 8 if self.big else 4
        if end + pointer > len(self.data):
            return entries, 0, False
        return entries, self._int(end, "Q" if self.big else "I"), True

    def integers(self, entry: Entry | None) -> list[int]:
        """Returns a tag's whole numbers, or an empty list for an absent tag or one that is no whole number."""
        if entry is None or entry.type_code not in _TYPE_CODES or entry.count > _MAX_VALUES:
            return []
        code, size = _TYPE_CODES[entry.type_code], _TYPE_BYTES[entry.type_code]
        if entry.at + size * entry.count > len(self.data):
            return []
        return list(struct.unpack_from(f"{self.order}{entry.count}{code}", self.data, entry.at))

    def beyond(self, entry: Entry) -> int:
        """Returns by how many bytes a value that begins within the block runs past its end; 0 when it does not."""
        end = entry.at + entry.count * _TYPE_BYTES.get(entry.type_code, 8)
        return max(end - len(self.data), 0) if entry.at <= len(self.data) else 0

    def blob(self, entry: Entry | None, most: int) -> bytes | None:
        """Returns a tag's bytes, or None when it is absent, empty, longer than `most` or cut short."""
        if entry is None or not 0 < entry.count * _TYPE_BYTES.get(entry.type_code, 0) <= most:
            return None
        value = self.data[entry.at : entry.at + entry.count]
        return value if len(value) == entry.count else None

    def _entry(self, at: int, entries: dict[int, Entry]) -> None:
        tag, type_code = self._int(at, "H"), self._int(at + 2, "H")
        count = self._int(at + 4, "Q" if self.big else "I")
        value_at, inline = at + (12 if self.big else 8), 8 if self.big else 4
        if _TYPE_BYTES.get(type_code, 8) * count > inline:
            value_at = self._int(value_at, "Q" if self.big else "I")
        entries.setdefault(tag, Entry(type_code, count, value_at))

    def _int(self, at: int, code: str) -> int:
        return struct.unpack_from(self.order + code, self.data, at)[0]


def exif_orientation(block: bytes | None) -> int | None:
    """Returns the orientation, 1-8, that an EXIF block declares, or None.

    Args:
        block: an EXIF block, with or without the leading `Exif` and two zero bytes. What follows is a TIFF header
            with the number 42, or no EXIF.
    """
    if not block:
        return None
    if block[:6] == b"Exif\0\0":
        block = block[6:]
    try:
        reader = TagReader(block)
        if reader.magic != _EXIF_MAGIC:
            return None
        entries, _, _ = reader.directory(reader.first)
        return orientation_of(reader, entries)
    except (ValueError, struct.error):
        return None


def orientation_of(reader: TagReader, entries: dict[int, Entry]) -> int | None:
    """Returns the orientation tag of a directory when it is 1-8 (in any whole-number type), else None."""
    values = reader.integers(entries.get(ORIENTATION))
    return values[0] if values and 1 <= values[0] <= 8 else None
