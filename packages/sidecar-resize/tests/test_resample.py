from __future__ import annotations

import pytest
import pyvips
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageStat
from sidecar_resize.encode import _resize_with_pillow, resize_upright
from sidecar_resize.geometry import target_size
from sidecar_resize.pillow_memory import pixels_of
from sidecar_resize.resample import can_shrink, shrink
from sidecar_resize.testing.pictures import scene

sides = st.integers(40, 700)


def difference(one, other):
    """Returns the mean absolute difference in levels of 255."""
    means = ImageStat.Stat(ImageChops.difference(one, other)).mean
    return sum(means) / len(means)


@settings(max_examples=60, deadline=None)
@given(width=sides, height=sides, by=st.floats(1, 9), mode=st.sampled_from(["RGB", "L"]), cut=st.integers(0, 9))
def test_it_shrinks_as_pillow_does_and_cuts_the_same_part(width, height, by, mode, cut):
    picture = scene(width, height).convert(mode)
    scaled = max(8, int(width / by)), max(8, int(height / by))
    box = (min(cut, scaled[0] - 1), min(cut // 2, scaled[1] - 1), scaled[0], scaled[1])
    assert can_shrink(picture, scaled)
    made = shrink(picture, scaled, box)
    assert (made.mode, made.size) == (mode, (box[2] - box[0], box[3] - box[1]))
    whole = picture.resize(scaled, Image.Resampling.LANCZOS)
    assert difference(made, whole.crop(box)) < 2.5
    assert difference(made, shrink(picture, scaled, (0, 0, *scaled)).crop(box)) == 0


@settings(max_examples=60, deadline=None)
@given(width=sides, height=sides, scaled_width=sides, scaled_height=sides, mode=st.sampled_from(["RGB", "L"]))
def test_it_gives_what_libvips_gives_for_a_resize(width, height, scaled_width, scaled_height, mode):
    scaled = min(width, scaled_width), min(height, scaled_height)
    picture = scene(width, height).convert(mode)
    source = pyvips.Image.new_from_memory(picture.tobytes(), width, height, len(mode), "uchar")
    whole = source.resize(scaled[0] / width, vscale=scaled[1] / height, kernel="lanczos3")
    assert shrink(picture, scaled, (0, 0, *scaled)).tobytes() == bytes(whole.write_to_memory())


@settings(max_examples=40, deadline=None)
@given(width=st.integers(600, 1500), height=st.integers(600, 1500), orientation=st.integers(1, 8))
def test_every_orientation_ends_where_pillow_puts_it(width, height, orientation):
    picture = scene(width, height)
    shown = (height, width) if orientation >= 5 else (width, height)
    size = target_size(*shown, 128 * 128)
    made = resize_upright(picture, picture.size, size, orientation=orientation)
    assert made.size == (size.width, size.height)
    alpha = picture.convert("RGBA")  # takes the other way
    other = resize_upright(alpha, picture.size, size, orientation=orientation).convert("RGB")
    assert difference(made, other) < 2.5


def test_a_flat_picture_stays_flat():
    picture = Image.new("RGB", (901, 677), (13, 200, 255))
    assert shrink(picture, (300, 200), (5, 5, 100, 100)).getcolors() == [(95 * 95, (13, 200, 255))]


@pytest.mark.parametrize(
    ("mode", "size", "scaled"), [("RGBA", (90, 90), (30, 30)), ("RGB", (90, 90), (91, 30)), ("L", (90, 90), (30, 91))]
)
def test_what_has_alpha_or_grows_is_left_to_pillow(mode, size, scaled):
    assert not can_shrink(Image.new(mode, size), scaled)


def test_an_edge_is_where_it_was():
    picture = Image.new("L", (1000, 700))
    picture.paste(255, (500, 0, 1000, 700))
    box = (0, 0, 250, 175)
    for made in (shrink(picture, (250, 175), box), _resize_with_pillow(picture, picture.size, (250, 175), box, 1)):
        pixels = made.tobytes()
        for row in range(175):
            assert sum(pixels[row * 250 : row * 250 + 250]) / 255 == pytest.approx(125, abs=0.1)


def test_pixels_in_one_block_are_not_copied():
    picture = scene(333, 77)
    pixels, raw_mode = pixels_of(picture)
    assert (raw_mode, not isinstance(pixels, bytes)) == ("RGBX", True)
    assert Image.frombytes("RGB", picture.size, bytes(pixels), "raw", raw_mode).tobytes() == picture.tobytes()
    picture.putpixel((332, 76), (1, 2, 3))
    assert bytes(pixels)[-4:-1] == b"\1\2\3"


def test_a_picture_in_several_blocks_shrinks_alike():
    picture = scene(500, 400)
    wanted = shrink(picture, (100, 80), (0, 0, 100, 80))
    whole = Image.core.get_block_size()
    Image.core.set_block_size(1 << 16)
    try:
        parted = picture.copy()
    finally:
        Image.core.set_block_size(whole)
    assert pixels_of(parted) == (picture.tobytes(), "RGB")
    assert shrink(parted, (100, 80), (0, 0, 100, 80)).tobytes() == wanted.tobytes()
