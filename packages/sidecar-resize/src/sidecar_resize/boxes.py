"""Boxes in a structured description: which values they are, and what they are called.

A box stands under one of some keys (`DEFAULT_BBOX_KEYS`), at any depth. There is
- null, or an empty list: no box;
- a list without lists or objects in it: one box;
- a list that holds lists or objects: a list of boxes, each judged for itself, null again being none;
- an object: looked into, for keys of boxes in it;
- anything else (text, a lone number, an object without boxes): a box with other than four numbers.

Pure Python without any imaging library. `description_json` and `description_arrow` move boxes by these rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sidecar_resize.box_geometry import box_problem
from sidecar_resize.description_json import scan_boxes

DEFAULT_BBOX_KEYS = ("bbox", "bounding_box", "box_2d")
LABEL_KEYS = ("label", "name", "text", "title", "object", "category", "class", "description", "caption", "type")
_LONGEST_INT = 400  # digits; a longer one is past any range, and slow to read


@dataclass(frozen=True)
class LabelledBox:
    """A box and what it is of.

    Attributes:
        box_yxyx_1000: (y1, x1, y2, x2), each 0-1000 of the displayed picture, y1 < y2 and x1 < x2.
        label: the nearest text in the same object, or None.
    """

    box_yxyx_1000: tuple[float, float, float, float]
    label: str | None


def find_boxes(description: object, *, bbox_keys: Collection[str] = DEFAULT_BBOX_KEYS) -> list[LabelledBox]:
    """Returns the good boxes of a description in their order; bad ones are left out, and nothing is raised.

    A box's label is that of the object it stands in: its first text that is not blank, those under `label`, `name`,
    `text`, `title`, `object`, `category`, `class`, `description`, `caption` and `type` before others, in this order.
    An object without any takes that of the object it is a member of.

    Args:
        description: JSON text, or its value: dicts, lists, numbers, as an Arrow struct gives them too.
        bbox_keys: keys under which boxes stand.
    """
    keys = frozenset(bbox_keys)
    if not isinstance(description, (str, bytes)):
        return _walk(description, keys)
    try:
        value = json.loads(description, parse_int=_parse_int)
    except RecursionError:  # nested by thousands of levels: the boxes are found, labels are not
        text = description if isinstance(description, str) else description.decode(errors="replace")
        found = scan_boxes(text, keys) or ()
        return [LabelledBox(_as_box(box.values), None) for box in found if box.problem is None]
    except ValueError:
        return []
    return _walk(value, keys)


def _walk(description: object, keys: frozenset[str]) -> list[LabelledBox]:
    """Goes through a value in its order, without recursion: descriptions may be nested by thousands of levels."""
    found: list[LabelledBox] = []
    ahead: list[tuple[object, bool, str | None]] = [(description, False, None)]  # value, under a key of boxes, label
    while ahead:
        value, in_box, label = ahead.pop()
        if isinstance(value, Mapping):
            members = cast("Mapping[object, object]", value)
            label = _label(members, keys) or label
            ahead += reversed([(child, key in keys, label) for key, child in members.items()])
        elif isinstance(value, (list, tuple)):
            items = cast("Sequence[object]", value)
            if in_box and not any(isinstance(item, (Mapping, list, tuple)) for item in items):
                if box_problem(items) is None:
                    found.append(LabelledBox(_as_box(items), label))
            else:
                ahead += reversed([(item, in_box, label if in_box else None) for item in items])
    return found


def _label(members: Mapping[object, object], keys: frozenset[str]) -> str | None:
    texts = {
        key: value.strip()
        for key, value in members.items()
        if key not in keys and isinstance(value, str) and value.strip()
    }
    named = (texts[key] for key in LABEL_KEYS if key in texts)
    return next(named, next(iter(texts.values()), None))


def _as_box(values: Sequence[object]) -> tuple[float, float, float, float]:
    top, left, bottom, right = cast("Sequence[float]", values)
    return top, left, bottom, right


def _parse_int(digits: str) -> float:
    return int(digits) if len(digits) <= _LONGEST_INT else float(digits)
