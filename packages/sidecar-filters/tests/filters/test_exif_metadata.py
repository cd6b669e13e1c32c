"""Header values of every type that real cameras, and fuzzers, write: each comes out plain, or null."""

import io
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin
from sidecar_filters import struct_type
from sidecar_filters.base import Picture
from sidecar_filters.filters.exif_metadata import (
    ai_source,
    measure_exif_metadata,
    number,
    text,
    timestamp,
    whole_number,
)
from sidecar_filters.testing.pictures import encoded, saved, scene

BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED, SIGNED_RATIONAL, FLOAT, DOUBLE = 1, 2, 3, 4, 5, 7, 10, 11, 12
MAKE, MODEL, SOFTWARE = 0x010F, 0x0110, 0x0131
EXPOSURE, F_NUMBER, ISO, FOCAL_LENGTH, TAKEN, TAKEN_OFFSET, LENS = (
    0x829A,
    0x829D,
    0x8827,
    0x920A,
    0x9003,
    0x9011,
    0xA434,
)


def directory(entries, start):
    """Returns the bytes of a TIFF directory at `start`: entries are (tag, type, count, value bytes)."""
    head = struct.pack("<H", len(entries))
    values = b""
    where = start + 2 + 12 * len(entries) + 4
    for tag, kind, count, value in sorted(entries):
        if len(value) <= 4:
            head += struct.pack("<HHI", tag, kind, count) + value.ljust(4, b"\0")
        else:
            head += struct.pack("<HHII", tag, kind, count, where + len(values))
            values += value
    return head + b"\0\0\0\0" + values


def exif_block(main=(), exif=()):
    """Returns an EXIF block whose entries may be as wrong as they like."""
    length = len(directory([*main, (0x8769, LONG, 1, b"\0\0\0\0")], 8))
    first = directory([*main, (0x8769, LONG, 1, struct.pack("<I", 8 + length))], 8)
    return b"Exif\0\0II*\0\x08\0\0\0" + first + directory(list(exif), 8 + len(first))


def metadata(main=(), exif=(), kind="JPEG", **options):
    data = saved(Image.fromarray(scene(40, 30)), kind, exif=exif_block(main, exif), **options)
    return measure_exif_metadata(Picture(data))


def rational(numerator, denominator):
    return struct.pack("<ii" if min(numerator, denominator) < 0 else "<II", numerator, denominator)


