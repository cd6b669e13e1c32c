"""Filters that misbehave, for tests of isolation. Importing this module registers them.

Each does so only for a picture of its trigger's width, and else gives `{"fraction": 0.5, "fraction_auto": 0.5}`.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Measures, Picture
    from sidecar_filters.measure import MeasureSpec, RowMeasures, RowTask

TRIGGER_WIDTH = 77
_FINE: Measures = {"fraction": 0.5, "fraction_auto": 0.5}


def _triggered(picture: Picture) -> bool:
    return picture.header.width == TRIGGER_WIDTH


def measure_aborting(picture: Picture) -> Measures:
    """Aborts its process."""
    if _triggered(picture):
        os.abort()
    return _FINE


def measure_hanging(picture: Picture) -> Measures:
    """Does not return."""
    if _triggered(picture):
        time.sleep(600)
    return _FINE


def measure_eating(picture: Picture) -> Measures:
    """Asks for more memory than there is."""
    if _triggered(picture):
        bytearray(1 << 50)
    return _FINE


def measure_raising(picture: Picture) -> Measures:
    """Raises."""
    if _triggered(picture):
        raise KeyError("on purpose")
    return _FINE


def measure_killed(picture: Picture) -> Measures:
    """Is killed, as by a system that is short of memory, after a native library has said much."""
    if _triggered(picture):
        os.write(2, b"native library: nothing good\n" * 20)
        os.kill(os.getpid(), signal.SIGKILL)
    return _FINE


def measure_loud(picture: Picture) -> Measures:
    """Aborts after more warnings than anyone keeps."""
    if _triggered(picture):
        os.write(2, b"native library: bad tile\n" * 8000)
        os.abort()
    return _FINE


def measure_hanging_loudly(picture: Picture) -> Measures:
    """Does not return, after more warnings than anyone keeps."""
    if _triggered(picture):
        os.write(2, b"native library: bad tile\n" * 100_000)
        time.sleep(600)
    return _FINE


def measure_raising_surrogate(picture: Picture) -> Measures:
    """Raises with a text that UTF-8 cannot hold."""
    if _triggered(picture):
        raise ValueError("bad name \udce9")
    return _FINE


class _NoTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def measure_raising_no_text(picture: Picture) -> Measures:
    """Raises what has no text."""
    if _triggered(picture):
        raise _NoTextError
    return _FINE


def measure_leaving(picture: Picture) -> Measures:
    """Asks its process to end, with a text that UTF-8 cannot hold."""
    if _triggered(picture):
        raise SystemExit("bad name \udce9")
    return _FINE


def measure_not_finite(picture: Picture) -> Measures:
    """Returns what is no number."""
    return {"fraction": float("nan"), "fraction_auto": float("inf")} if _triggered(picture) else _FINE


def measure_wrong_type(picture: Picture) -> Measures:
    """Returns what does not fit its struct."""
    return {"fraction": "half", "fraction_auto": 0.5} if _triggered(picture) else _FINE


def measure_misspelling(picture: Picture) -> Measures:
    """Returns a value under a name that its struct lacks."""
    return {"fractoin": 0.5, "fraction_auto": 0.5} if _triggered(picture) else _FINE


HOSTILE = {
    filter_name: register_filter(
        Filter(filter_name, struct="filter_edge_density_v1", needs=Need.HEADER | Need.ANALYSIS, measure=measure)
    )
    for filter_name, measure in {
        "aborting": measure_aborting,
        "hanging": measure_hanging,
        "eating": measure_eating,
        "raising": measure_raising,
        "killed": measure_killed,
        "loud": measure_loud,
        "hanging_loudly": measure_hanging_loudly,
        "raising_surrogate": measure_raising_surrogate,
        "raising_no_text": measure_raising_no_text,
        "leaving": measure_leaving,
        "not_finite": measure_not_finite,
        "wrong_type": measure_wrong_type,
        "misspelling": measure_misspelling,
    }.items()
}


def measure_row_with_a_decoder_that_aborts(task: RowTask, spec: MeasureSpec) -> RowMeasures:
    """Does what `measure_row` does, in a child whose decoder aborts on every picture."""
    from sidecar_filters import decode, measure

    def abort(*_: object) -> None:
        os.abort()

    original, decode._imdecode = decode._imdecode, abort  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    try:
        return measure.measure_row(task, spec)
    finally:
        decode._imdecode = original  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
