"""What happens to one row in an isolated child: decode what is needed, once, and measure."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sidecar_core.isolation import native_stderr
from sidecar_core.reasons import Reason

from sidecar_filters.base import DEFAULT_MAX_PIXELS, Filter, Picture, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = float | int | bool | str | None

DECODING = "decode"
_NO_MEMORY = -4  # cv::Error::StsNoMem
_LONGEST_DETAIL = 1000


@dataclass(frozen=True)
class MeasureSpec:
    """What to measure on every row: sent once to each child.

    Attributes:
        filters: the filters, in the order of the output.
        max_pixels: pictures with more pixels than this, by their header, are not decoded.
    """

    filters: tuple[Filter, ...]
    max_pixels: int = DEFAULT_MAX_PIXELS


class RowTask(NamedTuple):
    """A row, and the names of the filters to run on it: all, or, after a crash, those that are left."""

    image: object  # bytes, or a buffer, which arrives as bytes
    names: tuple[str, ...]


@dataclass(frozen=True)
class RowMeasures:
    """What became of one row.

    Attributes:
        values: per filter, its measures; a filter without any is missing.
        failed: per filter without a full set of measures, why.
        details: facts about the failures.
    """

    values: dict[str, dict[str, Value]] = field(default_factory=dict[str, "dict[str, Value]"])
    failed: dict[str, Reason] = field(default_factory=dict[str, Reason])
    details: tuple[str, ...] = ()


def measure_row(task: RowTask, spec: MeasureSpec) -> RowMeasures:
    """Measures one row. Runs in an isolated child, and may not return.

    Raises:
        MemoryError, cv2.error: memory was short.
    """
    filters = [each for each in spec.filters if each.name in task.names]
    data = cast("bytes", task.image)
    picture = Picture(data, max_pixels=spec.max_pixels)
    values: dict[str, dict[str, Value]] = {}
    failed: dict[str, Reason] = {}
    details: dict[str, None] = {}
    for each in filters:
        try:
            if each.looks_at_pixels:
                leave_mark(DECODING)
                picture.provide(each.needs)
            leave_mark(each.name)
            picture.provide(each.needs)
            values[each.name] = plain_values(each.measure(picture))
        except MemoryError:
            raise
        except UnreadableError as error:
            failed[each.name] = error.reason
            details[error.detail] = None
        except Exception as error:
            if getattr(error, "code", None) == _NO_MEMORY and type(error).__module__ == "cv2":
                raise
            failed[each.name] = Reason.CRASHED
            details[f"filter {each.name!r} raised {type(error).__name__}: {error}"] = None
        if each.name in failed and each.when_unreadable is not None:
            values[each.name] = plain_values(each.when_unreadable(data))
    said = without_marks(native_stderr()) if failed else ""
    if said and not any(said[-100:] in detail for detail in details):
        details[f"stderr: {said}"] = None
    return RowMeasures(values, failed, tuple(detail[:_LONGEST_DETAIL] for detail in details))


def plain_values(measures: Mapping[str, Any]) -> dict[str, Value]:
    """Returns the measures as Python values; NaN and infinity, also beyond float32, become None."""
    plain: dict[str, Value] = {}
    for name, value in measures.items():
        item = getattr(value, "item", None)
        result = item() if item is not None else value
        if isinstance(result, float) and not (math.isfinite(result) and abs(result) < 3.4028235677973366e38):
            result = None
        plain[name] = result
    return plain


_MARK, _MARK_END = "[[sidecar-filters: ", "]]\n"


def leave_mark(step: str) -> None:
    """Writes to the child's stderr what is done next, for the parent to read should this process die of it."""
    os.write(2, f"{_MARK}{step}{_MARK_END}".encode())


def last_mark(output: str) -> str | None:
    """Returns the last step that was begun, or None when the output names none."""
    start = output.rfind(_MARK)
    end = output.find(_MARK_END.strip(), start)
    return output[start + len(_MARK) : end] if 0 <= start < end else None


def without_marks(output: str) -> str:
    """Returns the output without the marks, one line per message."""
    lines: list[str] = []
    for line in output.split("\n"):
        start = line.find(_MARK)
        lines.append(line if start < 0 else line[:start])
    return "\n".join(line for line in lines if line.strip())
