"""The page: figures to one self-contained HTML file. Everything from the data is text to it, never markup."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from sidecar_cli.report import charts, words
from sidecar_cli.report.extremes import number_text
from sidecar_cli.report.figures import MeasureFigures, NotedRow, Picture, ReportData
from sidecar_cli.report.shown_text import shown

MARK = "<!-- made by: sidecar report -->"
_TEMPLATES = "report/templates"
PICTURES_LIMIT_BYTES = 6 * 2**20  # of the page; as base64 they are a third larger
_FAILED_SHOWN = 200
_NO_PICTURE = Picture(None, note="there is no picture")
_PAGE_FULL = Picture(None, note="left out: the page would become too large")


def render_page(data: ReportData) -> Iterator[str]:
    """Yields the page's text in pieces. It is valid UTF-8 whatever the data hold."""
    environment = Environment(
        loader=PackageLoader("sidecar_cli", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "number": number_text,
        "percent": words.percent,
        "bytes": words.byte_size,
        "duration": words.duration,
        "moment": words.moment,
        "below": _below,
        "pieces": _pieces,
    }
    environment.filters.update(filters)
    style, script = (_own_text(name) for name in ("report.css", "report.js"))
    template = environment.get_template("report.html.jinja")
    return template.generate(
        data=data,
        mark=MARK,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        charts=charts,
        pictures=_PagePictures(data),
        measure_groups=[(name, list(group)) for name, group in groupby(data.measures, key=_column)],
        reason_groups=_reason_groups(data),
        failed_filters=_by_filter(data),
        failed_shards=_failed_shards(data),
        value_groups=[(name, list(group)) for name, group in groupby(data.values, key=lambda each: each.column)],
    )


@dataclass
class _PagePictures:
    """Hands pictures to the template as data URLs, until the page holds enough of them."""

    data: ReportData
    used_bytes: int = 0

    def of(self, row: NotedRow) -> Picture:
        """Returns a row's picture, or one that says why there is none."""
        return self.within_limit(self.data.pictures.get(row.place, _NO_PICTURE))

    def within_limit(self, picture: Picture) -> Picture:
        """Returns the picture while the page has room for it."""
        self.used_bytes += len(picture.content or b"")
        return picture if picture.content is None or self.used_bytes <= PICTURES_LIMIT_BYTES else _PAGE_FULL

    def url(self, picture: Picture) -> str:
        """Returns a picture's bytes as a data URL."""
        return f"data:{picture.mime};base64,{b64encode(picture.content or b'').decode()}"


def _reason_groups(data: ReportData) -> list[tuple[list[str], Mapping[str, int]]]:
    """Returns invalid rows by reason with the columns that have the same counts, columns without any left out."""
    groups: list[tuple[list[str], Mapping[str, int]]] = []
    for column, counts in data.reasons.items():
        same = next((names for names, others in groups if others == counts), None)
        if same is not None:
            same.append(column)
        elif counts:
            groups.append(([column], counts))
    return groups


def _by_filter(data: ReportData) -> tuple[list[str], dict[str, dict[str, int]]]:
    """Returns the reasons for which filters failed, most rows first, and rows by filter and reason."""
    reasons: Counter[str] = Counter()
    filters: dict[str, dict[str, int]] = {}
    for name, reason, rows in data.failed_filters:
        reasons[reason] += rows
        filters.setdefault(name, {})[reason] = rows
    return [reason for reason, _ in reasons.most_common()], dict(sorted(filters.items()))


def _failed_shards(data: ReportData) -> list[dict[str, str]]:
    """Returns failed shards as text, whatever the file that lists them holds."""
    names = ("shard", "error_type", "error", "attempts")
    return [
        {name: shown(each.get(name, ""), limit=600) for name in names}
        for each in data.status.failed_shards[:_FAILED_SHOWN]
        if isinstance(each, dict)
    ]


def _below(path: str, column: str) -> str:
    """Returns a leaf's path below its column; the column's name for a column that is a leaf."""
    return path.removeprefix(f"{column}.")


def _pieces(name: str) -> list[str]:
    """Returns a name in pieces between which it may be broken: after underscores and dots."""
    return re.findall(r"[^_.]*[_.]+|[^_.]+$", name) or [name]


def _column(measure: MeasureFigures) -> str:
    return measure.column


def _own_text(name: str) -> str:
    return files("sidecar_cli").joinpath(f"{_TEMPLATES}/{name}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Returns what a content security policy calls a text, so that no other style or script is taken."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
