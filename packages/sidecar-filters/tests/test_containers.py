"""Where files end, and how large they say they are, read from their bytes alone."""

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sidecar_filters.containers import read_container, sniff
from sidecar_filters.jpeg import read_jpeg
from sidecar_filters.testing.pictures import encoded, png_chunk, saved, scene
from sidecar_filters.tiff import read_tiff

KINDS = ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "JPEG2000", "AVIF"]
WHOLE = {kind: encoded(scene(61, 43), kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_format_size_and_end(kind):
    container = read_container(WHOLE[kind])
    assert container.format == kind
    assert container.size == (61, 43)
    assert container.end == len(WHOLE[kind])
    assert not container.truncated
    assert container.problems == []


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_is_noticed(kind):
    data = WHOLE[kind]
    for cut in range(len(data) // 3, len(data), max(1, len(data) // 50)):
        container = read_container(data[:cut])
        assert container.truncated, cut
        assert container.problems, cut


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(KINDS), st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8), st.floats(0, 1)
)
def test_no_damage_raises(kind, changes, kept):
    data = bytearray(WHOLE[kind])
    for where, value in changes:
        data[int(where * len(data))] = value
    read_container(bytes(data[: int(kept * len(data)) + 1]))


@given(st.binary(max_size=200))
def test_no_bytes_raise(data):
    read_container(data)
    for start in (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"II*\0", b"MM\0+", b"BM"):
        read_container(start + data)


def test_a_loop_of_tiff_directories_ends():
    looping = b"II*\0\x08\0\0\0" + b"\0\0" + struct.pack("<I", 8)
    assert read_tiff(looping).end == 14


@pytest.mark.parametrize("order", ["<", ">"])
def test_bigtiff(order):
    mark = b"II" if order == "<" else b"MM"
    entries = [(256, 3, 1, 7), (257, 3, 1, 5), (274, 3, 1, 6)]
    body = struct.pack(order + "Q", len(entries))
    for tag, kind, count, value in entries:
        body += struct.pack(order + "HHQ", tag, kind, count) + struct.pack(order + "H", value).ljust(8, b"\0")
    data = mark + struct.pack(order + "HHHQ", 43, 8, 0, 16) + body + struct.pack(order + "Q", 0)
    tiff = read_tiff(data)
    assert (tiff.size, tiff.orientation, tiff.end) == ((7, 5), 6, len(data))


def test_animation_and_transparency():
    frames = [Image.fromarray(scene(20, 10, seed)) for seed in (1, 2)]
    for kind in ("PNG", "WEBP"):
        target = io.BytesIO()
        frames[0].save(target, kind, save_all=True, append_images=frames[1:])
        assert read_container(target.getvalue()).animated
        assert not read_container(encoded(scene(20, 10), kind)).animated
        assert read_container(saved(frames[0].convert("RGBA"), "PNG")).transparent
    assert read_container(saved(frames[0].quantize(), "PNG", transparency=3)).transparent


def test_a_chunk_that_claims_gigabytes_is_beyond_the_end():
    png = WHOLE["PNG"]
    claiming = png[:33] + struct.pack(">I4s", 2**31 - 1, b"tEXt") + b"x"
    assert "beyond the end" in read_container(claiming).problems[0]


def test_a_wrong_checksum_is_a_problem():
    png = WHOLE["PNG"]
    chunk = png_chunk(b"tEXt", b"a\0b")
    assert read_container(png[:33] + chunk + png[33:]).problems == []
    assert "checksum" in read_container(png[:33] + chunk[:-1] + b"\0" + png[33:]).problems[0]


def test_jpeg_fill_bytes_restarts_and_thumbnails_are_no_ends():
    plain = encoded(scene(64, 64))
    thumbnail = encoded(scene(8, 8))
    exif = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    for data in (plain[:2] + b"\xff" * 5 + plain[2:], plain[:2] + exif + plain[2:]):
        jpeg = read_jpeg(data)
        assert (jpeg.width, jpeg.height, jpeg.end) == (64, 64, len(data))
        assert jpeg.problems == []
    restarts = encoded(scene(64, 64), restart_marker_blocks=1)
    assert b"\xff\xd3" in restarts
    assert read_jpeg(restarts).end == len(restarts)
    cut = plain[:2] + exif + plain[2:-400]
    assert read_jpeg(cut).end is None


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", None),
        (b"<svg", None),
        (b"BM not a bitmap at all", None),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIF"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0avifmif1miaf", "AVIF"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0isommp42", None),
        (b"\xff\x0a\0\0", "JXL"),
        (b"\0\0\1\0\1\0", "ICO"),
        (b"8BPS\0\1", "PSD"),
        (b"%PDF-1.7", "PDF"),
        (b"qoif\0\0", "QOI"),
        (b"DDS |\0\0\0", "DDS"),
        (b"DDS is a format for textures", None),
        (b"BLP2\1\0", "BLP"),
    ],
)
def test_signatures(start, expected):
    assert sniff(start) == expected


def scan_starts(data):
    return [at for at in range(len(data)) if data.startswith(b"\xff\xda", at)]


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
def test_a_progressive_jpeg_that_lacks_scans_is_cut_short(subsampling):
    data = encoded(scene(64, 48), progressive=True, subsampling=subsampling)
    starts = scan_starts(data)
    assert len(starts) == 10
    for start in starts[1:]:
        container = read_container(data[:start] + b"\xff\xd9")
        assert container.truncated
        assert container.end == start + 2
        assert "missing" in container.problems[0]
    without_one = data[: starts[4]] + data[starts[5] :]
    assert read_container(without_one).truncated
    assert not read_container(data).truncated


def test_a_jpeg_that_lacks_a_component_s_scan_is_cut_short():
    """As written with one scan a component: here all three scans are headers alone, which is what counts."""
    head = encoded(scene(64, 48))
    head = head[: scan_starts(head)[0]]
    scans = [b"\xff\xda\0\x08\x01" + bytes([number, 0, 0, 63, 0]) + b"\x12" * 9 for number in (1, 2, 3)]
    assert not read_container(head + b"".join(scans) + b"\xff\xd9").truncated
    assert read_container(head + b"".join(scans[:2]) + b"\xff\xd9").truncated


def test_a_jpeg_without_any_scan_is_not_called_cut_short():
    head = encoded(scene(64, 48))
    assert not read_container(head[: scan_starts(head)[0]] + b"\xff\xd9").truncated
