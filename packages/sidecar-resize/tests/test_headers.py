"""What is read from headers alone."""

from __future__ import annotations

import struct
import zlib

import pytest
from PIL import Image
from sidecar_core.reasons import Reason
from sidecar_resize.headers import UnusableImageError, read_header
from sidecar_resize.headers.sniff import describe_other, sniff_format
from sidecar_resize.headers.tags import exif_orientation
from sidecar_resize.testing.pictures import encoded, exif_block, jpeg_declaring, png_chunk, scene


def refusal(data):
    with pytest.raises(UnusableImageError) as caught:
        read_header(data)
    return caught.value


def cut_of(data):
    """Why the file counts as cut, whether its header could be read or not."""
    try:
        return read_header(data).cut
    except UnusableImageError as problem:
        return problem.detail if problem.reason is Reason.TRUNCATED else None


@pytest.mark.parametrize(
    ("file_format", "name"),
    [
        ("JPEG", "JPEG"),
        ("PNG", "PNG"),
        ("GIF", "GIF"),
        ("WEBP", "WEBP"),
        ("TIFF", "TIFF"),
        ("BMP", "BMP"),
        ("AVIF", "AVIF"),
        ("JPEG2000", "JPEG2000"),
        ("PPM", "PPM"),
    ],
)
def test_formats_are_told_by_their_bytes_and_whole_files_are_whole(file_format, name):
    header = read_header(encoded(scene(64, 48), file_format))
    assert header.source_format == name
    assert header.cut is None
    assert header.notes == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<!DOCTYPE html><html>", "an HTML page"),
        (b"\n <?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "an XML document"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
        (b"\0\1\2\3", "begins with"),
        (b"BM hello world, this is text that is long enough for a bitmap's header", "begins with b'BM hello"),
        (b"BMW 320i Touring", "begins with"),
        (b"P1 is the first priority\n", "begins with"),
        (b"P6 hello", "begins with"),
        (b"P2 4 all", "begins with"),
        (b"P3\n# a remark\nand text", "begins with"),
        (b"DDS is a service that distributes data", "begins with"),
    ],
)
def test_what_is_no_picture_is_named(data, said):
    assert sniff_format(data) is None
    assert said in describe_other(data)
    assert refusal(data).reason is Reason.NOT_AN_IMAGE


@pytest.mark.parametrize("header_bytes", [12, 16, 40, 52, 56, 64, 108, 124])
def test_every_bitmap_header_is_known(header_bytes):
    assert sniff_format(b"BM" + bytes(12) + struct.pack("<I", header_bytes)) == "BMP"


@pytest.mark.parametrize(
    "data", [b"P1 2 2\n0110", b"P4\n8\t1\n\0", b"P6#by hand\n# and more\r 4 # wide\n4\n255\n", b"P5\v1\f1\r255 \0"]
)
def test_portable_pixmaps_are_known_with_remarks_and_any_white_space(data):
    assert sniff_format(data) == "PPM"


def test_formats_without_a_reader_are_named():
    problem = refusal(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    assert (problem.reason, problem.detail) == (Reason.DECODE_FAILED, "HEIC is a format that is not read")


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "AVIF", "JPEG2000"])
def test_a_cut_file_is_known_to_be_cut(file_format):
    data = encoded(scene(200, 150), file_format)
    for kept in (0.3, 0.6, 0.95):
        assert cut_of(data[: int(len(data) * kept)])


@pytest.mark.parametrize(("file_format", "lost"), [("JPEG", 1), ("PNG", 1), ("PNG", 13), ("GIF", 1), ("WEBP", 2)])
def test_a_few_bytes_less_are_noticed(file_format, lost):
    data = encoded(scene(200, 150), file_format)
    assert read_header(data[:-lost]).cut


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP"])
def test_a_tail_after_the_end_is_nothing(file_format):
    data = encoded(scene(64, 48), file_format)
    header = read_header(data + b"tail" * 100)
    assert header.cut is None
    assert b"tail" not in header.payload


