"""Small pictures of the kinds that real datasets hold, made on the spot. Loads Pillow."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image, ImageDraw

TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,  # what a viewer that turns it by 270 degrees needs to find
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def scene(width: int, height: int) -> Image.Image:
    """Returns an RGB picture that looks different however it is turned, without hard texture."""
    across = Image.linear_gradient("L").rotate(90).resize((width, height))
    down = Image.linear_gradient("L").resize((width, height))
    picture = Image.merge("RGB", (across, down, Image.new("L", (width, height), 90)))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((width // 10, height // 8, width // 3, height // 3), fill=(230, 40, 40))
    draw.ellipse((width // 2, height // 2, width * 3 // 4, height * 7 // 8), fill=(30, 60, 220))
    return picture


def encoded(picture: Image.Image, file_format: str, **options: object) -> bytes:
    """Returns the picture's bytes in any format that Pillow writes."""
    out = io.BytesIO()
    picture.save(out, file_format, **options)
    return out.getvalue()


def encoded_scene(width: int, height: int, file_format: str) -> bytes:
    """Returns `scene` in a format; for callers that must not load Pillow and call it in a child."""
    return encoded(scene(width, height), file_format)


def stored_turned(picture: Image.Image, orientation: int) -> Image.Image:
    """Returns the picture as a camera stores it that relies on `orientation`, 1-8, being applied."""
    turn = TURNS[orientation]
    return picture if turn is None else picture.transpose(turn)


def exif_block(orientation: int, *, as_byte: bool = False, broken_rational: bool = False) -> bytes:
    """Returns an EXIF block (with its `Exif` lead) that holds an orientation.

    Args:
        orientation: any value.
        as_byte: store it as one raw byte, not as a short.
        broken_rational: add a signed rational of -1/0.
    """
    entries = [
        struct.pack("<HHI4s", 0x0112, 1 if as_byte else 3, 1, struct.pack("<B3x" if as_byte else "<H2x", orientation))
    ]
    if broken_rational:
        entries.append(struct.pack("<HHII", 0x9204, 10, 1, 8 + 2 + 2 * 12 + 4))
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + struct.pack("<I", 0)
    tail = struct.pack("<ii", -1, 0) if broken_rational else b""
    return b"Exif\0\0II*\0" + struct.pack("<I", 8) + directory + tail


def jpeg_with_exif(picture: Image.Image, block: bytes) -> bytes:
    """Returns a JPEG with an EXIF segment of any content right after its start."""
    plain = encoded(picture, "JPEG", quality=95, subsampling=0)
    return plain[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + plain[2:]


def jpeg_declaring(data: bytes, width: int, height: int) -> bytes:
    """Returns a JPEG whose frame header declares another size."""
    at = min(found for marker in (b"\xff\xc0", b"\xff\xc2") if (found := data.find(marker)) >= 0)
    return data[: at + 5] + struct.pack(">HH", height, width) + data[at + 9 :]


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Returns one PNG chunk with its length and checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_of(width: int, height: int, *, bits: int, color_type: int, rows: list[bytes], extra: bytes = b"") -> bytes:
    """Returns a PNG from raw samples.

    Args:
        width: pixels across.
        height: pixels down.
        bits: bits a sample.
        color_type: 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGBA.
        rows: samples of each row, packed as PNG packs them.
        extra: chunks between the header and the data.
    """
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = [png_chunk(b"IHDR", header), extra, png_chunk(b"IDAT", data), png_chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