def test_a_camera_s_values():
    found = metadata(
        [(MAKE, ASCII, 6, b"Nikon\0"), (MODEL, ASCII, 4, b"D90\0"), (SOFTWARE, ASCII, 4, b"1.0\0")],
        [
            (EXPOSURE, RATIONAL, 1, rational(1, 250)),
            (F_NUMBER, RATIONAL, 1, rational(28, 10)),
            (ISO, SHORT, 1, struct.pack("<H", 400)),
            (FOCAL_LENGTH, RATIONAL, 1, rational(50, 1)),
            (TAKEN, ASCII, 20, b"2021:03:04 05:06:07\0"),
            (TAKEN_OFFSET, ASCII, 7, b"+02:00\0"),
            (LENS, ASCII, 8, b"50mm f2\0"),
        ],
    )
    expected = {
        "width": 40,
        "height": 30,
        "format": "JPEG",
        "mode": "RGB",
        "frames": 1,
        "make": "Nikon",
        "model": "D90",
        "lens": "50mm f2",
        "software": "1.0",
        "datetime_original": "2021-03-04T05:06:07+02:00",
        "exposure_time_s": pytest.approx(1 / 250),
        "f_number": pytest.approx(2.8),
        "iso": 400,
        "focal_length_mm": 50,
        "has_gps": False,
        "has_icc_profile": False,
        "icc_description": None,
        "has_xmp": False,
        "xmp_ai_source": None,
    }
    assert found == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((RATIONAL, 1, rational(1, 0)), None),
        ((RATIONAL, 1, rational(0, 0)), None),
        ((SIGNED_RATIONAL, 1, rational(-1, 0)), None),
        ((SIGNED_RATIONAL, 1, rational(-1, 3)), None),
        ((RATIONAL, 1, rational(0, 5)), 0),
        ((RATIONAL, 2, rational(1, 4) + rational(1, 2)), 0.25),
        ((ASCII, 4, b"1/8\0"), None),
        ((UNDEFINED, 4, b"\x01\x02\x03\x04"), None),
        ((SHORT, 1, struct.pack("<H", 2)), 2),
        ((LONG, 1, struct.pack("<I", 2**32 - 1)), 2**32 - 1),
        ((FLOAT, 1, struct.pack("<f", math.nan)), None),
        ((FLOAT, 1, struct.pack("<f", math.inf)), None),
        ((DOUBLE, 1, struct.pack("<d", 1e300)), None),
        ((DOUBLE, 1, struct.pack("<d", 0.5)), 0.5),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_number_of_any_type_is_a_number_or_null(value, expected, kind):
    found = metadata(exif=[(EXPOSURE, *value)], kind=kind)
    assert found["exposure_time_s"] == (None if expected is None else pytest.approx(expected))
    pa.array([found], struct_type("exif_metadata"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((SHORT, 1, struct.pack("<H", 65535)), 65535),
        ((SHORT, 2, struct.pack("<HH", 200, 0)), 200),
        ((LONG, 1, struct.pack("<I", 2**31)), None),
        ((RATIONAL, 1, rational(401, 2)), None),
        ((RATIONAL, 1, rational(400, 2)), 200),
        ((ASCII, 4, b"400\0"), None),
        ((BYTE, 1, b"\x64"), None),
    ],
)
def test_a_whole_number_of_any_type_is_one_or_null(value, expected):
    assert metadata(exif=[(ISO, *value)])["iso"] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((ASCII, 12, b"  Canon \0junk"), "Canon"),
        ((UNDEFINED, 6, b"Canon\0"), "Canon"),
        ((ASCII, 6, b"Caf\xc3\xa9\0"), "Café"),
        ((ASCII, 5, b"Caf\xe9\0"), "Café"),
        ((ASCII, 1, b"\0"), None),
        ((ASCII, 4, b"   \0"), None),
        ((SHORT, 1, struct.pack("<H", 7)), None),
        ((RATIONAL, 1, rational(1, 3)), None),
        ((ASCII, 50_001, b"x" * 50_000 + b"\0"), "x" * 256),
        ((ASCII, 2**31, b"\xff\xff\xff\x7f"), None),
    ],
)
def test_text_of_any_type_is_text_or_null(value, expected):
    found = metadata([(MAKE, *value)])
    assert found["make"] == expected
    pa.array([found], struct_type("exif_metadata"))


def test_megabytes_of_text_are_cut():
    assert text("é" * 3_000_000) == "é" * 256
    assert text(b"\xe2\x82\xac" * 1_000_000) == "€" * 256


@given(st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.none(), st.tuples(st.integers(), st.text())))
def test_any_value_becomes_what_arrow_takes(value):
    made = (text(value), number(value), whole_number(value), timestamp(value))
    types = (pa.string(), pa.float32(), pa.int32(), pa.string())
    for result, dtype in zip(made, types, strict=True):
        (back,) = pa.array([result], dtype).to_pylist()
        assert back is None or not isinstance(back, float) or math.isfinite(back)
    assert made[0] is None or (0 < len(made[0]) <= 256 and "\0" not in made[0])


@pytest.mark.parametrize(
    ("value", "offset", "expected"),
    [
        ("2020:02:30 10:00:00", None, None),
        ("0000:00:00 00:00:00", None, None),
        ("    :  :     :  :  ", None, None),
        ("2020:02:03 24:00:00", None, None),
        ("2020:02:03 04:05:06", None, "2020-02-03T04:05:06"),
        ("2020-02-03T04:05:06", None, "2020-02-03T04:05:06"),
        ("2020:02:03 04:05:06", "-03:30", "2020-02-03T04:05:06-03:30"),
        ("2020:02:03 04:05:06", "nonsense", "2020-02-03T04:05:06"),
        (b"2020:02:03 04:05:06\0", b"", "2020-02-03T04:05:06"),
        (20200203, None, None),
    ],
)
def test_times(value, offset, expected):
    assert timestamp(value, offset) == expected


