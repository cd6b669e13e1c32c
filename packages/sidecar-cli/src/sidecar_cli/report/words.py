"""How the page words numbers."""

from __future__ import annotations

from datetime import UTC, datetime


def percent(part: float, whole: float) -> str:
    """Returns a share in percent: 0 % only for none, 100 % only for all."""
    if not whole:
        return "–"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "> 99.9 %"
    return f"{share:.1f} %" if share % 1 else f"{share:.0f} %"


def byte_size(size: float) -> str:
    """Returns a size in bytes with a binary unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError


def duration(seconds: float) -> str:
    """Returns a time span: seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes / 60:,.1f} h"


def moment(text: str) -> str:
    """Returns a time in ISO 8601 as people read it, in UTC; another text as it is."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return text
