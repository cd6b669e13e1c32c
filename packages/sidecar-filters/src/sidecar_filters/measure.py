"""What happens to one row in an isolated child: decode what is needed, once, and measure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from sidecar_core.isolation import native_stderr, note_step
from sidecar_core.reasons import Reason

from sidecar_filters.base import DEFAULT_MAX_PIXELS, Filter, Need, Picture, UnreadableError

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

    def __reduce__(self) -> tuple[object, ...]:
        return _spec_in_child, (self.filters, self.max_pixels)


def _spec_in_child(filters: tuple[Filter, ...], max_pixels: int) -> MeasureSpec:
    """Unpickles a spec; loads the libraries first, so that they count neither as a row's memory nor as its time."""
    from sidecar_filters.header import load_pillow

    load_pillow()
    if any(each.looks_at_pixels or Need.BYTES in each.needs for each in filters):
        for module in ("decode", "histograms", "pillow_pixels"):
            import_module(f"sidecar_filters.{module}")
    return MeasureSpec(filters, max_pixels)


class RowTask(NamedTuple):
    """A row, and the names of the filters to run on it: all, or, after a crash, those that are left."""

    image: bytes
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
    """Measures one row. Runs in an isolated child, and may not return."""
    filters = [each for each in spec.filters if each.name in task.names]
    picture = Picture(task.image, max_pixels=spec.max_pixels)
    values: dict[str, dict[str, Value]] = {}
    failed: dict[str, Reason] = {}
    details: dict[str, None] = {}
    for each in filters:
        if each.name in failed:
            continue
        step = DECODING if each.looks_at_pixels else each.name
        try:
            note_step(step)
            picture.provide(each.needs)
            if step == DECODING:
                step = each.name
                note_step(step)
            values[each.name] = plain_values(each.measure(picture))
        except UnreadableError as error:
            failed[each.name] = error.reason
            details[error.detail] = None
        except Exception as error:  # noqa: BLE001 - a filter may raise anything, and costs only itself
            lost = [each.name]
            if _says_memory_was_short(error):
                lost = [other.name for other in filters if other.looks_at_pixels] if step == DECODING else lost
            reason = Reason.OUT_OF_MEMORY if _says_memory_was_short(error) else Reason.CRASHED
            failed.update(dict.fromkeys(lost, reason))
            details[f"{describe_step(step)} raised {type(error).__name__}: {error}"] = None
    said = without_empty_lines(native_stderr()) if failed else ""
    if said:
        details[f"stderr: {said}"] = None
    return RowMeasures(values, failed, tuple(_writable(detail[-_LONGEST_DETAIL:]) for detail in details))


def _writable(text: str) -> str:
    """Escapes what UTF-8 cannot hold: an error's text may have been made of a file's name or metadata."""
    return text.encode(errors="backslashreplace").decode()


def _says_memory_was_short(error: Exception) -> bool:
    """Whether it is Python's, numpy's, Pillow's or OpenCV's way of saying so, without importing any of them."""
    is_opencvs = type(error).__module__ == "cv2" and getattr(error, "code", None) == _NO_MEMORY
    return isinstance(error, MemoryError) or is_opencvs


def describe_step(step: str) -> str:
    """Returns what to call a step in a sentence."""
    return "decoding" if step == DECODING else f"filter {step!r}"


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


def without_empty_lines(output: str) -> str:
    """Returns the output, one line per message."""
    return "\n".join(line for line in output.split("\n") if line.strip())
