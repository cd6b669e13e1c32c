"""What kind of image file bytes are, how large it says it is, and where it ends. Pure Python, decodes nothing.

A decoder that is content does not prove that a file is whole: decoders fill what is missing with gray.
So each format's own structure is walked to its end.

Sources: PNG 3rd edition; GIF89a; RFC 9649 (WEBP); TIFF 6.0 and BigTIFF;
ISO/IEC 14496-12 and 15444-1; BMP as Windows has it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sidecar_filters.jpeg import JpegFile, read_jpeg
from sidecar_filters.tiff import TIFF_SIGNATURES, read_tiff

if TYPE_CHECKING:
    from collections.abc import Callable

_JP2_SIGNATURE: Final = b"\x00\x00\x00\x0cjP  \r\n\x87\n"
_HEIF_BRANDS: Final = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_SIGNATURES: Final = (
    (b"\xff\xd8\xff", "JPEG"),
    (_PNG_SIGNATURE, "PNG"),
    ((b"GIF87a", b"GIF89a"), "GIF"),
    (TIFF_SIGNATURES, "TIFF"),
    ((_JP2_SIGNATURE, b"\xff\x4f\xff\x51"), "JPEG2000"),
    ((b"\x00\x00\x00\x0cJXL \r\n\x87\n", b"\xff\x0a"), "JXL"),
    (b"8BPS", "PSD"),
    (b"DDS \x7c\0\0\0", "DDS"),
    ((b"BLP1", b"BLP2"), "BLP"),
    (b"%PDF", "PDF"),
    (b"%!PS", "EPS"),
    (b"\x00\x00\x01\x00", "ICO"),
    (b"qoif", "QOI"),
    (b"\x76\x2f\x31\x01", "EXR"),
    (b"#?RADIANCE", "HDR"),
    (b"SIMPLE  =", "FITS"),
)
UNREAD_FORMATS: Final = frozenset(
    {"HEIF", "JXL", "PSD", "DDS", "BLP", "PDF", "EPS", "ICO", "QOI", "EXR", "HDR", "FITS"}
)
_BMP_HEADERS: Final = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_PNG_PIXELS: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
_PNG_SAMPLES: Final = {0: 1, 2: 3}  # by colour type, of those whose tRNS chunk holds a colour
_PNG_XMP: Final = b"XML:com.adobe.xmp\0"
_AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})


@dataclass
class Container:
    """A file as its bytes describe it.

    Attributes:
        format: JPEG, PNG, GIF, WEBP, BMP, TIFF, AVIF or JPEG2000, or one of `UNREAD_FORMATS`.
        size: (width, height) by its header, as stored, or None when that was not found.
        end: offset after the file's end marker or last declared byte, or None when it ends before that.
        knows_end: whether this format says where it ends; when not, `end` means nothing.
        cut_short: its end is there, and some of its data are not.
        problems: what is wrong with the structure, in words.
        animated: a PNG with an `acTL` chunk, a WEBP with an `ANIM` chunk.
        transparent: a PNG or WEBP with an alpha channel or a transparent colour.
        bits: a sample of a PNG or TIFF; 0 for other formats.
        color_key: the samples, as stored, that a PNG without a palette declares transparent.
        white_is_zero: in a gray TIFF.
        unknown_scale: why it is not known which of a TIFF's values is white, in words.
        exif: a PNG's EXIF block, wherever it stands.
        xmp: a PNG's XMP packet, wherever it stands.
        jpeg: more about a JPEG.
    """

    format: str
    size: tuple[int, int] | None = None
    end: int | None = None
    knows_end: bool = True
    cut_short: bool = False
    problems: list[str] = field(default_factory=list[str])
    animated: bool = False
    transparent: bool = False
    bits: int = 0
    color_key: tuple[int, ...] | None = None
    white_is_zero: bool = False
    unknown_scale: str | None = None
    exif: bytes | None = None
    xmp: bytes | None = None
    jpeg: JpegFile | None = None

    @property
    def truncated(self) -> bool:
        """Whether the end is missing, or data before it."""
        return self.knows_end and (self.end is None or self.cut_short)


def sniff(data: bytes) -> str | None:
    """Returns the format that the first bytes name, or None when they are no image's that we know."""
    for start, name in _SIGNATURES:
        if data.startswith(start):
            return name
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "BMP"
    if data[4:8] == b"ftyp":
        brands = data[8 : max(12, min(256, int.from_bytes(data[:4], "big")))]
        names = {brands[at : at + 4] for at in range(0, len(brands), 4)}
        return "AVIF" if names & _AVIF_BRANDS else "HEIF" if names & _HEIF_BRANDS else None
    return None


