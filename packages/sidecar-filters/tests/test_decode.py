"""What is decoded, how large, and what it looks like: colours, depths, transparency, frames, orientation."""

import io
import math
import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sidecar_core.isolation import shared_pool
from sidecar_core.reasons import Reason
from sidecar_filters import decode
from sidecar_filters.base import Need, Picture, UnreadableError
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec
from sidecar_filters.registry import find_filters
from sidecar_filters.testing.pictures import (
    broken_files,
    damaged_apng,
    encoded,
    jpeg_declaring,
    png_chunk,
    saved,
    scene,
)

SIZES = st.integers(1, 100_000)


@given(SIZES, SIZES)
def test_the_analysis_size_keeps_the_shape_within_its_area(width, height):
    w, h = decode.analysis_size(width, height)
    assert w >= 1
    assert h >= 1
    assert w * h <= 512 * 512
    assert w <= width
    assert h <= height
    if width * height <= 512 * 512:
        assert (w, h) == (width, height)
    elif min(w, h) > 1:
        scale = 512 / math.sqrt(width * height)
        assert abs(w - width * scale) <= 1.001
        assert abs(h - height * scale) <= 1.001
    assert decode.analysis_size(height, width) == (h, w)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1024, 1024), (512, 512)),
        ((700, 700), (512, 512)),
        ((4000, 3000), (591, 443)),
        ((10_000_000, 1), (262_144, 1)),
        ((1, 10_000_000), (1, 262_144)),
        ((512, 512), (512, 512)),
        ((3, 2), (3, 2)),
    ],
)
def test_analysis_sizes(size, expected):
    assert decode.analysis_size(*size) == expected


@given(SIZES, SIZES)
def test_the_reduced_scale_leaves_twice_the_analysis_size(width, height):
    k = decode.reduction(width, height)
    w, h = decode.analysis_size(width, height)
    assert k == 1 or (math.ceil(width / k) >= 2 * w and math.ceil(height / k) >= 2 * h)
    if k < 8:
        assert math.ceil(width / (2 * k)) < 2 * w or math.ceil(height / (2 * k)) < 2 * h


@pytest.mark.parametrize(("size", "flag"), [((2400, 1800), "2"), ((5000, 3600), "4"), ((1500, 1000), None)])
def test_a_jpeg_is_decoded_at_the_scale_of_the_rule(size, flag):
    width, height = size
    small = cv2.GaussianBlur(scene(width // 4, height // 4), (0, 0), 1)
    data = encoded(cv2.resize(small, size))
    flags = getattr(cv2, f"IMREAD_REDUCED_COLOR_{flag}") if flag else cv2.IMREAD_COLOR_BGR
    reduced = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    expected = cv2.resize(reduced, decode.analysis_size(*size), interpolation=cv2.INTER_AREA)
    found = Picture(data).analysis
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert (found != expected).mean() < 1e-4


def test_full_luma_has_every_pixel_at_any_scale():
    for size in ((300, 200), (2400, 1800)):
        pixels = cv2.resize(scene(300, 200), size)
        data = encoded(pixels, quality=95, subsampling="4:4:4")
        luma = Picture(data).full_luma
        assert luma.shape == size[::-1]
        expected = cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2GRAY)
        assert np.abs(luma.astype(int) - expected).mean() < 0.5


def shown(data):
    """The analysis image as RGB rows."""
    return Picture(data).analysis[..., ::-1].tolist()


def test_transparency_is_composed_on_white():
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 255, 0])
    palette.putdata([0, 1])
    ((red, green),) = shown(saved(palette, "PNG", transparency=bytes([0, 128])))
    assert red == [255, 255, 255]
    assert np.abs(np.subtract(green, [127, 255, 127])).max() <= 1
    hidden = Image.new("RGBA", (1, 1), (200, 100, 50, 0))
    for kind in ("PNG", "WEBP", "TIFF"):
        assert shown(saved(hidden, kind, **({"lossless": True} if kind == "WEBP" else {}))) == [[[255, 255, 255]]]
    half = Image.new("LA", (1, 1), (0, 128))
    assert np.abs(np.subtract(shown(saved(half, "PNG"))[0][0], 127)).max() <= 1
    for mode, key, color in (("L", 7, 7), ("RGB", (1, 2, 3), (1, 2, 3))):
        keyed = saved(Image.new(mode, (1, 1), color), "PNG", transparency=key)
        assert shown(keyed) == [[[255, 255, 255]]]
    gif = Image.new("P", (1, 1))
    gif.putpalette([9, 9, 9, 200, 0, 0])
    assert shown(saved(gif, "GIF", transparency=0)) == [[[255, 255, 255]]]


