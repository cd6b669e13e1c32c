"""Rows through the isolation pool: a filter that kills its child costs one filter of one row.

A child notes what it does next (`note_step`). When it dies, hangs or runs out of memory, its last note says
which filter it was, or that it was decoding; the row is run again without that filter, or without all that
look at pixels, until what is left returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.reasons import Reason

from sidecar_filters.measure import (
    DECODING,
    MeasureSpec,
    RowMeasures,
    RowTask,
    describe_step,
    measure_row,
    plain_values,
    without_empty_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.isolation import IsolationPool

    from sidecar_filters.base import Filter

_REASONS = {reason.value: reason for reason in (Reason.CRASHED, Reason.TIMEOUT, Reason.OUT_OF_MEMORY)}


def measure_rows(
    pool: IsolationPool, images: Sequence[bytes | None], spec: MeasureSpec, *, timeout_s: float
) -> list[RowMeasures]:
    """Measures each row in a child process.

    Args:
        pool: the children.
        images: encoded bytes, or None.
        spec: the filters, and the most pixels that are decoded.
        timeout_s: seconds that a row may take.

    Returns:
        One result a row, in order.

    Raises:
        SidecarError: the pool is closed, or the children cannot import a filter.
    """
    missing = {each.name: Reason.MISSING for each in spec.filters}
    results = [RowMeasures({}, missing) if image is None else RowMeasures() for image in images]
    waiting = {row: spec.filters for row, image in enumerate(images) if image is not None}
    while waiting:
        tasks = [
            RowTask(cast("bytes", images[row]), tuple(each.name for each in filters))
            for row, filters in waiting.items()
        ]
        answers = pool.map_rows(measure_row, tasks, common=spec, timeout_s=timeout_s)
        again: dict[int, tuple[Filter, ...]] = {}
        for (row, filters), answer in zip(waiting.items(), answers, strict=True):
            if isinstance(answer, WorkerCallFailed):
                found, rest = _blame(answer, filters)
                if rest:
                    again[row] = rest
            else:
                found = cast("RowMeasures", answer)
            results[row] = _joined(results[row], found)
        waiting = again
    return [
        row if image is None else _with_what_any_bytes_give(spec, row, image)
        for image, row in zip(images, results, strict=True)
    ]


def _with_what_any_bytes_give(spec: MeasureSpec, row: RowMeasures, image: bytes) -> RowMeasures:
    """Adds what a filter without values can still say."""
    still = [each for each in spec.filters if each.name in row.failed and each.when_unreadable is not None]
    if not still:
        return row
    found = {each.name: plain_values(each.when_unreadable(image)) for each in still if each.when_unreadable is not None}
    return _joined(row, RowMeasures(found))


def _blame(failure: WorkerCallFailed, filters: tuple[Filter, ...]) -> tuple[RowMeasures, tuple[Filter, ...]]:
    """Returns what a row lost when its child did not return, and the filters that may still do."""
    step = failure.step
    if step == DECODING:
        lost = tuple(each for each in filters if each.looks_at_pixels)
    else:
        lost = tuple(each for each in filters if each.name == step)
    lost = lost or filters
    reason = _REASONS.get(failure.cause, Reason.CRASHED)
    where = f"{describe_step(step)}: " if step else ""
    detail = f"{where}{without_empty_lines(failure.detail)}"
    return RowMeasures({}, dict.fromkeys((each.name for each in lost), reason), (detail,)), tuple(
        each for each in filters if each not in lost
    )


def _joined(first: RowMeasures, second: RowMeasures) -> RowMeasures:
    return RowMeasures(
        {**first.values, **second.values}, {**first.failed, **second.failed}, (*first.details, *second.details)
    )