def test_directories_that_loop_or_lead_nowhere_cost_their_own_values_only():
    loop = b"Exif\0\0II*\0\x08\0\0\0\x02\0" + struct.pack("<HHI", MAKE, ASCII, 4) + b"abc\0"
    loop += struct.pack("<HHII", 0x8769, LONG, 1, 8) + struct.pack("<I", 8)
    nowhere = b"Exif\0\0II*\0\x08\0\0\0\x02\0" + struct.pack("<HHI", MAKE, ASCII, 4) + b"abc\0"
    nowhere += struct.pack("<HHII", 0x8769, LONG, 1, 0xFFFFFF) + b"\0\0\0\0"
    for block in (loop, nowhere, b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0garbage of no order"):
        found = measure_exif_metadata(Picture(saved(Image.fromarray(scene(20, 10)), "JPEG", exif=block)))
        assert (found["width"], found["height"]) == (20, 10)
        assert found["make"] in ("abc", None)
    assert measure_exif_metadata(Picture(saved(Image.fromarray(scene(20, 10)), "JPEG", exif=nowhere)))["make"] == "abc"


def test_a_place_is_recorded_only_when_there_is_one():
    image = Image.fromarray(scene(20, 10))
    for entries, expected in (({}, False), ({29: "2020:01:01"}, False), ({1: "N", 2: (52.0, 1.0, 2.0)}, True)):
        exif = Image.Exif()
        exif.get_ifd(0x8825).update(entries)
        assert measure_exif_metadata(Picture(saved(image, "JPEG", exif=exif)))["has_gps"] is expected


def test_color_profiles():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    found = measure_exif_metadata(Picture(encoded(scene(), icc_profile=profile)))
    assert found["has_icc_profile"] is True
    assert "sRGB" in found["icc_description"]
    found = measure_exif_metadata(Picture(encoded(scene(), icc_profile=b"no profile at all")))
    assert (found["has_icc_profile"], found["icc_description"]) == (True, None)


ATTRIBUTE = 'Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/%s"'
ELEMENT = "<Iptc4xmpExt:DigitalSourceType>%s</Iptc4xmpExt:DigitalSourceType>"
RESOURCE = "<x:DigitalSourceType rdf:resource='https://cv.iptc.org/newscodes/digitalsourcetype/%s'/>"


@pytest.mark.parametrize("form", [ATTRIBUTE, ELEMENT, RESOURCE])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trainedAlgorithmicMedia", "trainedAlgorithmicMedia"),
        ("compositeWithTrainedAlgorithmicMedia", "compositeWithTrainedAlgorithmicMedia"),
        ("algorithmicMedia", "algorithmicMedia"),
        ("digitalCapture", None),
        ("humanEdits", None),
    ],
)
def test_xmp_that_says_that_an_algorithm_made_it(form, name, expected):
    packet = f"<x:xmpmeta><rdf:Description {form % name}/></x:xmpmeta>".encode()
    found = measure_exif_metadata(Picture(encoded(scene(), xmp=packet)))
    assert (found["has_xmp"], found["xmp_ai_source"]) == (True, expected)


def test_xmp_in_a_png_and_none_elsewhere():
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", "<x " + ATTRIBUTE % "trainedAlgorithmicMedia" + "/>")
    found = measure_exif_metadata(Picture(encoded(scene(), "PNG", pnginfo=info)))
    assert (found["has_xmp"], found["xmp_ai_source"]) == (True, "trainedAlgorithmicMedia")
    assert ai_source([b"a text about trainedAlgorithmicMedia"]) is None


@pytest.mark.parametrize(
    ("mode", "kind", "frames"), [("L", "PNG", 1), ("CMYK", "TIFF", 1), ("P", "GIF", 3), ("RGBA", "PNG", 3)]
)
def test_format_mode_and_frames(mode, kind, frames):
    images = [Image.fromarray(scene(30, 20, seed)).convert(mode) for seed in range(frames)]
    data = io.BytesIO()
    images[0].save(data, kind, **({"save_all": True, "append_images": images[1:]} if frames > 1 else {}))
    found = measure_exif_metadata(Picture(data.getvalue()))
    assert (found["format"], found["mode"], found["frames"]) == (kind, mode, frames)


def test_sizes_are_as_stored():
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG", "WEBP", "TIFF"):
        found = measure_exif_metadata(Picture(saved(Image.fromarray(scene(40, 30)), kind, exif=exif)))
        assert (found["width"], found["height"]) == (40, 30), kind


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_no_exif_block_raises(block):
    data = saved(Image.fromarray(scene(16, 16)), "JPEG", exif=b"Exif\0\0" + block)
    pa.array([measure_exif_metadata(Picture(data))], struct_type("exif_metadata"))