def test_sixteen_bits_are_scaled_and_not_clipped():
    levels = np.array([[0, 300, 32768, 65535]], np.uint16)
    for kind in ("PNG", "TIFF"):
        assert [pixel[0] for pixel in shown(saved(Image.fromarray(levels), kind))[0]] == [0, 1, 128, 255]
    _, color = cv2.imencode(".png", np.repeat(levels[..., None], 3, axis=2))
    assert [pixel[0] for pixel in shown(color.tobytes())[0]] == [0, 1, 128, 255]
    _, portable = cv2.imencode(".pgm", levels)
    assert [pixel[0] for pixel in shown(portable.tobytes())[0]] == [0, 1, 128, 255]


def gray_tiff(values, bits, *, photometric=1, sample_format=1, order="<"):
    """A TIFF of one uncompressed strip, in a layout that Pillow does not write."""
    data = values if isinstance(values, bytes) else values.astype(values.dtype.newbyteorder(order)).tobytes()
    height, width = values.shape if not isinstance(values, bytes) else (1, 4)
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 273: 8, 277: 1, 278: height, 279: len(data)}
    tags[339] = sample_format
    entries = b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in tags.items())
    start = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8 + len(data))
    return start + data + struct.pack(order + "H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize(("dtype", "sample_format"), [("u4", 1), ("i4", 2), ("i2", 2), ("f4", 3), ("f2", 3), ("f8", 3)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_samples_without_a_known_scale_are_not_measured(dtype, sample_format, order):
    values = np.array([[0, 1, 2, 100]], dtype)
    data = gray_tiff(values, values.itemsize * 8, sample_format=sample_format, order=order)
    for needs in (Need.ANALYSIS, Need.FULL_LUMA):
        with pytest.raises(UnreadableError) as caught:
            Picture(data).provide(needs)
        assert caught.value.reason is Reason.UNSUPPORTED_MODE
    assert reasons(data, names=["luma", "integrity"]) == [{Reason.UNSUPPORTED_MODE}]


def test_floating_point_pictures_of_other_formats_have_no_known_scale():
    data = saved(Image.fromarray(np.ones((2, 2), np.float32)), "PPM")
    with pytest.raises(UnreadableError) as caught:
        Picture(data).provide(Need.ANALYSIS)
    assert caught.value.reason is Reason.UNSUPPORTED_MODE


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tiff_of_16_bits_whose_zero_is_white_is_no_negative(order):
    values = np.array([[0, 300, 32768, 65535]], np.uint16)
    assert [pixel[0] for pixel in shown(gray_tiff(values, 16, photometric=0, order=order))[0]] == [255, 254, 127, 0]
    assert [pixel[0] for pixel in shown(gray_tiff(values, 16, order=order))[0]] == [0, 1, 128, 255]
    compressed = saved(Image.fromarray(values), "TIFF", compression="tiff_lzw", tiffinfo={262: 0})
    assert [pixel[0] for pixel in shown(compressed)[0]] == [255, 254, 127, 0]


def test_twelve_bits_are_scaled_by_twelve_bits():
    """Of 0, 16, 2048 and 4095."""
    assert [pixel[0] for pixel in shown(gray_tiff(bytes.fromhex("000010800fff"), 12))[0]] == [0, 1, 128, 255]


def keyed_png(samples, bits, key):
    """A PNG of one row whose tRNS chunk makes a colour transparent; `samples` are packed."""
    color = 0 if len(key) == 1 else 2
    width = len(samples) * 8 // bits // len(key)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, 1, bits, color, 0, 0, 0)),
        (b"tRNS", struct.pack(f">{len(key)}H", *key)),
        (b"IDAT", zlib.compress(b"\0" + samples)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


@pytest.mark.parametrize(
    ("samples", "bits", "key", "expected"),
    [
        ("40", 1, (0,), [255] * 8),
        ("40", 1, (1,), [0, 255] + [0] * 6),
        ("1b", 2, (1,), [0, 255, 170, 255]),
        ("0837", 4, (3,), [0, 136, 255, 119]),
        ("050607", 8, (6,), [5, 255, 7]),
        ("123412991234", 16, (0x1234,), [255, 0x12, 255]),
    ],
)
def test_the_transparent_gray_of_a_png_is_white_at_any_depth(samples, bits, key, expected):
    assert [pixel[0] for pixel in shown(keyed_png(bytes.fromhex(samples), bits, key))[0]] == expected


def test_the_transparent_colour_of_a_png_is_compared_in_all_its_bits():
    hidden, high_bytes_alike = "1234456789ab", "1299459989cc"
    row = bytes.fromhex(hidden + high_bytes_alike)
    assert shown(keyed_png(row, 16, (0x1234, 0x4567, 0x89AB)))[0] == [[255] * 3, [0x12, 0x45, 0x89]]
    assert shown(keyed_png(bytes([1, 2, 3, 1, 2, 4]), 8, (1, 2, 3)))[0] == [[255] * 3, [1, 2, 4]]


def test_a_gif_is_white_where_its_first_frame_does_not_reach():
    gif = bytearray(saved(Image.new("P", (2, 1), 0), "GIF"))
    assert shown(bytes(gif)) == [[[0] * 3] * 2]
    gif[6:10] = struct.pack("<HH", 3, 2)
    assert shown(bytes(gif)) == [[[0] * 3, [0] * 3, [255] * 3], [[255] * 3] * 3]
    frame = gif.index(b",", 13 + 3 * 2)
    gif[frame + 1 : frame + 5] = struct.pack("<HH", 1, 1)
    assert shown(bytes(gif)) == [[[255] * 3] * 3, [[255] * 3, [0] * 3, [0] * 3]]


def test_cmyk_looks_like_its_rgb():
    rgb = Image.fromarray(cv2.GaussianBlur(scene(64, 48), (0, 0), 2))
    expected = np.asarray(rgb.convert("CMYK").convert("RGB")).astype(int)
    for kind in ("JPEG", "TIFF"):
        found = np.array(shown(saved(rgb.convert("CMYK"), kind)))
        assert np.abs(found - expected).mean() < 4


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "RGB", "LAB", "YCbCr"])
def test_each_mode_is_shown(mode):
    rgb = Image.fromarray(np.full((8, 8, 3), 255, np.uint8))
    image = Image.new("LAB", (8, 8), (255, 128, 128)) if mode == "LAB" else rgb.convert(mode)
    kind = "TIFF" if mode in ("LAB", "YCbCr") else "PNG"
    assert np.array(shown(saved(image, kind))).min() >= 250


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_several_frames_the_first_is_shown(kind):
    frames = [Image.new("RGB", (16, 16), color) for color in ("red", "green", "blue")]
    target = io.BytesIO()
    options = {"lossless": True} if kind == "WEBP" else {}
    frames[0].save(target, kind, save_all=True, append_images=frames[1:], **options)
    assert shown(target.getvalue())[0][0] == [255, 0, 0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [None, *range(1, 9), 99])
