"""What an overlay shows of each row: its pictures with their boxes, drawn in isolated children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationPool
from sidecar_resize.boxes import LabelledBox
from sidecar_resize.overlay import (
    Color,
    OverlayPanel,
    PanelRequest,
    PanelStyle,
    draw_panel,
    label_colors,
    unlabelled_color,
)

from sidecar_cli.overlay_places import RowPlace
from sidecar_cli.overlay_shards import FoundRow, ShardRows
from sidecar_cli.overlay_sources import OverlaySource

_DRAW_TIMEOUT_S = 60.0
_CAUSES = ("crashed", "timeout", "out_of_memory")


@dataclass(frozen=True)
class OverlayPicture:
    """One picture of a row, drawn.

    Attributes:
        name: `original`, or the side of the resized dataset: `512`.
        panel: what was drawn.
        boxes: the boxes on it, numbered from 1 in this order.
        notes: what else is known of its boxes: clipped, dropped, or why there are none.
    """

    name: str
    panel: OverlayPanel
    boxes: tuple[LabelledBox, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OverlayRow:
    """What is shown of a row.

    Attributes:
        place: where it is.
        key: its key as stored.
        caption: the main dataset's `caption` of it, when it has such a column of text.
        status: `status` of `bbox_resize_meta`, or None without any.
        pictures: the original, then one a resized dataset.
        colors: colour of each label.
    """

    place: RowPlace
    key: object
    caption: str | None
    status: str | None
    pictures: tuple[OverlayPicture, ...]
    colors: Mapping[str, Color]

    def color(self, box: LabelledBox) -> Color:
        """Returns the colour in which a box is drawn."""
        return self.colors.get(box.label, unlabelled_color()) if box.label else unlabelled_color()


def sample_overlays(
    source: OverlaySource, places: Sequence[RowPlace], *, isolation: IsolationPool, style: PanelStyle | None = None
) -> list[OverlayRow]:
    """Returns what is shown of rows, all at once; see `iter_overlays`, which holds one row at a time."""
    return list(iter_overlays(source, places, isolation=isolation, style=style))


def iter_overlays(
    source: OverlaySource, places: Sequence[RowPlace], *, isolation: IsolationPool, style: PanelStyle | None = None
) -> Iterator[OverlayRow]:
    """Yields what is shown of each row, in the order of `places`; no other rows' pictures are held.

    A picture that cannot be used, or that its child does not survive, becomes a panel that says why.

    Args:
        source: where pictures and boxes are.
        places: the rows; those of one shard after each other are read from one opening of it.
        isolation: the children that draw.
        style: how panels are drawn; default PNG at full size.

    Raises:
        AlignmentError: a row's key in a resized dataset or in the sidecar is another than in the main shard.
        ShardError: a shard is damaged or lacks a column.
    """
    for rel_path, group in groupby(places, key=lambda place: place.rel_path):
        with ExitStack() as opened:
            rows = ShardRows(source, rel_path, opened)
            for place in group:
                yield _drawn(rows.row(place.row), place, isolation, style or PanelStyle())


def _drawn(found: FoundRow, place: RowPlace, isolation: IsolationPool, style: PanelStyle) -> OverlayRow:
    labels = {box.label for picture in found.pictures for box in picture.boxes if box.label is not None}
    colors = label_colors(labels)
    requests = [
        PanelRequest(picture.image, picture.boxes, picture.reason, picture.detail, colors) for picture in found.pictures
    ]
    panels = isolation.map_rows(draw_panel, requests, common=style, timeout_s=_DRAW_TIMEOUT_S)
    pictures: list[OverlayPicture] = []
    for picture, drawn in zip(found.pictures, panels, strict=True):
        panel = _panel(drawn, isolation, style)
        notes = picture.notes if panel.reason is None else ()  # of boxes that are not shown
        pictures.append(OverlayPicture(picture.name, panel, picture.boxes, notes))
    return OverlayRow(place, found.key, found.caption, found.status, tuple(pictures), colors)


def _panel(drawn: object, isolation: IsolationPool, style: PanelStyle) -> OverlayPanel:
    """Returns a panel; of a picture that its child did not survive, one that says so."""
    if not isinstance(drawn, WorkerCallFailed):
        return cast("OverlayPanel", drawn)
    reason = drawn.cause if drawn.cause in _CAUSES else "decode_failed"
    return isolation.call(draw_panel, PanelRequest(None, reason=reason, detail=drawn.detail or drawn.message), style)
