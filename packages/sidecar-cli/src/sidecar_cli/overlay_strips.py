"""An overlay as a folder of PNG files: one a row, its pictures side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sidecar_core.errors import RefusedError, StorageError
from sidecar_core.isolation import IsolationPool
from sidecar_resize.overlay import draw_strip

from sidecar_cli.overlay_page import size_and_boxes
from sidecar_cli.overlay_rows import OverlayRow
from sidecar_cli.report.shown_text import shown

_NAME_CHARACTERS = 80
_DRAW_TIMEOUT_S = 60.0


def refuse_full_folder(folder: Path) -> None:
    """Raises RefusedError when there is something in the folder, or it is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RefusedError(
            f"{str(folder)!r} is there and not an empty folder",
            "a new or empty folder, or a file that ends with .html",
            "-o ANOTHER_FOLDER",
        )


def write_strips(folder: Path, rows: Iterable[OverlayRow], *, isolation: IsolationPool) -> list[Path]:
    """Writes a PNG for each row, and returns their paths.

    Raises:
        StorageError: one cannot be written.
        WorkerCallFailed: one cannot be drawn.
    """
    written: list[Path] = []
    for number, row in enumerate(rows, 1):
        captions = [" · ".join((f"{each.name}: {size_and_boxes(each)}", *each.notes)) for each in row.pictures]
        panels = [(caption, picture.panel) for caption, picture in zip(captions, row.pictures, strict=True)]
        title = f"{shown(row.key)}  ({row.place.rel_path} row {row.place.row})"
        content = isolation.call(draw_strip, panels, title, timeout_s=_DRAW_TIMEOUT_S)
        path = folder / f"{number:03d}-{_file_name(row.key)}.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise StorageError(f"{str(path)!r} cannot be written: {error.strerror}") from error
        written.append(path)
    return written


def _file_name(key: object) -> str:
    """Returns a key as every file system takes it; the number before it keeps names apart."""
    name = re.sub(r"[^\w.-]+", "_", shown(key)).strip("._")[-_NAME_CHARACTERS:]
    return name.encode()[-2 * _NAME_CHARACTERS :].decode(errors="ignore") or "row"