def test_pixels_are_in_stored_orientation(kind, orientation):
    stored = cv2.GaussianBlur(scene(48, 32), (0, 0), 1)
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    data = saved(Image.fromarray(stored[..., ::-1].copy()), kind, exif=exif)
    picture = Picture(data)
    assert (picture.header.width, picture.header.height) == (48, 32)
    assert picture.full_luma.shape == (32, 48)
    assert np.abs(picture.analysis.astype(int) - stored).mean() < 6


def test_an_animated_png_is_not_given_to_opencv(monkeypatch):
    def fail(*_):
        raise AssertionError("OpenCV was given an animated PNG")

    monkeypatch.setattr(cv2, "imdecode", fail)
    assert Picture(damaged_apng()).analysis.shape == (48, 64, 3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty", Reason.EMPTY),
        ("html", Reason.NOT_AN_IMAGE),
        ("noise", Reason.NOT_AN_IMAGE),
        ("signature only", Reason.TRUNCATED),
        ("jpeg cut in its header", Reason.TRUNCATED),
        ("jpeg cut in its scan", Reason.TRUNCATED),
        ("jpeg without its end", Reason.TRUNCATED),
        ("progressive jpeg cut", Reason.TRUNCATED),
        ("png cut", Reason.TRUNCATED),
        ("png with a bit flipped", Reason.DECODE_FAILED),
        ("webp cut", Reason.TRUNCATED),
        ("jpeg of 900 megapixels", Reason.TOO_MANY_PIXELS),
        ("png of 900 megapixels", Reason.TOO_MANY_PIXELS),
    ],
)
def test_reasons(name, reason):
    picture = Picture(broken_files()[name])
    for needs in (Need.ANALYSIS, Need.FULL_LUMA):
        with pytest.raises(UnreadableError) as caught:
            picture.provide(needs)
        assert caught.value.reason is reason
        assert caught.value.detail


