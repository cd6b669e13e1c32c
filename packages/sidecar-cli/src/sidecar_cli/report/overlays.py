"""Pictures with boxes for a report, when an output holds moved boxes."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar_core.errors import SidecarError
from sidecar_core.isolation import IsolationPool
from sidecar_resize.overlay import PanelStyle

from sidecar_cli.overlay_places import choose_rows
from sidecar_cli.overlay_rows import OverlayPicture
from sidecar_cli.overlay_rows import OverlayRow as DrawnRow
from sidecar_cli.overlay_sources import DESCRIPTION_COLUMN, find_source
from sidecar_cli.report.figures import OverlayRow, Picture, RowPlace
from sidecar_cli.report.shown_text import shown

_META = "bbox_resize_meta"
_SIDE_PX = 320


def has_boxes(columns: Iterable[str]) -> bool:
    """Returns whether an output with these columns holds moved boxes."""
    return _META in columns


def collect_overlays(
    prefix: str, *, main_prefix: str, key_column: str, image_column: str, rows: int, isolation: IsolationPool
) -> tuple[tuple[OverlayRow, ...], str]:
    """Returns rows with their pictures and boxes, and why there are none, or an empty text.

    Args:
        prefix: the output with moved boxes.
        main_prefix: the main dataset.
        key_column: its key column.
        image_column: its image column.
        rows: how many to draw.
        isolation: the children that draw.
    """
    from sidecar_cli.overlay_rows import sample_overlays

    options = {
        "main_prefix": main_prefix,
        "output_prefix": None,
        "resized": [],
        "key_column": key_column,
        "image_column": image_column,
        "description_column": DESCRIPTION_COLUMN,
        "bbox_key": [],
    }
    try:
        source = find_source(prefix, options)
        # twice as many, since rows without boxes are drawn too
        places = choose_rows(source, 3 * rows)
        drawn = sample_overlays(source, places, isolation=isolation, style=PanelStyle(_SIDE_PX, "webp"))
    except (SidecarError, OSError) as error:
        return (), shown(error, limit=600)
    ranked = sorted(drawn, key=lambda row: not any(picture.boxes for picture in row.pictures))
    return tuple(_row(each) for each in ranked[:rows]), ""


def _row(drawn: DrawnRow) -> OverlayRow:
    place = RowPlace(shown(drawn.place.rel_path), drawn.place.row)
    return OverlayRow(shown(drawn.key), place, tuple(_panel(each) for each in drawn.pictures))


def _panel(drawn: OverlayPicture) -> tuple[str, Picture, str]:
    panel = drawn.panel
    if panel.reason is not None:
        return shown(drawn.name), Picture(None, note=shown(f"{panel.reason}: {panel.detail or 'no picture'}")), ""
    size = f"{panel.picture_width:,} × {panel.picture_height:,} px" if panel.picture_width else ""
    labels = ", ".join(shown(box.label, limit=60) if box.label else "(no label)" for box in drawn.boxes)
    words = "; ".join([labels or "no box", *(shown(note) for note in drawn.notes)])
    return (
        shown(drawn.name),
        Picture(panel.content, "image/webp", panel.width, panel.height, size=size),
        shown(words, limit=400),
    )
