"""What `sidecar overlay` does: finds the rows, shows them, and words the result."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.problems import counted
from sidecar_core.storage.uris import scheme_of
from sidecar_resize.overlay import PanelStyle

from sidecar_cli.output import Block, Facts, Table
from sidecar_cli.overlay_page import PAGE_FORMAT, write_page
from sidecar_cli.overlay_places import RowPlace, choose_rows, find_rows, parse_rows
from sidecar_cli.overlay_rows import OverlayPicture, OverlayRow, iter_overlays
from sidecar_cli.overlay_sources import OverlaySource, find_source, require_shards
from sidecar_cli.overlay_strips import refuse_full_folder, write_strips
from sidecar_cli.report.shown_text import shown

_LINE_EVERY_S = 10.0


def make_overlay(what: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Draws an overlay and returns what is in it, as JSON values.

    Args:
        what: a pipeline YAML, a sidecar's prefix, or None.
        options: those of the command.

    Raises:
        UsageError: flags do not go together, or name what is not there.
        RefusedError: the output would be written into a dataset, or into a folder with something in it.
        AlignmentError: a shown row has another key in a sidecar or in a resized dataset.
        ShardError: a shard is damaged.
    """
    for name, least in (("sample", 1), ("max_side", 32)):
        if options[name] < least:
            raise UsageError(f"--{name.replace('_', '-')} {options[name]}: must be at least {least}")
    source = find_source(what, options)
    target = _target(options["out"], source)
    require_shards(source)
    places = _places(source, options)
    told: list[dict[str, Any]] = []
    pool = IsolationOptions() if options["workers"] is None else IsolationOptions(workers=options["workers"])
    page = target.suffix.lower() in (".html", ".htm")
    style = PanelStyle(options["max_side"], PAGE_FORMAT if page else "png")
    with IsolationPool(pool) as isolation:
        rows = _told(iter_overlays(source, places, isolation=isolation, style=style), len(places), told)
        if page:
            size_bytes = write_page(target, rows, facts=[*source.prefixes.items(), ("rows", f"{len(places):,}")])
        else:
            size_bytes = sum(path.stat().st_size for path in write_strips(target, rows, isolation=isolation))
    return {"output": str(target), "bytes": size_bytes, "sources": source.prefixes, "rows": told}


def overlay_view(data: Mapping[str, Any]) -> list[Block]:
    """Returns the result for people."""
    names = [picture["name"] for picture in data["rows"][0]["pictures"]]
    cells = [
        (row["shard"], row["row"], row["key"], *(_cell(picture) for picture in row["pictures"])) for row in data["rows"]
    ]
    written = f"{data['output']}  ({data['bytes']:,} bytes)"
    return [
        Facts([*data["sources"].items()]),
        Table(("shard", "row", "key", *names), cells),
        Facts([("written", written)]),
    ]


def _places(source: OverlaySource, options: Mapping[str, Any]) -> list[RowPlace]:
    keys: Sequence[str] = options["key"]
    subprefix = options["input_subprefix"]
    named = parse_rows(source, options["row"])
    if keys:
        named += find_rows(source, keys, subprefix=subprefix)
    if named:
        return list(dict.fromkeys(named))
    return choose_rows(source, options["sample"], seed=options["seed"], subprefix=subprefix)


def _target(text: str, source: OverlaySource) -> Path:
    """Returns where the overlay goes; never into what it reads, nor among other files."""
    if scheme_of(text) != "file" or text.startswith("file:"):
        raise UsageError(f"-o {text!r}: must be a local file or folder", fix="-o overlay.html")
    target = Path(text).absolute()
    for name, prefix in source.prefixes.items():
        if scheme_of(prefix) == "file" and target.resolve().is_relative_to(Path(prefix).resolve()):
            raise RefusedError(
                f"-o {text!r} lies in the {name} at {prefix}", None, "-o overlay.html, in another folder"
            )
    if target.suffix.lower() not in (".html", ".htm"):
        refuse_full_folder(target)
    elif target.is_dir():
        raise UsageError(f"-o {text!r} is a folder", "a file that ends with .html, or a folder without that ending")
    return target


def _told(rows: Iterable[OverlayRow], total: int, told: list[dict[str, Any]]) -> Iterator[OverlayRow]:
    """Passes rows on, notes what is said of each, and shows on stderr how far it is."""
    on_terminal = sys.stderr.isatty()
    last_s = time.monotonic()
    for done, row in enumerate(rows, 1):
        told.append(_describe(row))
        if on_terminal:
            sys.stderr.write(f"\rrows drawn: {done}/{total}" + ("\n" if done == total else ""))
        elif done == total or time.monotonic() - last_s >= _LINE_EVERY_S:
            sys.stderr.write(f"rows drawn: {done}/{total}\n")
            last_s = time.monotonic()
        sys.stderr.flush()
        yield row


def _describe(row: OverlayRow) -> dict[str, Any]:
    return {
        "shard": row.place.rel_path,
        "row": row.place.row,
        "key": shown(row.key),
        "status": row.status,
        "pictures": [_describe_picture(picture) for picture in row.pictures],
    }


def _describe_picture(picture: OverlayPicture) -> dict[str, Any]:
    panel = picture.panel
    return {
        "name": picture.name,
        "width": panel.picture_width,
        "height": panel.picture_height,
        "reason": panel.reason,
        "detail": panel.detail,
        "notes": list(picture.notes),
        "boxes": [{"label": box.label, "box_yxyx_1000": list(box.box_yxyx_1000)} for box in picture.boxes],
    }


def _cell(picture: Mapping[str, Any]) -> str:
    said = picture["reason"] or counted(len(picture["boxes"]), "box", "boxes")
    return ", ".join([said, *picture["notes"]])
