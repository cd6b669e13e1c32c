"""Headers are read without decoding a pixel."""

import struct

import cv2
import pytest
from PIL import Image, ImageFile, PngImagePlugin
from sidecar_filters.base import Picture
from sidecar_filters.filters.exif_metadata import measure_exif_metadata
from sidecar_filters.filters.exif_rotation import measure_exif_rotation
from sidecar_filters.testing.pictures import broken_files, encoded, png_chunk, saved, scene

KINDS = ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "JPEG2000", "AVIF", "PPM"]


@pytest.fixture
def nothing_decodes(monkeypatch):
    """Whoever decodes fails."""

    def fail(*_, **__):
        raise AssertionError("a pixel was decoded")

    monkeypatch.setattr(Image.core, "new", fail)
    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", fail)
    monkeypatch.setattr(cv2, "imdecode", fail)


def with_exif_behind_the_pixels(png, orientation):
    block = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHHI", 0x0112, 3, 1, orientation, 0, 0)
    return png[:-12] + png_chunk(b"eXIf", block) + png[-12:]


PICTURES = {kind: encoded(scene(40, 30), kind) for kind in KINDS}
EXIF = Image.Exif()
EXIF[0x0112] = 5
ORIENTED = {kind: saved(Image.fromarray(scene(40, 30)), kind, exif=EXIF) for kind in ("JPEG", "PNG", "WEBP", "TIFF")}
LATE = with_exif_behind_the_pixels(PICTURES["PNG"], 6)
LATE_XMP = PICTURES["PNG"][:-12] + png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x/>") + PICTURES["PNG"][-12:]


@pytest.mark.parametrize("kind", KINDS)
def test_no_format_s_header_decodes(kind, nothing_decodes):
    found = measure_exif_metadata(Picture(PICTURES[kind]))
    assert (found["width"], found["height"], found["format"]) == (40, 30, kind)
    assert measure_exif_rotation(Picture(PICTURES[kind]))["orientation"] is None


@pytest.mark.parametrize("kind", ORIENTED)
def test_orientations_are_read_without_decoding(kind, nothing_decodes):
    assert measure_exif_rotation(Picture(ORIENTED[kind]))["orientation"] == 5


def test_what_stands_behind_a_png_s_pixels_is_found_without_decoding_them(nothing_decodes):
    assert measure_exif_rotation(Picture(LATE))["orientation"] == 6
    assert measure_exif_metadata(Picture(LATE_XMP))["has_xmp"] is True


@pytest.mark.parametrize("name", ["jpeg of 900 megapixels", "png of 900 megapixels", "png cut", "jpeg cut in its scan"])
def test_headers_of_what_cannot_be_decoded(name, nothing_decodes):
    assert measure_exif_metadata(Picture(BROKEN[name]))["width"] in (320, 30_000)


BROKEN = broken_files()


def test_pillow_s_own_orientation_is_not_applied_twice():
    picture = Picture(ORIENTED["TIFF"])
    assert (picture.header.width, picture.header.height) == (40, 30)
    assert picture.full.shape == (30, 40, 3)


def test_what_pillow_does_not_read_has_the_size_that_its_bytes_say():
    jpeg = PICTURES["JPEG"]
    odd = jpeg[:2] + b"\xff\xe0\x00\x02" + jpeg[2:]  # an empty APP0, at which Pillow gives up
    header = Picture(odd).header
    assert (header.format, header.width, header.height) == ("JPEG", 40, 30)
