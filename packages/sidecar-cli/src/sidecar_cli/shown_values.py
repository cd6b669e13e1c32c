"""Values of rows as a terminal and as JSON show them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

_CELL_CHARACTERS = 60


def as_json(value: object) -> object:
    """Returns a value of a row as JSON has it: bytes as their number, times and other things as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value):,} bytes>"
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [as_json(each) for each in cast("Sequence[object]", value)]
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if callable(isoformat) else str(value)


def as_cell(value: object, *, limit: int = _CELL_CHARACTERS) -> object:
    """Returns a value of a row for a table: one line, with the rest of a long one and of long numbers left out."""
    plain = as_json(value)
    if plain is None or isinstance(plain, (bool, int, float)):
        return plain
    text = plain if isinstance(plain, str) else json.dumps(_with_short_numbers(plain), ensure_ascii=False)
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _with_short_numbers(plain: object) -> object:
    """Returns a JSON value with floats cut to four digits, or to their whole ones when they have more."""
    if isinstance(plain, float):
        return plain and round(plain, max(0, 3 - math.floor(math.log10(abs(plain)))))
    if isinstance(plain, dict):
        return {name: _with_short_numbers(each) for name, each in cast("dict[str, object]", plain).items()}
    if isinstance(plain, list):
        return [_with_short_numbers(each) for each in cast("list[object]", plain)]
    return plain
