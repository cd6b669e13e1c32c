"""Panels of an overlay: drawn boxes are where they must be, in every orientation, and nothing else is changed."""

from __future__ import annotations

import io
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_resize.boxes import LabelledBox
from sidecar_resize.geometry import target_size
from sidecar_resize.overlay import (
    PALETTE,
    OverlayPanel,
    PanelRequest,
    PanelStyle,
    draw_overlay,
    draw_panel,
    draw_strip,
    label_colors,
    unlabelled_color,
)
from sidecar_resize.overlay_tags import MOST_TAGS, box_rect, place_tags, visible_label
from sidecar_resize.row import resize_row
from sidecar_resize.spec import PixelSpec, ResizeSpec
from sidecar_resize.testing.pictures import encoded, exif_block, jpeg_declaring, jpeg_with_exif, scene, stored_turned

BOX = LabelledBox((200.0, 100.0, 700.0, 600.0), "crate")


def drawn(image, boxes, **options):
    return Image.open(io.BytesIO(draw_overlay(image, boxes, **options)))


def edges(picture, ink):
    """Returns the bounds (left, top, right, bottom) of all pixels of exactly a colour."""
    flat = Image.new("RGB", picture.size, ink)
    bands = ImageChops.difference(picture, flat).split()
    off = ImageChops.lighter(ImageChops.lighter(bands[0], bands[1]), bands[2])
    return off.point(lambda level: 255 if level == 0 else 0).getbbox()


def rows_of_ink(picture, ink, x):
    return [y for y in range(picture.height) if picture.getpixel((x, y)) == ink]


# where boxes are


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_is_drawn_in_the_upright_picture_whatever_its_orientation(orientation):
    upright = scene(600, 420)
    image = jpeg_with_exif(stored_turned(upright, orientation), exif_block(orientation))
    picture = drawn(image, [BOX])
    assert picture.size == (600, 420)
    ink = label_colors(["crate"])["crate"]
    left, top, right, bottom = 60, 84, 360, 294
    for point in ((left, 200), (right - 1, 200), (200, bottom - 1), (350, top)):
        assert picture.getpixel(point) == ink
    for point in ((left - 1, 200), (right, 200), (200, bottom)):
        assert picture.getpixel(point) in ((0, 0, 0), (255, 255, 255))
    # what is neither box nor tag is the upright picture
    for region in ((0, 0, 600, 40), (400, 60, 600, 420), (0, 310, 600, 420), (70, 140, 350, 280)):
        difference = ImageChops.difference(picture.crop(region), upright.crop(region))
        assert max(high for _, high in difference.getextrema()) <= 24
    # and the tag is on the box
    assert edges(picture, ink)[1] < top
    assert picture.getpixel((left + 1, top - 4)) == ink