def read_container(data: bytes) -> Container | None:
    """Walks a file from its first byte to its end.

    Args:
        data: any bytes.

    Returns:
        What was found, or None when the bytes begin like no image that we know. Never raises.
    """
    found = sniff(data)
    if found is None:
        return None
    container = Container(found)
    try:
        _WALKERS.get(found, _walk_unknown)(data, container)
    except (struct.error, IndexError, OverflowError):
        container.end = None
        container.problems.append("the file ends within a header")
    return container


def _walk_jpeg(data: bytes, container: Container) -> None:
    jpeg = read_jpeg(data)
    container.jpeg = jpeg
    container.problems = jpeg.problems
    container.end = jpeg.end
    container.cut_short = jpeg.missing_scans is not None
    if jpeg.width and jpeg.height:
        container.size = (jpeg.width, jpeg.height)


def _walk_png(data: bytes, container: Container) -> None:
    color = -1
    position = len(_PNG_SIGNATURE)
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if kind == b"IHDR" and length >= 13:
            width, height, container.bits, color = struct.unpack_from(">IIBB", data, position + 8)
            container.size = (width, height)
            container.transparent = color in (4, 6)
        container.animated |= kind == b"acTL"
        container.transparent |= kind == b"tRNS"
        if end > len(data):
            container.problems.append(f"chunk {kind!r} at byte {position} reaches beyond the end")
            return
        if zlib.crc32(memoryview(data)[position + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            container.problems.append(f"chunk {kind!r} at byte {position} has a wrong checksum")
        if kind == b"tRNS" and color in _PNG_SAMPLES and length >= 2 * _PNG_SAMPLES[color]:
            container.color_key = struct.unpack_from(f">{_PNG_SAMPLES[color]}H", data, position + 8)
        if kind == b"eXIf":
            container.exif = data[position + 8 : end - 4]
        if kind == b"iTXt" and data.startswith(_PNG_XMP, position + 8):
            container.xmp = data[position + 8 + len(_PNG_XMP) : end - 4]
        position = end
        if kind == b"IEND":
            container.end = position
            return
    container.problems.append("no IEND chunk")


def png_of_pixels(data: bytes) -> bytes:
    """Returns a PNG's chunks on which its pixels depend, without those that keep a decoder from opening it."""
    kept = [_PNG_SIGNATURE]
    position = len(_PNG_SIGNATURE)
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if kind in _PNG_PIXELS:
            kept.append(data[position:end])
        position = end
    return b"".join(kept)


def _walk_gif(data: bytes, container: Container) -> None:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    container.size = (width, height)
    position = 13 + _color_table_bytes(flags)
    while True:
        introducer = data[position]
        position += 1
        if introducer == 0x3B:
            container.end = position
            return
        if introducer == 0x2C:
            position += 9 + _color_table_bytes(data[position + 8]) + 1
        elif introducer == 0x21:
            position += 1
        else:
            container.problems.append(f"unknown block {introducer:#04x} at byte {position - 1}")
            return
        while data[position]:
            position += data[position] + 1
        position += 1


def _color_table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _walk_webp(data: bytes, container: Container) -> None:
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    position = 12
    while position + 8 <= min(end, len(data)):
        kind, length = struct.unpack_from("<4sI", data, position)
        body = position + 8
        if kind == b"VP8X":
            flags, bounds = data[body], data[body + 4 : body + 10]
            container.transparent |= bool(flags & 0x10)
            container.animated |= bool(flags & 0x02)
            container.size = (1 + int.from_bytes(bounds[:3], "little"), 1 + int.from_bytes(bounds[3:], "little"))
        elif kind == b"VP8 " and container.size is None:
            width, height = struct.unpack_from("<HH", data, body + 6)
            container.size = (width & 0x3FFF, height & 0x3FFF)
        elif kind == b"VP8L" and container.size is None:
            bits = struct.unpack_from("<I", data, body + 1)[0]
            container.size = (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
            container.transparent |= bool(bits >> 28 & 1)
        position = body + length + (length & 1)
    if end > len(data):
        container.problems.append(f"the file declares {end} bytes and has {len(data)}")
    elif position != end and position != end + (end & 1):
        container.problems.append("its chunks do not fill it")
        container.end = end
    else:
        container.end = min(position, len(data))


def _walk_bmp(data: bytes, container: Container) -> None:
    declared, _, pixels, header = struct.unpack_from("<IIII", data, 2)
    if header == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _, bits = struct.unpack_from("<iiHH", data, 18)
        compression = struct.unpack_from("<I", data, 30)[0]
    container.size = (abs(width), abs(height))
    raw = compression in (0, 3, 6)  # else run lengths, and only the header says how many bytes there are
    end = pixels + (abs(width) * bits + 31) // 32 * 4 * abs(height) if raw else declared
    if end <= len(data):
        container.end = end
    else:
        container.problems.append(f"its pixels need {end} bytes and it has {len(data)}")


def _walk_tiff(data: bytes, container: Container) -> None:
    tiff = read_tiff(data)
    container.size = tiff.size
    container.end = tiff.end if tiff.end <= len(data) else None
    container.bits = tiff.bits
    container.white_is_zero = tiff.white_is_zero
    container.unknown_scale = tiff.unknown_scale
    container.problems = tiff.problems


def _walk_boxes(data: bytes, container: Container) -> None:
    position = 0
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if not kind.isascii() or not kind.decode("ascii").isprintable():
            break  # what follows the last box
        head = 8
        if length == 1:
            head, length = 16, struct.unpack_from(">Q", data, position + 8)[0]
        elif length == 0:
            length = len(data) - position
        if length < head or position + length > len(data):
            container.problems.append(f"box {kind!r} at byte {position} reaches beyond the end")
            return
        if kind == b"jp2c":
            _find_codestream_end(data, position + head, position + length, container)
            if container.problems:
                return
        position += length
    container.end = position
    if container.format == "AVIF":
        at = data.find(b"ispe")
        if at > 0:
            container.size = struct.unpack_from(">II", data, at + 8)


def _walk_jpeg2000(data: bytes, container: Container) -> None:
    if data.startswith(_JP2_SIGNATURE):
        at = data.find(b"ihdr")
        if at > 0:
            height, width = struct.unpack_from(">II", data, at + 4)
            container.size = (width, height)
        _walk_boxes(data, container)
        return
    width, height, left, top = struct.unpack_from(">IIII", data, 8)
    container.size = (width - left, height - top)
    _find_codestream_end(data, 0, len(data), container)


def _find_codestream_end(data: bytes, start: int, end: int, container: Container) -> None:
    at = data.rfind(b"\xff\xd9", start, end)
    if at < 0 or end - at > 16:  # the end marker may be padded, and may occur by chance
        container.problems.append("no end of codestream marker")
    else:
        container.end = at + 2


def _walk_unknown(data: bytes, container: Container) -> None:
    del data
    container.knows_end = False


_WALKERS: Final[dict[str, Callable[[bytes, Container], None]]] = {
    "AVIF": _walk_boxes,
    "BMP": _walk_bmp,
    "GIF": _walk_gif,
    "HEIF": _walk_boxes,
    "JPEG": _walk_jpeg,
    "JPEG2000": _walk_jpeg2000,
    "PNG": _walk_png,
    "TIFF": _walk_tiff,
    "WEBP": _walk_webp,
}