def test_the_pixel_limit_is_checked_before_anything_is_decoded(monkeypatch):
    monkeypatch.setattr(decode, "_imdecode", lambda *_: pytest.fail("decoded"))
    with pytest.raises(UnreadableError, match="the limit is 9999"):
        Picture(encoded(scene(100, 100)), max_pixels=9_999).provide(Need.ANALYSIS)


def test_as_many_pixels_as_the_limit_are_decoded():
    assert Picture(encoded(scene(100, 100)), max_pixels=10_000).analysis.shape == (100, 100, 3)


def test_a_failure_is_remembered_and_not_tried_again(monkeypatch):
    """A second load after a failed one may show what was left in memory."""
    calls = []
    picture = Picture(broken_files()["png with a bit flipped"])
    real = decode.full_image
    monkeypatch.setattr(decode, "full_image", lambda p: calls.append(1) or real(p))
    for _ in range(3):
        with pytest.raises(UnreadableError):
            picture.provide(Need.ANALYSIS | Need.FULL_LUMA)
    assert len(calls) == 1


def cut_jpegs():
    """Cut anywhere, with and without an end marker put after the cut; baseline and progressive, small and reduced."""
    files = []
    for pixels in (scene(300, 200, 8), cv2.resize(scene(300, 200, 8), (2400, 1800))):
        for progressive in (False, True):
            data = encoded(pixels, progressive=progressive)
            for share in (0.1, 0.25, 0.5, 0.75, 0.97):
                start = data[: int(len(data) * share)]
                files += [start, start + b"\xff\xd9"]
    return files