def test_declared_pixels_come_from_the_header():
    jpeg = jpeg_declaring(encoded(scene(64, 48), "JPEG"), 30_000, 30_000)
    assert read_header(jpeg).declared_px == 900_000_000
    gif = encoded(scene(64, 48), "GIF")
    assert read_header(gif[:6] + struct.pack("<HH", 60_000, 60_000) + gif[10:]).declared_px == 3_600_000_000


def test_text_bombs_and_broken_hints_never_reach_the_decoder():
    plain = encoded(scene(64, 48), "PNG")
    bomb = png_chunk(b"zTXt", b"key\0\0" + zlib.compress(bytes(20_000_000)))
    hints = png_chunk(b"sRGB", b"") + png_chunk(b"cHRM", b"\0") + png_chunk(b"gAMA", b"")
    header = read_header(plain[:33] + bomb + hints + plain[33:])
    assert len(header.payload) <= len(plain)
    assert header.cut is None


def test_a_profile_bomb_is_ignored_and_said():
    plain = encoded(scene(64, 48), "PNG")
    bomb = png_chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(50_000_000)))
    header = read_header(plain[:33] + bomb + plain[33:])
    assert header.profile is None
    assert header.notes == ["profile ignored: it cannot be unpacked"]


def test_wrong_checksums_on_pixels_are_damage():
    data = bytearray(encoded(scene(64, 48), "PNG"))
    data[data.find(b"IDAT") + 20] ^= 1
    problem = refusal(bytes(data))
    assert (problem.reason, problem.detail) == (Reason.DECODE_FAILED, "checksum wrong in IDAT")


def test_animated_pngs_give_their_still_picture_and_survive_damage_behind_it():
    frames = [scene(64, 48), scene(64, 48).transpose(Image.Transpose.ROTATE_180)]
    data = encoded(frames[0], "PNG", save_all=True, append_images=frames[1:])
    header = read_header(data)
    assert header.frames == 2
    assert b"fdAT" not in header.payload
    damaged = bytearray(data)
    damaged[data.find(b"fdAT") - 2] ^= 0x10  # its length
    assert read_header(bytes(damaged)).cut is None
    assert read_header(data[: data.find(b"fdAT") + 40]).cut


def test_a_progressive_jpeg_without_its_last_scans_is_cut_though_it_ends_properly():
    data = encoded(scene(64, 48), "JPEG", progressive=True)
    last_scan = data.rfind(b"\xff\xda")
    tables = data.rfind(b"\xff\xc4", 0, last_scan)
    assert read_header(data).cut is None
    assert read_header(data[:tables] + b"\xff\xd9").cut == "lacks the last scans of a progressive JPEG"


@pytest.mark.parametrize("value", [0, 9, 99])
def test_orientations_out_of_range_are_none(value):
    assert exif_orientation(exif_block(value)) is None


def test_orientation_stored_as_a_byte_counts_and_other_tags_do_not_matter():
    assert exif_orientation(exif_block(8, as_byte=True)) == 8
    assert exif_orientation(exif_block(6, broken_rational=True)) == 6
    assert exif_orientation(exif_block(6)[:-3]) == 6
    assert exif_orientation(b"Exif\0\0II") is None
    assert exif_orientation(b"Exif\0\0XX*\0\0\0\0\0") is None


@pytest.mark.parametrize("number", [0, 1, 43, 0x2A00, 0x132A])
def test_exif_with_another_number_than_42_in_its_header_is_none(number):
    block = exif_block(6)
    assert exif_orientation(block[:8] + struct.pack("<H", number) + block[10:]) is None


def test_exif_behind_the_scan_is_none():
    data = encoded(scene(64, 48), "JPEG")
    block = exif_block(6)
    segment = b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block
    scan = data.index(b"\xff\xda")
    assert read_header(data[:-2] + segment + data[-2:]).orientation is None
    assert read_header(data[:scan] + segment + data[scan:]).orientation == 6


def test_a_broken_jpeg_profile_is_ignored_and_said():
    part = b"ICC_PROFILE\0\1\2" + bytes(100)  # part 1 of 2, and no part 2
    plain = encoded(scene(64, 48), "JPEG")
    header = read_header(plain[:2] + b"\xff\xe2" + struct.pack(">H", len(part) + 2) + part + plain[2:])
    assert header.profile is None
    assert header.notes == ["profile ignored: its parts are missing, doubled or too long"]
