"""Draws the panels of an overlay. Imported only in isolated child processes: it loads Pillow."""

from __future__ import annotations

import math
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from sidecar_resize.color import to_srgb
from sidecar_resize.decode import decode, open_picture, reduction_for
from sidecar_resize.encode import encode, resize_upright
from sidecar_resize.geometry import TargetSize
from sidecar_resize.headers import read_header
from sidecar_resize.overlay import OverlayPanel, unlabelled_color
from sidecar_resize.overlay_tags import box_rect, place_tags, visible_label
from sidecar_resize.row import REDUCED_DECODE_KEEP, check_pixels, displayed_size
from sidecar_resize.spec import PixelSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_resize.boxes import LabelledBox
    from sidecar_resize.overlay import Color, PanelStyle

_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
_SLATE, _SLATE_LINE, _PALE, _AMBER = (52, 57, 65), (62, 68, 77), (214, 218, 224), (255, 196, 87)
_PLACEHOLDER_PX = (480, 240)
_STRIP_GROUND, _STRIP_INK = (246, 247, 249), (33, 37, 43)
_STRIP_GAP_PX = 16
# spellings of what the bundled font lacks; letters with accents are taken apart by Unicode's own tables
_PLAIN = dict(zip("×–—−\u2018\u2019“”„«»øłđØŁĐ", "x---''" + 5 * '"' + "oldOLD", strict=True)) | {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "Æ": "Ae",
    "Œ": "Oe",
}
_NO_GLYPH = "\U0010ffff"
_PANEL_QUALITY = 90


def load_upright(image: bytes, style: PanelStyle) -> tuple[Image.Image, tuple[int, int]]:
    """Returns the picture as displayed, RGB on white, and its full (width, height).

    Raises:
        UnusableImageError: what a resize would call it invalid for.
        MemoryError: the pixels do not fit in the memory cap.
    """
    header = read_header(image)
    check_pixels(header, style.max_pixels)
    open_picture(header)
    check_pixels(header, style.max_pixels)
    shown = displayed_size(header)
    scale = min(1.0, (style.max_side_px or max(shown)) / max(shown))
    width, height = (max(1, round(side * scale)) for side in shown)
    wanted = min(shown[0] / width, shown[1] / height)
    reduction = reduction_for(wanted, keep=REDUCED_DECODE_KEEP) if header.may_reduce else 1
    decoded, _ = decode(header, reduction=reduction)
    srgb, _ = to_srgb(decoded, header, background=_WHITE, keep_alpha=False)
    size = TargetSize(width, height, 0.0, width, height, 0, 0, upscaled=False)
    stored = (header.width, header.height)
    upright = resize_upright(srgb, stored, size, orientation=header.orientation, reduction=reduction)
    return upright.convert("RGB"), shown


