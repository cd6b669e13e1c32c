"""Boxes in JSON text: found where they stand, and replaced there; every other character stays as it is.

The text is never decoded and written again: numbers keep their spelling, strings their escapes, objects
their order, doubled keys and whitespace. JSON is what Python's `json` reads, NaN and Infinity included,
but nested as deep as one likes.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from sidecar_resize.box_geometry import BoxCounts, box_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sidecar_resize.box_geometry import BoxProblem, MovedBox

_SPACE = r"[ \t\n\r]*+"
_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"
_VALUE = re.compile(
    rf"{_SPACE}(?:(?P<text>{_STRING})|(?P<number>{_NUMBER}|NaN|-?Infinity)|(?P<null>null)|(?P<flag>true|false)"
    r"|(?P<object>\{)|(?P<array>\[))"
)
_KEY = re.compile(rf"{_SPACE}({_STRING}){_SPACE}:")
_NEXT = re.compile(rf"{_SPACE}([,\]}}])")
_END = re.compile(_SPACE)
_SCALAR = rf"(?:{_STRING}|{_NUMBER}|null|true|false)"
_FLAT = rf"(?:{_SCALAR}|\[{_SPACE}(?:{_SCALAR}(?:{_SPACE},{_SPACE}{_SCALAR})*+{_SPACE})?\])"  # or a list of such
_ITEMS = re.compile(rf"(?:{_SPACE}{_FLAT}{_SPACE},)*+")
_FOUR = re.compile(",".join([rf"{_SPACE}({_NUMBER}){_SPACE}"] * 4) + r"\]")
_LONGEST_INT = 20  # digits; a longer whole number is out of any box's range
_CONTAINERS = ("array", "object")


@dataclass(frozen=True, slots=True)
class JsonBox:
    """A box in JSON text.

    Attributes:
        start: position of its first character.
        end: position after its last.
        values: its numbers, int where the text has neither a point nor an exponent; empty when it is no list.
        spans: start and end of each number.
        problem: why it cannot be used, or None.
    """

    start: int
    end: int
    values: tuple[object, ...]
    spans: tuple[tuple[int, int], ...]
    problem: BoxProblem | None


@dataclass(slots=True)
class _Frame:
    """A container that is being read. `items` (kind, start, end) are kept of a list under a key of boxes."""

    is_object: bool
    start: int
    in_box: bool
    keys_before: int
    items: list[tuple[str, int, int]]


def scan_boxes(text: str, bbox_keys: Collection[str]) -> list[JsonBox] | None:
    """Returns the boxes of a JSON text in their order, good and bad, or None when the text is not JSON.

    Args:
        text: a whole JSON text.
        bbox_keys: keys under which boxes stand; see `boxes` for what counts as one.
    """
    scanner = _Scanner(text, bbox_keys)
    return sorted(scanner.found, key=lambda box: box.start) if scanner.run() else None


class _Scanner:
    """Reads a text from its start to its end with a stack of its own, so that no depth is too deep."""

    def __init__(self, text: str, bbox_keys: Collection[str]) -> None:
        self._text = text
        self._bbox_keys = frozenset(bbox_keys)
        self._quoted = {f'"{key}"' for key in bbox_keys}
        self._members = _plain_members(self._bbox_keys)
        self._keys_seen = 0
        self._stack: list[_Frame] = []
        self.found: list[JsonBox] = []

    def run(self) -> bool:
        """Returns whether the text is JSON; `found` then holds its boxes."""
        at, in_box = 0, False
        while True:
            match = _VALUE.match(self._text, at)
            if match is None:
                return False
            kind, at = match.lastgroup or "", match.end()
            start = match.start(kind)
            four = _FOUR.match(self._text, at) if in_box and kind == "array" else None
            if four is not None:
                at = four.end()
                self._four(start, four)
            elif kind in _CONTAINERS:
                frame = _Frame(kind == "object", start, in_box, self._keys_seen, [])
                self._stack.append(frame)
                closing = _NEXT.match(self._text, at)
                if closing is None or closing[1] != ("}" if frame.is_object else "]"):
                    opened = self._next(frame, at)
                    if opened is None:
                        return False
                    at, in_box = opened
                    continue
            elif self._stack:
                self._keep(kind, start, at, in_box=in_box)
            following = self._close(at) if self._stack else (at, False)
            if following is None:
                return False
            at, in_box = following
            if not self._stack:
                return _END.fullmatch(self._text, at) is not None

    def _next(self, frame: _Frame, at: int) -> tuple[int, bool] | None:
        """Reads a key where there is one; returns where the next value begins and whether boxes stand there.

        Members and items that can have nothing to do with boxes are passed in one go.
        """
        if not frame.is_object:
            return (at, True) if frame.in_box else (_end_of(_ITEMS, self._text, at), False)
        match = _KEY.match(self._text, _end_of(self._members, self._text, at))
        if match is None:
            return None
        quoted = match[1]
        in_box = quoted in self._quoted or ("\\" in quoted and json.loads(quoted) in self._bbox_keys)
        self._keys_seen += in_box
        return match.end(), in_box

    def _close(self, at: int) -> tuple[int, bool] | None:
        """Goes past what follows a value: a comma, or the ends of containers; returns where the next begins."""
        while self._stack:
            match = _NEXT.match(self._text, at)
            if match is None:
                return None
            frame, at = self._stack[-1], match.end()
            if match[1] == ",":
                return self._next(frame, at)
            if match[1] != ("}" if frame.is_object else "]"):
                return None
            self._stack.pop()
            self._end(frame, at)
        return at, False

    def _four(self, start: int, match: re.Match[str]) -> None:
        """Notes a list of four numbers, which most boxes are."""
        self._box(start, match.end(), tuple(map(_number, match.groups())), match.regs[1:])
        if not self._stack[-1].is_object:
            self._stack[-1].items.append(("array", start, match.end()))

    def _box(
        self, start: int, end: int, values: tuple[object, ...] = (), spans: tuple[tuple[int, int], ...] = ()
    ) -> None:
        self.found.append(JsonBox(start, end, values, spans, box_problem(values)))

    def _keep(self, kind: str, start: int, end: int, *, in_box: bool) -> None:
        """Notes a value that is no container and stands where boxes do."""
        if not in_box:
            return
        frame = self._stack[-1]
        if not frame.is_object:
            frame.items.append((kind, start, end))
        elif kind != "null":
            self._box(start, end)

    def _end(self, frame: _Frame, end: int) -> None:
        """Judges a container under a key of boxes, which ends here."""
        if not frame.in_box:
            return
        if self._stack and not self._stack[-1].is_object:
            self._stack[-1].items.append(("object" if frame.is_object else "array", frame.start, end))
        if frame.is_object:
            if frame.keys_before == self._keys_seen:
                self._box(frame.start, end)
        elif any(kind in _CONTAINERS for kind, _, _ in frame.items):
            for kind, item_start, item_end in frame.items:
                if kind not in ("null", *_CONTAINERS):
                    self._box(item_start, item_end)
        elif any(kind != "null" for kind, _, _ in frame.items):
            values = tuple(
                _number(self._text[first:last]) if kind == "number" else None for kind, first, last in frame.items
            )
            spans = tuple((first, last) for _, first, last in frame.items)
            self._box(frame.start, end, values, spans)


@lru_cache(maxsize=64)
def _plain_members(bbox_keys: frozenset[str]) -> re.Pattern[str]:
    """Returns a pattern for a run of members without boxes, each with its comma."""
    others = rf"(?!(?:{'|'.join(re.escape(key) for key in sorted(bbox_keys))})\")" if bbox_keys else ""
    key = rf'"{others}[^"\\\x00-\x1f]*+"'
    return re.compile(rf"(?:{_SPACE}{key}{_SPACE}:{_SPACE}{_FLAT}{_SPACE},)*+")


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _number(token: str) -> float:
    """Returns a number as Python reads it; a whole one past any range, which would take long to read, as infinity."""
    if not token.lstrip("-").isdigit():
        return float(token)
    return int(token) if len(token) <= _LONGEST_INT else math.copysign(math.inf, -1 if token[0] == "-" else 1)


def replace_boxes(
    text: str, boxes: Sequence[JsonBox], move: Callable[[Sequence[float]], MovedBox | None]
) -> tuple[str, BoxCounts]:
    """Returns the text with each box moved, null where one was dropped, and the counts of both.

    A number that does not change keeps its spelling; a box keeps the whitespace in it.

    Args:
        text: what `scan_boxes` was given.
        boxes: what it returned.
        move: returns where a good box goes, or None to drop it.
    """
    pieces: list[str] = []
    done = clipped = dropped = 0
    for box in boxes:
        old = cast("Sequence[float]", box.values)
        moved = move(old) if box.problem is None else None
        if moved is None:
            dropped += 1
            pieces += (text[done : box.start], "null")
        else:
            clipped += moved.clipped
            for (start, end), before, after in zip(box.spans, old, moved.box_yxyx_1000, strict=True):
                pieces += (text[done:start], text[start:end] if before == after else repr(after))
                done = end
            pieces.append(text[done : box.end])
        done = box.end
    pieces.append(text[done:])
    return "".join(pieces), BoxCounts(len(boxes), clipped, dropped)
