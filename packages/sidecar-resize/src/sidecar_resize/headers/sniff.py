"""Which format bytes are in, from their first bytes alone; file names lie."""

from __future__ import annotations

import re

_MAGIC = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"),
    (b"\xff\x4f\xff\x51", "JPEG2000"),
    (b"\xff\x0a", "JXL"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "JXL"),
    (b"8BPS", "PSD"),
    (b"DDS \x7c\0\0\0", "DDS"),
    (b"BLP1", "BLP"),
    (b"BLP2", "BLP"),
    (b"%PDF", "PDF"),
    (b"%!PS", "EPS"),
    (b"\0\0\1\0", "ICO"),
    (b"qoif", "QOI"),
    (b"\x76\x2f\x31\x01", "EXR"),
    (b"#?RADIANCE", "HDR"),
    (b"SIMPLE  =", "FITS"),
)
_BMP_HEADER_BYTES = frozenset((12, 16, 40, 52, 56, 64, 108, 124))
_PPM = re.compile(rb"P[1-6](?:[ \t-\r]|#[^\r\n]*[\r\n])+[0-9]+(?:[ \t-\r]|#[^\r\n]*[\r\n])+[0-9]")
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"hevc": "HEIC", b"mif3": "AVIF"}
_TEXT = (
    (b"version https://git-lfs", "a Git LFS pointer"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML document"),
    (b"<error", "an XML document"),
    (b"{", "JSON or other text"),
)


def sniff_format(data: bytes) -> str | None:
    """Returns the name of the format that `data` begins like, or None when it is no picture format known.

    Names of formats that are recognised but not read (HEIC, JXL, PSD, PDF and others) are returned too.
    """
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[4:8] == b"ftyp":
        return _sniff_brands(data)
    if data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADER_BYTES:
        return "BMP"
    return "PPM" if _PPM.match(data) else None  # letters that text may begin with too: width and height must follow


def describe_other(data: bytes) -> str:
    """Returns what bytes that are no picture seem to be, in a few words, for the audit."""
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for prefix, name in _TEXT:
        if start.startswith(prefix):
            return name
    return f"begins with {data[:12]!r}"


def _sniff_brands(data: bytes) -> str | None:
    size = min(int.from_bytes(data[:4], "big"), 256, len(data))
    brands = [data[8:12], *(data[at : at + 4] for at in range(16, size, 4))]
    known = [_BRANDS[brand] for brand in brands if brand in _BRANDS]
    return known[0] if known else "HEIC" if data[8:12] in (b"mif1", b"msf1") else None