def draw_boxes(picture: Image.Image, boxes: Sequence[LabelledBox], colors: Mapping[str, Color]) -> None:
    """Draws boxes, then their tags, into an RGB picture."""
    draw = ImageDraw.Draw(picture)
    rects = [box_rect(box.box_yxyx_1000, picture.width, picture.height) for box in boxes]
    inks = [colors.get(box.label, unlabelled_color()) if box.label else unlabelled_color() for box in boxes]
    line_px = max(2, round(math.sqrt(picture.width * picture.height) / 280))
    seen = [(rect, ink) for rect, ink in zip(rects, inks, strict=True) if rect is not None]
    seen.sort(key=lambda item: (item[0][2] - item[0][0]) * (item[0][3] - item[0][1]), reverse=True)
    for (left, top, right, bottom), ink in seen:  # small ones last: they stay whole
        width = min(line_px, max(1, min(right - left, bottom - top) // 3))
        draw.rectangle((left - 1, top - 1, right, bottom), outline=_opposite(ink), width=width + 2)
        draw.rectangle((left, top, right - 1, bottom - 1), outline=ink, width=width)
    font = _font(_font_px(picture.width, picture.height, len(seen)))
    ascent, descent = font.getmetrics()
    pad = max(2, ascent // 5)
    labels = [_tag_label(visible_label(box.label)) for box in boxes]
    tags = place_tags(
        rects,
        labels,
        picture.size,
        measure=lambda text: math.ceil(font.getlength(text)) + 2 * pad + 2,
        tag_height=ascent + descent + 2,
    )
    for tag in tags:
        left, top, right, bottom = tag.rect
        ink = inks[tag.index]
        draw.rectangle((left, top, right - 1, bottom - 1), fill=ink, outline=_opposite(ink))
        draw.text((left + 1 + pad, top + 1), tag.text, fill=_opposite(ink), font=font)


def encode_panel(picture: Image.Image, style: PanelStyle) -> bytes:
    """Returns the panel's bytes."""
    return encode(picture, PixelSpec(output_format=style.output_format, quality=_PANEL_QUALITY))


def placeholder(reason: str, detail: str | None, style: PanelStyle) -> OverlayPanel:
    """Returns a panel that says in place of a picture why there is none."""
    limit = min(1.0, (style.max_side_px or _PLACEHOLDER_PX[0]) / _PLACEHOLDER_PX[0])
    width, height = (max(1, round(side * limit)) for side in _PLACEHOLDER_PX)
    picture = Image.new("RGB", (width, height), _SLATE)
    draw = ImageDraw.Draw(picture)
    for x in range(-height, width, 24):
        draw.line((x, height, x + height, 0), fill=_SLATE_LINE, width=8)
    large, small = _font(max(11, width // 20)), _font(max(10, width // 30))
    margin = width // 12
    y = height // 3
    for text, font, ink, most in ((f"no picture: {reason}", large, _AMBER, 2), (detail or "", small, _PALE, 5)):
        for line in _wrapped(_spelled(visible_label(text, limit=300)), font, width - 2 * margin, most):
            draw.text((margin, y), line, fill=ink, font=font)
            y += sum(font.getmetrics()) + 2
        y += height // 30
    return OverlayPanel(encode_panel(picture, style), width, height, reason=str(reason), detail=detail)


def draw_strip(panels: Sequence[tuple[str, OverlayPanel]], title: str) -> bytes:
    """Returns a PNG of panels side by side at their own size, a title above all and a caption above each."""
    import io

    pictures = [Image.open(io.BytesIO(panel.content)).convert("RGB") for _, panel in panels]
    gap = _STRIP_GAP_PX
    font = _font(18)
    line_px = sum(font.getmetrics())
    width = sum(picture.width + gap for picture in pictures) + gap
    height = max(picture.height for picture in pictures) + 3 * gap + 2 * line_px
    strip = Image.new("RGB", (width, height), _STRIP_GROUND)
    draw = ImageDraw.Draw(strip)
    for line in _wrapped(_spelled(visible_label(title, limit=300)), font, width - 2 * gap, 1):
        draw.text((gap, gap // 2), line, fill=_STRIP_INK, font=font)
    x = gap
    for (caption, _), picture in zip(panels, pictures, strict=True):
        for line in _wrapped(_spelled(visible_label(caption, limit=200)), font, picture.width, 1):
            draw.text((x, gap + line_px), line, fill=_STRIP_INK, font=font)
        strip.paste(picture, (x, 2 * gap + 2 * line_px))
        x += picture.width + gap
    return encode(strip, PixelSpec(output_format="png"))


@lru_cache(maxsize=32)
def _font(size_px: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size_px)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError("Pillow was built without FreeType")
    return font


def _font_px(width: int, height: int, boxes: int) -> int:
    """Returns a size that can be read when the panel is shown at half its size; smaller where there are many boxes."""
    crowd = min(1.0, math.sqrt(16 / max(boxes, 1)))
    return min(64, max(11, round(max(0.6, crowd) * math.sqrt(width * height) / 30)))


def _spelled(text: str) -> str:
    """Returns a text with its characters replaced that the bundled font lacks and that have a plain spelling."""
    return "".join(character if _has_glyph(character) else _plain(character) for character in text)


def _tag_label(text: str) -> str:
    """Returns what a tag says; nothing where the font lacks most of it: the number alone says more than empty boxes."""
    spelled = _spelled(text)
    lacking = sum(not _has_glyph(character) for character in spelled)
    return "" if 2 * lacking > len(spelled) else spelled


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    plain = _PLAIN.get(character) or unicodedata.normalize("NFKD", character)
    plain = "".join(part for part in plain if not unicodedata.combining(part))
    return plain if plain and all(_has_glyph(part) for part in plain) else character


@lru_cache(maxsize=4096)
def _has_glyph(character: str) -> bool:
    if character == " ":
        return True
    return _ink(character) != _ink(_NO_GLYPH)


def _ink(text: str) -> tuple[tuple[float, ...], bytes]:
    """Returns the size and the pixels of a drawn text."""
    font = _font(16)
    bounds = font.getbbox(text)
    picture = Image.new("L", (32, 32))
    ImageDraw.Draw(picture).text((0, 0), text, fill=255, font=font)
    return bounds, picture.tobytes()


def _opposite(color: Color) -> Color:
    """Returns black on light colours and white on dark ones."""
    red, green, blue = color
    return _BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 128 else _WHITE


def _wrapped(text: str, font: ImageFont.FreeTypeFont, width: int, most_lines: int) -> list[str]:
    """Returns a text in lines no wider than `width`; what does not fit into them is cut off with dots."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < most_lines:
        last = len(lines) == most_lines - 1
        fits = len(rest)
        while fits > 1 and font.getlength(rest[:fits]) > width:
            fits -= 1
        if fits == len(rest):
            lines.append(rest)
            break
        if last:
            lines.append(f"{rest[: max(1, fits - 1)].rstrip()}…")
            break
        space = rest.rfind(" ", 1, fits + 1)
        cut = space if space > 0 else fits
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines
