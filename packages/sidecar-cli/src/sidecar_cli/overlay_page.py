"""An overlay as one self-contained HTML page. Everything from the data is text to it, never markup."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from sidecar_core.errors import StorageError
from sidecar_core.problems import counted
from sidecar_resize.boxes import LabelledBox
from sidecar_resize.spec import OutputFormat

from sidecar_cli.overlay_rows import OverlayPicture, OverlayRow
from sidecar_cli.report.shown_text import shown

PAGE_FORMAT: OutputFormat = "webp"
_BOXES_LISTED = 500
_WIDE_PX = 160  # smaller panels are not stretched to their column
_LABEL_CHARACTERS = 120
_CAPTION_CHARACTERS = 600


def write_page(path: Path, rows: Iterable[OverlayRow], *, facts: Sequence[tuple[str, str]]) -> int:
    """Writes a page row by row, so that one row's panels are held at a time; replaces a file that is there.

    Args:
        path: the file; its folder is made when absent.
        rows: what to show, with panels in `PAGE_FORMAT`.
        facts: what the page says at its top, by name.

    Returns:
        The page's size in bytes.

    Raises:
        StorageError: it cannot be written.
    """
    environment = Environment(
        loader=PackageLoader("sidecar_cli", "templates"), autoescape=True, undefined=StrictUndefined
    )
    template = environment.get_template("overlay.html.jinja")
    stream = template.generate(
        title=shown(path.stem), facts=[(name, shown(text)) for name, text in facts], rows=_rows(rows)
    )
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(stream)
        size_bytes = partial.stat().st_size
        partial.replace(path)
    except OSError as error:
        if isinstance(error, StorageError):  # a shard that cannot be read
            raise
        raise StorageError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return size_bytes


def size_and_boxes(picture: OverlayPicture) -> str:
    """Returns what is said of a picture: its size and number of boxes, or why there is none."""
    panel = picture.panel
    if panel.reason is not None:
        return f"no picture: {panel.reason}"
    count = len(picture.boxes)
    return f"{panel.picture_width} × {panel.picture_height} px · {counted(count, 'box', 'boxes')}"


def _rows(rows: Iterable[OverlayRow]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {
            "key": shown(row.key),
            "rel_path": shown(row.place.rel_path),
            "row": row.place.row,
            "status": shown(row.status) if row.status else "",
            "caption": shown(row.caption, limit=_CAPTION_CHARACTERS) if row.caption else "",
            "pictures": [_picture(row, picture) for picture in row.pictures],
        }


def _picture(row: OverlayRow, picture: OverlayPicture) -> dict[str, Any]:
    panel = picture.panel
    said = size_and_boxes(picture)
    return {
        "name": picture.name,
        "about": said,
        "notes": [shown(note) for note in picture.notes],
        "url": f"data:image/{PAGE_FORMAT};base64,{b64encode(panel.content).decode()}",
        "width": panel.width,
        "height": panel.height,
        "wide": panel.width >= _WIDE_PX,
        "alt": f"{picture.name}: {said}" + (f" ({shown(panel.detail)})" if panel.detail else ""),
        "boxes": [_box(row, box) for box in picture.boxes[:_BOXES_LISTED]],
    }


def _box(row: OverlayRow, box: LabelledBox) -> dict[str, str]:
    top, left, bottom, right = (f"{edge:g}" for edge in box.box_yxyx_1000)
    red, green, blue = row.color(box)
    return {
        "label": shown(box.label, limit=_LABEL_CHARACTERS) if box.label else "",
        "color": f"#{red:02x}{green:02x}{blue:02x}",
        "corners": f"y {top} to {bottom}, x {left} to {right}, of 1000",
    }
