"""Text from data as it may be shown: no control characters, no changes of writing direction, no endless strings."""

from __future__ import annotations

import re

import pyarrow as pa
from sidecar_core.python_values import python_value, python_values

SHOWN_CHARACTERS = 240
_TAIL_CHARACTERS = 60  # file names differ at their end
# control characters, marks that turn the direction of writing or cannot be seen, and halves of surrogate pairs
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def shown(value: object, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Returns what a page shows for a value: safe to encode, at most about `limit` characters.

    What could not be seen, or would change what is seen around it, is written as an escape. A long text
    loses its middle, and says how long it is.
    """
    text = _text_of(value)
    length = len(text)
    if length > limit:
        tail = min(_TAIL_CHARACTERS, limit // 4)
        text = f"{text[: limit - tail]} … {text[length - tail :]} ({length:,} characters)"
    return _UNSAFE.sub(_escaped, text)


def value_at(array: pa.Array | pa.ChunkedArray, row: int) -> object:
    """Returns one value of an array; text that is not UTF-8 comes as its bytes."""
    return python_value(array[row])


def values_of(array: pa.Array) -> list[object]:
    """Returns all values of an array, as `value_at` does."""
    return python_values(array)


def _text_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (bytes, bytearray, memoryview)):
        head = bytes(value[: 4 * SHOWN_CHARACTERS])
        text = head.decode(errors="backslashreplace")
        return text if len(value) <= len(head) else f"{text} … ({len(value):,} bytes)"
    return str(value)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    known = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
    return known.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
