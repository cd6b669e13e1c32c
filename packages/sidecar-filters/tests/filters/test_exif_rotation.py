"""Orientation: what it says, and that following it gives the upright picture."""

import struct

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin
from sidecar_filters.base import Picture
from sidecar_filters.decode import to_stored, upright
from sidecar_filters.filters.exif_rotation import measure_exif_rotation
from sidecar_filters.filters.fingerprint import measure_fingerprint
from sidecar_filters.testing.pictures import png_chunk, saved, scene

KINDS = ["JPEG", "PNG", "WEBP", "TIFF"]


def oriented(value, kind="JPEG", size=(40, 24), tag_type=None):
    image = Image.fromarray(scene(*size))
    exif = Image.Exif()
    exif[0x0112] = value
    if tag_type == "byte":
        data = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x07\0\x01\0\0\0" + bytes([value, 0, 0, 0]) + b"\0\0\0\0"
        return saved(image, kind, exif=data)
    return saved(image, kind, exif=exif)


def rotation(data):
    return measure_exif_rotation(Picture(data))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_mirroring_then_rotating_as_it_says_gives_what_pillow_shows_upright(orientation, kind):
    data = oriented(orientation, kind)
    found = rotation(data)
    assert found["orientation"] == orientation
    stored = scene(40, 24)
    turned = stored[:, ::-1] if found["mirrored"] else stored
    turned = np.rot90(turned, -found["rotation_degrees"] // 90)
    image = Image.fromarray(stored)
    exif = image.getexif()
    exif[0x0112] = orientation
    assert (turned == np.asarray(ImageOps.exif_transpose(image))).all()
    assert found["swaps_dimensions"] == (turned.shape != stored.shape)
    assert (upright(stored, orientation) == turned).all()
    assert (to_stored(turned, orientation) == stored).all()


def test_without_a_tag_it_is_upright():
    expected = {"orientation": None, "mirrored": False, "rotation_degrees": 0, "swaps_dimensions": False}
    assert rotation(saved(Image.fromarray(scene()), "JPEG")) == expected


@pytest.mark.parametrize("value", [0, 9, 99, 65535])
@pytest.mark.parametrize("kind", KINDS)
def test_other_numbers_are_no_orientation(value, kind):
    found = rotation(oriented(value, kind))
    assert (found["orientation"], found["rotation_degrees"], found["mirrored"]) == (None, 0, False)


def test_a_raw_byte_is_a_number_too():
    assert rotation(oriented(8, tag_type="byte"))["orientation"] == 8
    assert rotation(oriented(9, tag_type="byte"))["orientation"] is None


XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="%d"/></rdf:RDF></x:xmpmeta>'
)


def with_text_orientation(kind, value, exif=None):
    """A picture whose XMP (for `PNG text`: whose text chunk) says how to turn it."""
    image = Image.fromarray(scene(40, 24))
    xmp = XMP % value
    options = {"exif": exif} if exif else {}
    if kind == "JPEG":
        jpeg = saved(image, kind, **options)
        body = b"http://ns.adobe.com/xap/1.0/\0" + xmp
        return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]
    if kind in ("PNG", "PNG text"):
        info = PngImagePlugin.PngInfo()
        if kind == "PNG":
            info.add_itxt("XML:com.adobe.xmp", xmp.decode())
        else:
            block = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([value]) + b"\0" * 7
            info.add_text("Raw profile type exif", f"\nexif\n{len(block):8}\n{block.hex()}\n")
        return saved(image, "PNG", pnginfo=info, **options)
    return saved(image, kind, **({"tiffinfo": {700: xmp}} if kind == "TIFF" else {"xmp": xmp}), **options)


@pytest.mark.parametrize("value", [3, 6])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "PNG text", "WEBP", "TIFF", "AVIF"])
def test_what_xmp_and_text_say_of_the_orientation_does_not_count(kind, value):
    picture = Picture(with_text_orientation(kind, value))
    plain = Picture(saved(Image.fromarray(scene(40, 24)), kind.split()[0]))
    assert measure_exif_rotation(picture) == measure_exif_rotation(plain)
    assert measure_exif_rotation(picture)["orientation"] is None
    assert (picture.full == plain.full).all()
    assert measure_fingerprint(picture)["dhash"] == measure_fingerprint(plain)["dhash"]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_exif_counts_beside_xmp(kind):
    exif = Image.Exif()
    exif[0x0112] = 8
    assert rotation(with_text_orientation(kind, 6, exif))["orientation"] == 8


@pytest.mark.parametrize(("start", "expected"), [(b"II*\0", 6), (b"II\0*", None), (b"II+\0", None)])
def test_a_block_of_another_number_than_42_is_no_exif(start, expected):
    block = b"Exif\0\0" + start + b"\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06" + bytes(7)
    assert rotation(saved(Image.fromarray(scene(40, 24)), "JPEG", exif=block))["orientation"] == expected


def test_the_orientation_of_a_png_counts_that_pillow_does_not_open():
    png = saved(Image.fromarray(scene(40, 24)), "PNG")
    exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06" + bytes(7)
    odd = png[:33] + png_chunk(b"eXIf", exif) + png_chunk(b"pHYs", b"") + png_chunk(b"gAMA", b"") + png[33:]
    assert Picture(odd).header.image is None
    assert rotation(odd)["orientation"] == 6
