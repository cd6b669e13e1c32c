"""Where the tags of boxes go, so that they can be read: rectangles in, rectangles out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Rect = tuple[int, int, int, int]  # left, top, right, bottom in px; right and bottom outside

MOST_TAGS = 400  # more could neither be read nor placed in a bearable time
_LABEL_CHARACTERS = 48
# control characters, marks of writing direction and without width, and halves of surrogate pairs
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]+"
)


@dataclass(frozen=True)
class Tag:
    """A tag and where it goes.

    Attributes:
        index: of its box.
        text: what it says.
        rect: where it is, inside the picture.
    """

    index: int
    text: str
    rect: Rect


def visible_label(label: str | None, *, limit: int = _LABEL_CHARACTERS) -> str:
    """Returns a label on one line, without what cannot be seen, at most `limit` characters; empty for none."""
    text = " ".join(_UNSEEN.sub(" ", (label or "")[: 8 * limit]).split())
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def box_rect(box_yxyx_1000: tuple[float, float, float, float], width: int, height: int) -> Rect | None:
    """Returns the pixels of a box, clipped to the picture, at least one; None when none of it is in the picture.

    Args:
        box_yxyx_1000: (y1, x1, y2, x2), 0-1000 of the displayed picture; may lie beyond it.
        width: of the picture, px.
        height: of the picture, px.
    """
    if not all(math.isfinite(edge) for edge in box_yxyx_1000):
        return None
    y1, x1, y2, x2 = (min(max(edge, -1e6), 1e6) for edge in box_yxyx_1000)
    if not (y1 < y2 and x1 < x2 and y1 < 1000 and x1 < 1000 and y2 > 0 and x2 > 0):
        return None
    left, top = (max(0, round(edge * side / 1000)) for edge, side in ((x1, width), (y1, height)))
    right, bottom = (min(side, round(edge * side / 1000)) for edge, side in ((x2, width), (y2, height)))
    left, top = min(left, width - 1), min(top, height - 1)
    return left, top, max(right, left + 1), max(bottom, top + 1)


def place_tags(
    boxes: Sequence[Rect | None],
    labels: Sequence[str],
    size: tuple[int, int],
    *,
    measure: Callable[[str], int],
    tag_height: int,
) -> list[Tag]:
    """Places a tag for each box, none outside the picture, and apart from each other where there is room.

    A tag says the box's number and label; where that would cover another tag, the number alone.

    Args:
        boxes: the boxes in the picture; None for one that is not seen, which gets no tag.
        labels: what each is called; empty for no label.
        size: (width, height) of the picture, px.
        measure: returns the width of a tag with a text, px.
        tag_height: of every tag, px.
    """
    width, height = size
    if tag_height > height:
        return []
    placed: list[Tag] = []
    for index, (rect, label) in enumerate(zip(boxes, labels, strict=True)):
        if rect is None:
            continue
        if len(placed) == MOST_TAGS:
            break
        number = str(index + 1)
        texts = dict.fromkeys((_fitting(f"{number} {label}".rstrip(), width, measure), number))
        tag = _best_tag(index, rect, {text: measure(text) for text in texts if text}, tag_height, size, placed)
        if tag is not None:
            placed.append(tag)
    return placed


def _best_tag(
    index: int, rect: Rect, texts: dict[str, int], height: int, size: tuple[int, int], placed: Sequence[Tag]
) -> Tag | None:
    """Returns the first tag that covers no other, else the one that covers least; None when none fits the picture.

    Args:
        index: of the box.
        rect: the box.
        texts: what the tag may say, best first, with the widths.
        height: of the tag.
        size: of the picture.
        placed: the tags that are there.
    """
    best: Tag | None = None
    least = 0
    for text, width in texts.items():
        if width > size[0]:
            continue
        for spot in _spots(rect, width, height, size):
            covered = sum(_overlap(spot, other.rect) for other in placed)
            if covered == 0:
                return Tag(index, text, spot)
            if best is None or covered < least:
                best, least = Tag(index, text, spot), covered
    return best


def _fitting(text: str, width: int, measure: Callable[[str], int]) -> str:
    """Returns the text, cut until its tag is no wider than `width`; empty when nothing is."""
    if measure(text) <= width:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        if measure(f"{text[:middle].rstrip()}…") <= width:
            low = middle
        else:
            high = middle - 1
    return f"{text[:low].rstrip()}…" if low else ""


def _spots(box: Rect, width: int, height: int, size: tuple[int, int]) -> list[Rect]:
    """Returns where a tag may stand: on the box, in it, below it, at its left and at its right."""
    left, top, right, bottom = box
    spots: list[Rect] = []
    for x in (left, right - width):
        for y in (top - height, top, bottom, bottom - height):
            inside = min(max(x, 0), size[0] - width)
            if 0 <= y <= size[1] - height:
                spots.append((inside, y, inside + width, y + height))
    if not spots:  # a box lower than its tag at the picture's edge
        x, y = min(max(left, 0), size[0] - width), min(max(top, 0), size[1] - height)
        spots.append((x, y, x + width, y + height))
    return spots


def _overlap(one: Rect, other: Rect) -> int:
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return across * down if across > 0 and down > 0 else 0
