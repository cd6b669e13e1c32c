"""Pixels and audit of one row, on pictures made here."""

from __future__ import annotations

import io
import pickle
import random
import struct

import pytest
from PIL import Image, ImageChops, ImageCms, ImageStat
from sidecar_core.errors import SidecarError
from sidecar_core.reasons import Reason
from sidecar_resize.headers import UnusableImageError
from sidecar_resize.row import resize_row
from sidecar_resize.spec import PixelSpec, ResizeSpec
from sidecar_resize.testing.pictures import (
    encoded,
    exif_block,
    jpeg_declaring,
    jpeg_with_exif,
    png_chunk,
    png_of,
    scene,
    stored_turned,
)

AREA_512, AREA_1024 = 512 * 512, 1024 * 1024
LOSSLESS = PixelSpec(output_format="png")


def resized(data, *, area_px=AREA_512, **options):
    ((made, audit),) = resize_row(data, ResizeSpec((area_px,), PixelSpec(**{"output_format": "png", **options})))
    assert audit.valid == (made is not None) == (audit.reason is None)
    return (Image.open(io.BytesIO(made)) if made else None), audit


def color_at(picture, x, y):
    """The mean of a small square around a point given in fractions of the sides."""
    across, down = int(x * picture.width), int(y * picture.height)
    return tuple(
        round(mean) for mean in ImageStat.Stat(picture.crop((across - 2, down - 2, across + 3, down + 3))).mean
    )


def distance(one, other):
    assert one.size == other.size
    return max(ImageStat.Stat(ImageChops.difference(one.convert("RGB"), other.convert("RGB"))).mean)


def noise(width, height, seed=1):
    draw = random.Random(seed)
    return Image.frombytes("RGB", (width, height), draw.randbytes(width * height * 3))


# orientation


@pytest.mark.parametrize("size", [(300, 211), (211, 300), (97, 640)])
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_gives_the_same_upright_picture(file_format, orientation, size):
    upright = scene(*size)
    stored = stored_turned(upright, orientation)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {
        "JPEG": {"quality": 95, "subsampling": 0},
        "WEBP": {"lossless": True},
        "AVIF": {"quality": 95, "subsampling": "4:4:4"},
    }
    data = encoded(stored, file_format, exif=exif, **options.get(file_format, {}))
    picture, audit = resized(data, area_px=192 * 192)
    wanted, _ = resized(encoded(upright, "PNG"), area_px=192 * 192)
    assert (audit.source_width, audit.source_height) == upright.size
    assert audit.orientation == orientation or (orientation == 1 and audit.orientation is None)
    assert distance(picture, wanted) < 2


def test_a_sideways_phone_photo_is_upright_everywhere():
    upright = scene(40, 100)
    picture, audit = resized(jpeg_with_exif(stored_turned(upright, 6), exif_block(6)))
    assert (audit.source_width, audit.source_height, audit.orientation) == (40, 100, 6)
    assert picture.height > picture.width
    assert picture.getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize("block", [exif_block(6, broken_rational=True), exif_block(6, as_byte=True)])
def test_hostile_exif_does_not_stop_the_turning(block):
    upright = scene(40, 100)
    _, audit = resized(jpeg_with_exif(stored_turned(upright, 6), block))
    assert (audit.source_width, audit.source_height, audit.orientation) == (40, 100, 6)


@pytest.mark.parametrize(
    "block", [exif_block(0), exif_block(99), b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", bytes(40)]
)
def test_exif_that_says_nothing_turns_nothing(block):
    _, audit = resized(jpeg_with_exif(scene(100, 40), block))
    assert (audit.source_width, audit.source_height, audit.orientation) == (100, 40, None)


# transparency


def test_transparent_pixels_show_the_background_and_never_the_hidden_color():
    palette = png_chunk(b"PLTE", bytes((255, 0, 0, 0, 255, 0))) + png_chunk(b"tRNS", bytes((0, 128)))
    data = png_of(64, 64, bits=8, color_type=3, rows=[bytes(32) + b"\1" * 32] * 64, extra=palette)
    picture, audit = resized(data)
    assert color_at(picture, 0.2, 0.5) == (255, 255, 255)
    assert color_at(picture, 0.8, 0.5) == pytest.approx((127, 255, 127), abs=1)
    assert audit.color_note == "alpha blended on #ffffff"
    hidden = Image.new("RGBA", (64, 64), (200, 100, 50, 0))
    for file_format in ("PNG", "WEBP", "TIFF"):
        picture, _ = resized(encoded(hidden, file_format), background=(10, 20, 30))
        assert color_at(picture, 0.5, 0.5) == (10, 20, 30)


@pytest.mark.parametrize("mode", ["LA", "RGBA", "PA"])
def test_blending_comes_before_resizing(mode):
    picture = Image.new("RGBA", (1200, 1200), (255, 255, 255, 255))
    picture.paste((0, 0, 0, 0), (0, 0, 600, 1200))  # black hidden beside white: no gray rim may appear
    source = picture.convert("LA") if mode == "LA" else picture
    result, _ = resized(encoded(source, "PNG" if mode != "PA" else "TIFF"))
    assert result.convert("L").getextrema() == (255, 255)


def test_kept_alpha_does_not_let_hidden_colors_bleed():
    picture = Image.new("RGBA", (1200, 1200), (250, 250, 250, 255))
    picture.paste((255, 0, 0, 0), (0, 0, 600, 1200))
    for output in ("png", "webp"):
        result, audit = resized(encoded(picture, "PNG"), keep_alpha=True, output_format=output)
        assert result.mode == "RGBA"
        assert audit.color_note == "alpha kept"
        rim = result.crop((250, 0, 262, result.height))
        raw = rim.tobytes()
        visible = [raw[at : at + 3] for at in range(0, len(raw), 4) if raw[at + 3] > 40]
        assert visible
        assert min(min(pixel) for pixel in visible) > 235


def test_opaque_alpha_is_no_alpha():
    result, audit = resized(encoded(scene(64, 48).convert("RGBA"), "PNG"), keep_alpha=True)
    assert (result.mode, audit.color_note) == ("RGB", None)


@pytest.mark.parametrize(
    ("bits", "key", "pixel"), [(1, 1, b"\xff"), (2, 2, b"\xaa"), (4, 7, b"\x77"), (8, 200, b"\xc8")]
)
def test_a_gray_color_key_is_compared_at_its_own_depth(bits, key, pixel):
    rows = [pixel * (8 * bits // 8) * 4] * 32
    data = png_of(32, 32, bits=bits, color_type=0, rows=rows, extra=png_chunk(b"tRNS", struct.pack(">H", key)))
    result, _ = resized(data, background=(1, 2, 3))
    assert color_at(result, 0.5, 0.5) == (1, 2, 3)
    other = png_chunk(b"tRNS", struct.pack(">H", key ^ 1))
    result, _ = resized(png_of(32, 32, bits=bits, color_type=0, rows=rows, extra=other), background=(1, 2, 3))
    assert color_at(result.convert("RGB"), 0.5, 0.5) != (1, 2, 3)


def test_a_16_bit_color_key_is_compared_in_all_bits():
    near, exact = (0x1234, 0x5678, 0x9A00), (0x1234, 0x5678, 0x9ABC)
    rows = [struct.pack(">3H", *exact) * 16 + struct.pack(">3H", *near) * 16] * 32
    extra = png_chunk(b"tRNS", struct.pack(">3H", *exact))
    result, _ = resized(png_of(32, 32, bits=16, color_type=2, rows=rows, extra=extra))
    assert color_at(result, 0.2, 0.5) == (255, 255, 255)
    assert color_at(result, 0.8, 0.5) == (0x12, 0x56, 0x9A)


def test_where_a_gif_frame_does_not_reach_the_canvas_shows_the_background():
    data = bytearray(encoded(Image.new("P", (40, 40), 0), "GIF"))
    data[6:10] = struct.pack("<HH", 80, 80)  # the screen; the frame stays 40 x 40
    result, audit = resized(bytes(data), background=(9, 8, 7))
    assert (audit.source_width, audit.source_height) == (80, 80)
    assert color_at(result, 0.8, 0.8) == (9, 8, 7)
    assert color_at(result, 0.2, 0.2) == (0, 0, 0)


# depth and colour


def gray_16(values, file_format):
    if file_format == "PNG":
        return png_of(
            len(values) * 16, 16, bits=16, color_type=0, rows=[b"".join(struct.pack(">H", v) * 16 for v in values)] * 16
        )
    little = b"".join(struct.pack("<H", v) * 16 for v in values) * 16
    return encoded(Image.frombytes("I;16", (len(values) * 16, 16), little), file_format)


@pytest.mark.parametrize("file_format", ["PNG", "TIFF"])
def test_16_bit_gray_is_scaled_and_not_clipped(file_format):
    result, audit = resized(gray_16([0, 300, 32_768, 65_535], file_format), max_crop_loss=1)
    got = [color_at(result.convert("L"), x, 0.5)[0] for x in (0.1, 0.375, 0.625, 0.9)]
    assert got == pytest.approx([0, 1, 128, 255], abs=1)
    assert audit.color_note == "16-bit gray divided by 256"


def gray_tiff(samples, *, bits, photometric, order=">", tiled=False):
    """A gray TIFF of 64 x 64 pixels, its samples packed as TIFF packs them."""
    places = [(322, 3, 64), (323, 3, 64), (324, 4, 134), (325, 4, len(samples))]
    entries = [
        *((256, 3, 64), (257, 3, 64), (258, 3, bits), (259, 3, 1), (262, 3, photometric), (277, 3, 1)),
        *(places if tiled else [(273, 4, 134), (278, 3, 64), (279, 4, len(samples))]),
    ]
    packed = b"".join(
        struct.pack(order + ("HHIHH" if kind == 3 else "HHII"), tag, kind, 1, value, *([0] if kind == 3 else []))
        for tag, kind, value in sorted(entries)
    )
    lead = b"MM\0*" if order == ">" else b"II*\0"
    head = lead + struct.pack(order + "IH", 8, len(entries)) + packed + struct.pack(order + "I", 0)
    return head.ljust(134, b"\0") + samples


def test_big_endian_tiff_samples_are_scaled_too():
    samples = struct.pack(">H", 32_768) * 64 * 64
    result, _ = resized(gray_tiff(samples, bits=16, photometric=1))
    assert color_at(result.convert("L"), 0.5, 0.5)[0] == 128


def ramp_row(bits, order):
    """64 samples from 0 to almost the most that `bits` hold."""
    values = [column << (bits - 6) for column in range(64)]
    if bits == 16:
        return struct.pack(f"{order}64H", *values)
    packed = sum(value << (bits * (63 - column)) for column, value in enumerate(values))
    return packed.to_bytes(64 * bits // 8, "big")


@pytest.mark.parametrize(
    ("bits", "order"), [(1, "<"), (1, ">"), (4, "<"), (4, ">"), (8, "<"), (8, ">"), (12, "<"), (16, "<"), (16, ">")]
)
@pytest.mark.parametrize("tiled", [False, True])
def test_a_tiff_of_which_zero_is_white_is_inverted_once(bits, order, tiled):
    row = b"\0\0\0\0\xff\xff\xff\xff" if bits == 1 else bytes(32) if bits == 4 else ramp_row(bits, order)
    black, _ = resized(gray_tiff(row * 64, bits=bits, photometric=1, order=order, tiled=tiled), area_px=64 * 64)
    white, audit = resized(gray_tiff(row * 64, bits=bits, photometric=0, order=order, tiled=tiled), area_px=64 * 64)
    assert white.convert("L").tobytes() == ImageChops.invert(black.convert("L")).tobytes()
    assert ("inverted: zero is white" in (audit.color_note or "")) == (bits > 8)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_deflate", "packbits"])
def test_compressed_16_bit_samples_are_inverted_too(compression):
    ramp = Image.frombytes("I;16", (64, 64), ramp_row(16, "<") * 64)
    black = bytearray(encoded(ramp, "TIFF", compression=compression))
    tag = black.index(struct.pack("<HHI", 262, 3, 1))
    white = bytes(black[: tag + 8]) + b"\0\0" + bytes(black[tag + 10 :])
    one, other = (resized(bytes(data), area_px=64 * 64)[0].convert("L") for data in (black, white))
    assert one.getextrema() == (0, 252)
    assert ImageChops.invert(one).tobytes() == other.tobytes()


@pytest.mark.parametrize("mode", ["F", "I"])
def test_samples_of_unknown_scale_are_refused(mode):
    _, audit = resized(encoded(Image.new(mode, (64, 64), 3), "TIFF"))
    assert audit.reason == Reason.UNSUPPORTED_MODE
    assert f"mode {mode}" in audit.detail
    assert (audit.source_width, audit.source_mode) == (64, mode)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "LAB"])
def test_every_usual_mode_comes_out_as_the_same_picture(mode):
    source = scene(256, 192)
    if mode == "LAB":
        stored = ImageCms.profileToProfile(
            source, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
        )
    else:
        stored = source.convert(mode)
    file_format = {"CMYK": "JPEG", "P": "PNG", "1": "PNG"}.get(mode, "TIFF")
    result, audit = resized(encoded(stored, file_format))
    wanted, _ = resized(encoded(stored.convert("RGB") if mode != "LAB" else source, "PNG"))
    assert distance(result, wanted) < 4
    assert audit.source_mode == mode


def swapped_profile():
    """An RGB profile in which red and green trade places: what is converted by it shows at once."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    red, green = profile.find(b"rXYZ"), profile.find(b"gXYZ")
    profile[red : red + 4], profile[green : green + 4] = b"gXYZ", b"rXYZ"
    return bytes(profile)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_an_embedded_profile_is_converted(file_format):
    data = encoded(Image.new("RGB", (64, 64), (250, 20, 20)), file_format, icc_profile=swapped_profile())
    result, audit = resized(data)
    red, green, _ = color_at(result, 0.5, 0.5)
    assert green > 200 > red
    assert "converted to sRGB" in audit.color_note
    assert "icc_profile" not in result.info


def test_an_srgb_profile_changes_nothing():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain, _ = resized(encoded(scene(64, 48), "PNG"))
    result, audit = resized(encoded(scene(64, 48), "PNG", icc_profile=profile))
    assert audit.color_note is None
    assert distance(result, plain) == 0


def test_a_broken_profile_is_ignored_and_said():
    plain, _ = resized(encoded(scene(64, 48), "PNG"))
    result, audit = resized(encoded(scene(64, 48), "PNG", icc_profile=b"no profile" * 30))
    assert audit.color_note.startswith("profile ignored")
    assert distance(result, plain) == 0


def test_a_profile_for_other_samples_is_ignored_and_said():
    profile = bytearray(swapped_profile())
    profile[16:20] = b"CMYK"
    _, audit = resized(encoded(scene(64, 48), "PNG", icc_profile=bytes(profile)))
    assert audit.valid
    assert "profile ignored" in audit.color_note


# frames


@pytest.mark.parametrize("file_format", ["GIF", "PNG", "WEBP", "TIFF", "MPO", "AVIF"])
def test_the_first_of_several_frames_counts(file_format):
    frames = [Image.new("RGB", (64, 64), color) for color in ((200, 30, 30), (30, 200, 30), (30, 30, 200))]
    result, audit = resized(encoded(frames[0], file_format, save_all=True, append_images=frames[1:]))
    assert color_at(result, 0.5, 0.5) == pytest.approx((200, 30, 30), abs=6)
    assert audit.frames == 3
    assert audit.source_format == file_format


# cut and damaged


def test_empty_missing_and_foreign_bytes():
    assert resized(None)[1].reason == Reason.MISSING
    assert resized(b"")[1].reason == Reason.EMPTY
    assert resized(b"<html>not found</html>")[1].reason == Reason.NOT_AN_IMAGE


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "AVIF", "JPEG2000"])
def test_a_cut_picture_is_truncated(file_format, kept):
    data = encoded(scene(400, 300), file_format)
    _, audit = resized(data[: int(len(data) * kept)])
    assert audit.reason == Reason.TRUNCATED
    assert "decode" in audit.detail


def test_a_cut_jpeg_that_was_given_an_end_is_truncated():
    data = encoded(noise(400, 300), "JPEG", quality=90)
    _, audit = resized(data[: len(data) // 2] + b"\xff\xd9")
    assert audit.reason == Reason.TRUNCATED
    share = float(audit.detail.rsplit(" % of", 1)[0].rsplit(" ", 1)[1])
    assert share == pytest.approx(50, abs=8)


def test_a_jpeg_that_lacks_a_few_blocks_is_truncated():
    data = encoded(noise(400, 300), "JPEG", quality=90)
    _, audit = resized(data[:-200] + b"\xff\xd9")
    assert audit.reason == Reason.TRUNCATED


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "BMP"])
def test_accept_truncated_asks_for_a_share_of_rows(file_format):
    data = encoded(noise(400, 300), file_format)
    data = data[: int(len(data) * 0.7)]
    assert resized(data, accept_truncated=0.9)[1].reason == Reason.TRUNCATED
    picture, audit = resized(data, accept_truncated=0.5)
    assert audit.valid
    assert audit.detail.startswith("truncated: ")
    lower = picture.convert("L").crop((0, int(picture.height * 0.85), picture.width, picture.height))
    upper = picture.convert("L").crop((0, 0, picture.width, picture.height // 2))
    low, high = (lower, upper) if file_format != "BMP" else (upper, lower)  # a BMP begins at its last row
    if file_format == "BMP":
        low = picture.convert("L").crop((0, 0, picture.width, int(picture.height * 0.15)))
        high = picture.convert("L").crop((0, picture.height // 2, picture.width, picture.height))
    assert low.getextrema()[1] <= 2
    assert high.getextrema()[1] > 100


def test_a_whole_picture_without_its_end_mark_can_be_accepted():
    data = encoded(scene(64, 48), "PNG")[:-12]
    assert "100 % of the rows" in resized(data)[1].detail
    assert resized(data, accept_truncated=1.0)[1].valid


def test_a_cut_file_never_shows_another_pictures_pixels():
    bright, cut = Image.new("RGB", (400, 300), (255, 255, 255)), encoded(noise(400, 300), "PNG")
    resized(encoded(bright, "PNG"))
    picture, _ = resized(cut[: len(cut) // 2], accept_truncated=0.1)
    assert picture.convert("L").crop((0, int(picture.height * 0.7), picture.width, picture.height)).getextrema()[1] <= 2


def test_damaged_pixels_of_a_png_are_not_used():
    data = bytearray(encoded(noise(64, 48), "PNG"))
    data[data.find(b"IDAT") + 3000] ^= 8
    assert resized(bytes(data))[1].reason == Reason.DECODE_FAILED


# size


def test_a_declared_size_over_the_cap_is_refused_before_decoding():
    data = jpeg_declaring(encoded(scene(64, 48), "JPEG"), 30_000, 30_000)
    _, audit = resized(data)
    assert audit.reason == Reason.TOO_MANY_PIXELS
    assert (audit.source_width, audit.source_height) == (30_000, 30_000)
    assert "900000000" in audit.detail
    assert resized(encoded(scene(64, 48), "WEBP"), max_pixels=64 * 48 - 1)[1].reason == Reason.TOO_MANY_PIXELS
    assert resized(encoded(scene(64, 48), "TIFF"), max_pixels=64 * 48 - 1)[1].reason == Reason.TOO_MANY_PIXELS
    assert resized(encoded(scene(64, 48), "TIFF"), max_pixels=64 * 48)[1].valid


@pytest.mark.parametrize("size", [(16_384, 4), (4, 20_000)])
def test_strips_are_refused_by_geometry(size):
    _, audit = resized(encoded(Image.new("RGB", size), "PNG"), output_format="webp")
    assert audit.reason == Reason.ASPECT_RATIO_TOO_EXTREME
    assert audit.crop_loss > 0.25
    assert audit.width is None


def test_a_strip_can_pass_one_target_and_not_the_other():
    data = encoded(Image.new("RGB", (10_000, 100)), "PNG")
    small, large = resize_row(data, ResizeSpec((AREA_512, AREA_1024)))
    assert small[1].reason == Reason.ASPECT_RATIO_TOO_EXTREME
    assert (large[1].width, large[1].height) == (9856, 96)
    assert Image.open(io.BytesIO(large[0])).size == (9856, 96)


def test_small_pictures_grow_or_are_refused():
    data = encoded(scene(64, 48), "PNG")
    assert resized(data)[1].upscaled is True
    _, audit = resized(data, no_upscale=True)
    assert (audit.reason, audit.upscaled) == (Reason.TOO_SMALL, None)


# results


@pytest.mark.parametrize("orientation", [None, 6])
def test_a_targets_bytes_do_not_depend_on_the_other_targets(orientation):
    picture = scene(3600, 2700)
    data = jpeg_with_exif(picture, exif_block(orientation or 1))
    both = resize_row(data, ResizeSpec((AREA_512, AREA_1024)))
    turned = resize_row(data, ResizeSpec((AREA_1024, AREA_512)))
    for index, area in enumerate((AREA_512, AREA_1024)):
        alone = resize_row(data, ResizeSpec((area,)))[0]
        assert alone == both[index] == turned[1 - index]


def test_a_reduced_decode_shows_the_same_picture_in_the_same_place():
    picture = scene(3601, 2703)
    from_jpeg, _ = resized(encoded(picture, "JPEG", quality=97, subsampling=0))
    from_png, _ = resized(encoded(picture, "PNG"))
    assert distance(from_jpeg, from_png) < 0.6


@pytest.mark.parametrize(("output", "name"), [("webp", "WEBP"), ("png", "PNG"), ("jpeg", "JPEG")])
def test_outputs_have_the_audited_size_and_no_metadata(output, name):
    source = scene(700, 500)
    exif = Image.Exif()
    exif[0x010E] = "a description"
    data = encoded(source, "JPEG", exif=exif, icc_profile=swapped_profile(), comment=b"a comment")
    ((made, audit),) = resize_row(data, ResizeSpec((AREA_512,), PixelSpec(output_format=output)))
    picture = Image.open(io.BytesIO(made))
    assert (picture.format, picture.size) == (name, (audit.width, audit.height))
    assert not {"exif", "icc_profile", "comment", "xmp"} & set(picture.info)
    assert audit.output_bytes == len(made)
    assert (audit.source_format, audit.source_bytes, audit.frames) == ("JPEG", len(data), 1)


def test_the_crop_is_what_the_audit_says():
    source = scene(1000, 700)
    result, audit = resized(encoded(source, "PNG"))
    whole = source.resize((audit.resized_width, audit.resized_height), Image.Resampling.LANCZOS)
    box = (audit.crop_left, audit.crop_top, audit.crop_left + audit.width, audit.crop_top + audit.height)
    assert distance(result, whole.crop(box)) < 0.05


def test_quality_and_method_change_the_bytes():
    data = encoded(scene(700, 500), "PNG")
    made = {
        (quality, method): resize_row(data, ResizeSpec((AREA_512,), PixelSpec(quality=quality, webp_method=method)))[0][
            0
        ]
        for quality in (50, 95)
        for method in (0, 2)
    }
    assert len(set(made.values())) == 4
    assert len(made[50, 2]) < len(made[95, 2])


def test_an_area_that_no_size_fits_is_refused_before_any_row():
    with pytest.raises(ValueError, match="multiples of 32 px has an area within 10 % of 64 px"):
        ResizeSpec((AREA_512, 64))


def test_why_a_picture_is_unusable_survives_pickling():
    error = pickle.loads(pickle.dumps(UnusableImageError(Reason.TRUNCATED, "half of it")))
    assert (error.reason, error.detail, str(error)) == (Reason.TRUNCATED, "half of it", "truncated: half of it")
    assert isinstance(error, SidecarError)