@pytest.mark.parametrize("side", [512, 1024])
def test_in_a_resized_picture_the_box_is_at_the_moved_coordinates(side):
    original = scene(900, 601)
    image = encoded(original, "PNG")
    ((resized, _),) = resize_row(image, ResizeSpec((side * side,), PixelSpec(output_format="png")))
    size = target_size(900, 601, side * side)
    # the scene's red rectangle, moved as its pixels were
    x, y = size.resized_width / 900, size.resized_height / 601
    bounds = (
        (90 * x - size.crop_left) / size.width * 1000,
        (75 * y - size.crop_top) / size.height * 1000,
        (300 * x - size.crop_left) / size.width * 1000,
        (200 * y - size.crop_top) / size.height * 1000,
    )
    left, top, right, bottom = bounds
    picture = drawn(resized, [LabelledBox((top, left, bottom, right), None)])
    assert picture.size == (size.width, size.height)
    inside = picture.crop(
        (
            round(left * size.width / 1000) + 8,
            round(top * size.height / 1000) + 8,
            round(right * size.width / 1000) - 8,
            round(bottom * size.height / 1000) - 8,
        )
    )
    assert all(high - low <= 2 for low, high in inside.getextrema())  # nothing but the rectangle's red
    assert picture.getpixel((round(left * size.width / 1000), picture.height // 4)) == unlabelled_color()


def test_boxes_scale_with_the_panel():
    picture = drawn(encoded(scene(1600, 1000), "JPEG"), [LabelledBox((250, 250, 750, 750), None)], max_side_px=400)
    assert picture.size == (400, 250)
    assert picture.getpixel((100, 125)) == unlabelled_color()
    assert picture.getpixel((299, 125)) == unlabelled_color()
    assert drawn(encoded(scene(300, 200), "PNG"), [], max_side_px=400).size == (300, 200)  # never enlarged


def test_boxes_beyond_the_picture_are_clipped_and_those_outside_left_out():
    image = encoded(Image.new("RGB", (200, 200), (128, 128, 128)), "PNG")
    picture = drawn(image, [LabelledBox((-500, -500, 1500, 1500), None)])
    for point in ((0, 100), (199, 100), (100, 199)):
        assert picture.getpixel(point) == unlabelled_color()
    outside = [(0, 1000, 1000, 2000), (-10, 0, 0, 1000), (5, 5, 5, 9), (9, 5, 5, 9), (float("nan"), 0, 9, 9)]
    plain = drawn(image, [LabelledBox(box, "x") for box in outside])
    assert plain.tobytes() == drawn(image, []).tobytes()


# tags


def test_a_label_is_written_on_a_tag_of_its_colour():
    image = encoded(Image.new("RGB", (600, 400), (128, 128, 128)), "PNG")
    box = (300, 100, 900, 900)
    named, bare = (drawn(image, [LabelledBox(box, label)]) for label in ("a crate", "another crate with more words"))
    ink = label_colors(["a crate"])["a crate"]
    tag = named.crop((62, 95, 100, 118))
    colors = {color for _, color in tag.getcolors(100_000)}
    assert ink in colors
    assert {(0, 0, 0), (255, 255, 255)} & colors  # the writing
    assert bare.tobytes() != named.tobytes()


def test_colours_go_by_label():
    labels = [f"label {number}" for number in range(len(PALETTE))]
    colors = label_colors(labels)
    assert len(set(colors.values())) == len(PALETTE)
    assert colors == label_colors(reversed(labels))
    assert set(label_colors([f"{number}" for number in range(100)])) == {f"{number}" for number in range(100)}


HARD_LABELS = [
    "日本語のラベル",
    "😀👩‍👩‍👧",
    "العربية \u202e reversed",
    "größe – “é” ×",
    "\x00\x01\x07\x1b[31m red \r\n\t two\u2028lines",
    "\ud800 half a pair",
    "x" * 10_000,
    "ß" * 10_000,
    "é" * 3000,  # one character with its accent apart, many times
    " \n ",
    "",
    "<script>alert(1)</script>",
]


@pytest.mark.parametrize("label", HARD_LABELS)
@pytest.mark.parametrize("size", [(640, 480), (40, 30), (1, 1), (2000, 3), (3, 900)])
def test_any_label_on_any_size_stays_inside_and_breaks_nothing(label, size):
    image = encoded(Image.new("RGB", size, (90, 90, 90)), "PNG")
    panel = draw_panel(PanelRequest(image, (LabelledBox((0, 0, 1000, 1000), label),) * 2), PanelStyle())
    assert panel.reason is None
    assert (panel.width, panel.height) == size
    assert Image.open(io.BytesIO(panel.content)).size == size


def test_labels_are_made_visible():
    assert visible_label("\x00 a\r\n\u202eb\ud800 ") == "a b"
    assert visible_label(None) == ""
    assert len(visible_label("x" * 10_000)) == 48
    assert visible_label("x" * 10_000).endswith("…")


def measure(text):
    return 10 * len(text)


@given(
    st.lists(st.tuples(*[st.floats(-300, 1300)] * 4), max_size=40),
    st.text(max_size=30),
    st.integers(1, 900),
    st.integers(1, 900),
)
def test_no_tag_is_ever_outside_the_picture(boxes, label, width, height):
    rects = [box_rect(box, width, height) for box in boxes]
    for rect in rects:
        assert rect is None or (0 <= rect[0] < rect[2] <= width and 0 <= rect[1] < rect[3] <= height)
    tags = place_tags(rects, [label] * len(rects), (width, height), measure=measure, tag_height=20)
    for tag in tags:
        left, top, right, bottom = tag.rect
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert right - left == measure(tag.text)


def test_tags_of_many_boxes_do_not_cover_each_other():
    draw = random.Random(3)
    corners = [(draw.randint(0, 900), draw.randint(0, 700)) for _ in range(40)]
    rects = [(x, y, x + 100, y + 90) for x, y in corners]
    tags = place_tags(rects, ["a longish label"] * 40, (1024, 800), measure=measure, tag_height=20)
    assert [tag.index for tag in tags] == list(range(40))
    covered = [
        (one.index, other.index)
        for one in tags
        for other in tags
        if one.index < other.index
        and max(one.rect[0], other.rect[0]) < min(one.rect[2], other.rect[2])
        and max(one.rect[1], other.rect[1]) < min(one.rect[3], other.rect[3])
    ]
    assert covered == []
    assert any(tag.text.isdigit() for tag in tags)  # where there is no room for more
    assert any("longish" in tag.text for tag in tags)
    assert len(place_tags(rects[:1] * 1000, ["x"] * 1000, (1024, 800), measure=measure, tag_height=20)) == MOST_TAGS


# pictures that cannot be used


def test_what_is_no_picture_gives_a_panel_with_the_reason():
    whole = encoded(scene(400, 300), "JPEG")
    broken = {
        "missing": None,
        "empty": b"",
        "not_an_image": b"<!DOCTYPE html><title>404</title>",
        "truncated": whole[: len(whole) // 2],
        "too_many_pixels": jpeg_declaring(whole, 60_000, 60_000),
    }
    for reason, image in broken.items():
        panel = draw_panel(PanelRequest(image, (BOX,)), PanelStyle(max_side_px=300))
        assert panel.reason == reason
        picture = Image.open(io.BytesIO(panel.content))
        assert picture.size == (panel.width, panel.height) == (300, 150)
        assert len(picture.getcolors(100_000)) > 10  # there is writing
    panels = {draw_panel(PanelRequest(image), PanelStyle()).content for image in broken.values()}
    assert len(panels) == len(broken)  # each says something else


def test_a_reason_that_is_known_needs_no_picture():
    panel = draw_panel(PanelRequest(None, reason="timeout", detail="after 60 s\x00 " + "ü" * 3000), PanelStyle())
    assert (panel.reason, panel.width) == ("timeout", 480)


def test_transparency_is_shown_on_white_and_wide_samples_by_their_high_byte():
    clear = encoded(Image.new("RGBA", (64, 64), (255, 0, 0, 0)), "PNG")
    assert drawn(clear, []).getpixel((5, 5)) == (255, 255, 255)
    wide = encoded(Image.frombytes("I;16", (64, 64), b"\x34\x80" * 4096), "PNG")
    assert drawn(wide, []).getpixel((5, 5)) == (0x80, 0x80, 0x80)


def test_other_formats_and_no_metadata():
    image = jpeg_with_exif(scene(300, 200), exif_block(6))
    for name, expected in (("jpeg", "JPEG"), ("webp", "WEBP"), ("png", "PNG")):
        picture = drawn(image, [BOX], output_format=name)
        assert picture.format == expected
        assert not picture.getexif()


def test_a_strip_shows_all_panels_side_by_side():
    panels = [draw_panel(PanelRequest(encoded(scene(*size), "PNG")), PanelStyle()) for size in ((300, 200), (120, 80))]
    content = draw_strip([("original", panels[0]), ("512 日本 ×", panels[1])], "key größe \x00 " + "k" * 3000)
    strip = Image.open(io.BytesIO(content))
    assert strip.width == 300 + 120 + 3 * 16
    panel = Image.open(io.BytesIO(panels[1].content))
    at = (300 + 2 * 16, strip.height - 16 - 200)
    assert strip.crop((*at, at[0] + 120, at[1] + 80)).tobytes() == panel.tobytes()


def test_in_isolated_children_and_light():
    code = (
        "import sys, sidecar_resize.overlay\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'PIL', 'cv2', 'pyarrow', 'pydantic', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        requests = [PanelRequest(encoded(scene(64, 48), "PNG"), (BOX,)), PanelRequest(b"no")]
        panels = pool.map_rows(draw_panel, requests, common=PanelStyle(32))
    assert [type(panel) for panel in panels] == [OverlayPanel, OverlayPanel]
    assert [panel.reason for panel in panels] == [None, "not_an_image"]
    assert (panels[0].picture_width, panels[0].picture_height, panels[0].width) == (64, 48, 32)
