"""Boxes with labels on an upright picture, and what stands in for a picture that cannot be shown.

This module loads no imaging library; its `draw_*` functions do, so that they run in isolated children only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from sidecar_resize.spec import OutputFormat, PixelSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sidecar_resize.boxes import LabelledBox

Color = tuple[int, int, int]

# Told apart from each other and from most pictures; each box has a rim of the opposite lightness besides.
PALETTE: tuple[Color, ...] = (
    (230, 25, 75),
    (60, 180, 75),
    (255, 225, 25),
    (67, 99, 216),
    (245, 130, 49),
    (145, 30, 180),
    (66, 212, 244),
    (240, 50, 230),
    (191, 239, 69),
    (250, 190, 212),
    (0, 128, 128),
    (220, 190, 255),
    (154, 99, 36),
    (170, 255, 195),
)


@dataclass(frozen=True)
class PanelRequest:
    """One panel to draw.

    Attributes:
        image: the encoded picture, whole or broken, in any format; None for a null.
        boxes: what to draw on it, numbered from 1 in this order.
        reason: why there is no picture, when that is known already; `image` is not looked at then.
        detail: the fact behind the reason.
        colors: colour of each label; one that is missing has its own, by `label_colors`.
    """

    image: bytes | memoryview | None
    boxes: tuple[LabelledBox, ...] = ()
    reason: str | None = None
    detail: str | None = None
    colors: Mapping[str, Color] = field(default_factory=dict)


@dataclass(frozen=True)
class PanelStyle:
    """How panels are drawn.

    Attributes:
        max_side_px: the longer side of a panel at most; larger pictures are scaled down. None: as they are.
        output_format: format of the panel's bytes.
        max_pixels: a picture that declares more is not decoded.
    """

    max_side_px: int | None = None
    output_format: OutputFormat = "png"
    max_pixels: int = PixelSpec.max_pixels


@dataclass(frozen=True)
class OverlayPanel:
    """A drawn panel.

    Attributes:
        content: the encoded panel, without metadata.
        width: of the panel, px.
        height: of the panel, px.
        picture_width: of the picture as displayed, px; None when not known.
        picture_height: likewise.
        reason: why a placeholder stands in for the picture; None when the picture is there.
        detail: the fact behind the reason, or None.
    """

    content: bytes
    width: int
    height: int
    picture_width: int | None = None
    picture_height: int | None = None
    reason: str | None = None
    detail: str | None = None


def draw_overlay(
    image: bytes | memoryview | None,
    boxes: Sequence[LabelledBox],
    *,
    max_side_px: int | None = None,
    output_format: OutputFormat = "png",
) -> bytes:
    """Returns the picture as displayed (upright, 8-bit sRGB, on white) with its boxes; for isolated children.

    Each box has the colour of its label, a rim that contrasts with it, and a filled tag with its number and
    label inside the picture; where tags would cover each other, the number alone. What lies beyond the picture
    is cut off. A picture that cannot be used gives a placeholder that says why.

    Args:
        image: the encoded picture, whole or broken, in any format; None for a null.
        boxes: with coordinates of the displayed picture.
        max_side_px: scale a larger picture down to this longer side.
        output_format: png, webp or jpeg.
    """
    return draw_panel(PanelRequest(image, tuple(boxes)), PanelStyle(max_side_px, output_format)).content


def draw_panel(request: PanelRequest, style: PanelStyle) -> OverlayPanel:
    """Draws one panel; runs in an isolated child, and raises nothing on bad bytes."""
    from sidecar_core.reasons import Reason

    from sidecar_resize.headers import UnusableImageError
    from sidecar_resize.overlay_drawing import draw_boxes, encode_panel, load_upright, placeholder

    if request.reason is not None:
        return placeholder(request.reason, request.detail, style)
    if request.image is None:
        return placeholder(Reason.MISSING, None, style)
    try:
        picture, size = load_upright(bytes(request.image), style)
        labels = [box.label for box in request.boxes if box.label is not None]
        draw_boxes(picture, request.boxes, {**label_colors(labels), **request.colors})
        return OverlayPanel(encode_panel(picture, style), picture.width, picture.height, *size)
    except UnusableImageError as problem:
        return placeholder(problem.reason, problem.detail, style)
    except MemoryError:
        return placeholder(Reason.OUT_OF_MEMORY, "the memory cap was reached while decoding", style)
    except Exception as error:  # noqa: BLE001 - whatever bad bytes bring about costs one panel, and is said
        return placeholder(Reason.DECODE_FAILED, f"{type(error).__name__}: {str(error)[:200]}", style)


def draw_strip(panels: Sequence[tuple[str, OverlayPanel]], title: str) -> bytes:
    """Returns one PNG of panels side by side, each below its caption; runs in an isolated child."""
    from sidecar_resize.overlay_drawing import draw_strip as draw

    return draw(panels, title)


def label_colors(labels: Iterable[str]) -> dict[str, Color]:
    """Returns a colour for each label: the same for the same set of labels, and different ones while they last."""
    colors: dict[str, Color] = {}
    taken: set[int] = set()
    for label in sorted(set(labels)):
        digest = blake2b(label.encode(errors="surrogatepass"), digest_size=8).digest()
        slot = int.from_bytes(digest, "little") % len(PALETTE)
        if len(taken) == len(PALETTE):
            taken.clear()
        while slot in taken:
            slot = (slot + 1) % len(PALETTE)
        taken.add(slot)
        colors[label] = PALETTE[slot]
    return colors


def unlabelled_color() -> Color:
    """Returns the colour of boxes without a label."""
    return PALETTE[0]