def test_a_cut_jpeg_never_shows_what_was_decoded_before_it():
    names = ["luma", "saturation", "color_entropy", "jpeg_artifact", "fingerprint"]
    spec = MeasureSpec(find_filters(names))
    sizes = ((300, 200), (2400, 1800))
    before = {color: [encoded(np.full((h, w, 3), color, np.uint8)) for w, h in sizes] for color in (0, 255)}
    noise = [encoded(np.random.default_rng(w).integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in sizes]
    results = []
    for others in (before[0], before[255], noise):
        images = []
        for cut in cut_jpegs():
            images += [*others, cut]
        results.append(measure_rows(shared_pool(), images, spec, timeout_s=60)[2::3])
    assert results[0] == results[1] == results[2]


def test_a_jpeg_declared_larger_than_its_data_is_the_same_each_time():
    data = jpeg_declaring(encoded(scene(300, 200)), 1200, 900)
    spec = MeasureSpec(find_filters(["luma", "jpeg_artifact"]))
    noise = encoded(np.random.default_rng(0).integers(0, 256, (900, 1200, 3), dtype=np.uint8))
    rows = measure_rows(shared_pool(), [data, noise, data, noise, data], spec, timeout_s=60)
    assert rows[0] == rows[2] == rows[4]


def reasons(*images, names=("luma", "jpeg_artifact")):
    rows = measure_rows(shared_pool(), list(images), MeasureSpec(find_filters(list(names))), timeout_s=60)
    return [set(row.failed.values()) if row.failed else "ok" for row in rows]


def cut_and_closed(data, share):
    return data[: int(len(data) * share)] + b"\xff\xd9"


SMALL, LARGE = scene(300, 200), cv2.resize(scene(300, 200, 8), (2400, 1800))
SEQUENTIAL = {
    "small": encoded(SMALL),
    "decoded at a reduced scale": encoded(LARGE),
    "gray": encoded(SMALL[..., 0]),
    "CMYK": saved(Image.fromarray(SMALL).convert("CMYK"), "JPEG"),
    "with restart markers": encoded(SMALL, restart_marker_blocks=10),
}


@pytest.mark.parametrize("kind", SEQUENTIAL)
def test_a_jpeg_whose_data_end_before_its_last_row_is_truncated(kind):
    """Though it has an end marker, before which decoders show gray."""
    data = SEQUENTIAL[kind]
    cut = [cut_and_closed(data, share) for share in (0.3, 0.6, 0.95)]
    assert reasons(*cut, data) == [{Reason.TRUNCATED}] * 3 + ["ok"]


def test_a_progressive_jpeg_that_lacks_scans_is_truncated():
    for pixels in (SMALL, LARGE):
        data = encoded(pixels, progressive=True)
        starts = [at for at in range(len(data)) if data.startswith(b"\xff\xda", at)]
        assert len(starts) == 10
        cut = [data[:start] + b"\xff\xd9" for start in starts[1:]]
        assert reasons(*cut, data) == [{Reason.TRUNCATED}] * 9 + ["ok"]


def test_a_jpeg_with_damage_that_leaves_the_last_row_is_measured():
    """The decoder says that a part ended early, and goes on at the next restart marker."""
    data = SEQUENTIAL["with restart markers"]
    at = data.find(b"\xff\xd3")
    assert reasons(data[: at - 30] + data[at:]) == ["ok"]
    (row,) = measure_rows(
        shared_pool(), [data[: at - 30] + data[at:]], MeasureSpec(find_filters(["integrity"])), timeout_s=60
    )
    assert row.values["integrity"]["verdict"] == "damaged"


@pytest.mark.parametrize("kind", ["ICO", "DDS", "PDF", "EPS", "QOI", "BLP"])
def test_pictures_of_formats_that_are_not_read_fail_to_decode(kind):
    image = Image.fromarray(scene(64, 64)).convert("P" if kind == "BLP" else "RGB")
    names = ["luma", "exif_metadata", "integrity"]
    (row,) = measure_rows(shared_pool(), [saved(image, kind)], MeasureSpec(find_filters(names)), timeout_s=60)
    assert row.failed == dict.fromkeys(names, Reason.DECODE_FAILED)
    assert row.details == (f"{kind} is a format that is not read",)


def test_a_png_is_shown_though_chunks_without_pixels_keep_pillow_from_opening_it():
    plain = encoded(scene(40, 30), "PNG")
    odd = plain[:33] + b"".join(png_chunk(kind, b"") for kind in (b"gAMA", b"cHRM", b"pHYs", b"iCCP")) + plain[33:]
    assert Picture(odd).header.image is None
    assert (Picture(odd).full == Picture(plain).full).all()
    assert reasons(odd, names=["luma", "integrity", "fingerprint"]) == ["ok"]
