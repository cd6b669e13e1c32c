"""A column of descriptions into one column a target, whatever descriptions are made of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc
from sidecar_core.nulls import null_column, null_rows

from sidecar_resize.box_geometry import BoxCounts, move_box
from sidecar_resize.crop_meta import DescriptionState, RowOutcome
from sidecar_resize.description_arrow import ArrowBoxes, move_boxes, moved_type
from sidecar_resize.description_json import replace_boxes, scan_boxes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sidecar_resize.box_geometry import TargetFrame

    Frames = Sequence[Sequence[TargetFrame | None]]


def is_text(dtype: pa.DataType) -> bool:
    """Returns whether descriptions of this type are JSON text."""
    if isinstance(dtype, pa.DictionaryType):
        return is_text(dtype.value_type)
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)


def crop_column_type(
    dtype: pa.DataType, bbox_keys: Collection[str], *, declared: pa.DataType | None = None
) -> pa.DataType:
    """Returns the type of a column with moved boxes, made of one with descriptions.

    Args:
        dtype: of the descriptions.
        bbox_keys: keys under which boxes stand.
        declared: the type that the dataset declares for the new column; any text is as good as another.

    Raises:
        ValueError: it is neither text nor a struct or list that holds boxes which can be moved.
    """
    if not is_text(dtype):
        return moved_type(dtype, bbox_keys)
    if declared is not None and is_text(declared) and not isinstance(declared, pa.DictionaryType):
        return declared
    return pa.large_string() if pa.types.is_large_string(dtype) else pa.string()


def crop_descriptions(
    descriptions: pa.ChunkedArray,
    frames: Frames,
    dtypes: Sequence[pa.DataType],
    *,
    bbox_keys: Collection[str],
    min_visible: float,
) -> tuple[list[pa.ChunkedArray], list[RowOutcome]]:
    """Moves the boxes of each description into each target.

    Args:
        descriptions: a column of a type that `crop_column_type` takes.
        frames: per target, how each row's picture was resized and cropped; None for an invalid one, whose
            description is null there.
        dtypes: per target, the type of the new column.
        bbox_keys: keys under which boxes stand.
        min_visible: share of a box's area, 0-1, that must be left.

    Returns:
        The new column of each target, and what became of each row.
    """
    if is_text(descriptions.type):
        return _crop_texts(descriptions, frames, dtypes, frozenset(bbox_keys), min_visible)
    chunks: list[list[pa.Array]] = [[] for _ in frames]
    outcomes: list[RowOutcome] = []
    first = 0
    for chunk in descriptions.chunks:
        part = [target[first : first + len(chunk)] for target in frames]
        moved, became = _crop_values(chunk, part, bbox_keys, min_visible)
        for into, values in zip(chunks, moved, strict=True):
            into.append(values)
        outcomes += became
        first += len(chunk)
    columns = [_chunked(parts, dtype) for parts, dtype in zip(chunks, dtypes, strict=True)]
    return columns, outcomes


def _crop_texts(
    descriptions: pa.ChunkedArray,
    frames: Frames,
    dtypes: Sequence[pa.DataType],
    bbox_keys: frozenset[str],
    min_visible: float,
) -> tuple[list[pa.ChunkedArray], list[RowOutcome]]:
    columns: list[list[str | None]] = [[] for _ in frames]
    outcomes: list[RowOutcome] = []
    for (state, text), *row_frames in zip(_texts(descriptions), *frames, strict=True):
        outcome = RowOutcome(state)
        found = scan_boxes(text, bbox_keys) if state is DescriptionState.OK else []
        if found is None:
            outcome.state = DescriptionState.BAD_JSON
        else:
            outcome.problem = next((box.problem for box in found if box.problem is not None), None)
        for column, frame in zip(columns, row_frames, strict=True):
            new, counts = None, BoxCounts()
            if frame is not None and found is not None and outcome.state is DescriptionState.OK:
                new, counts = replace_boxes(text, found, partial(move_box, frame=frame, min_visible=min_visible))
            column.append(new)
            outcome.counts.append(counts)
        outcomes.append(outcome)
    return [_text_column(column, dtype) for column, dtype in zip(columns, dtypes, strict=True)], outcomes


def _text_column(texts: Sequence[str | None], dtype: pa.DataType) -> pa.ChunkedArray:
    made = pa.array(texts, dtype)  # in chunks by itself where one could not hold it
    return made if isinstance(made, pa.ChunkedArray) else _chunked([made], dtype)


def _chunked(chunks: Sequence[pa.Array], dtype: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(chunks, dtype)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types


def _texts(descriptions: pa.ChunkedArray) -> list[tuple[DescriptionState, str]]:
    """Returns each row's state so far and text; a text that is not UTF-8, as foreign writers leave it, is not JSON."""
    try:
        texts = cast("list[str | None]", descriptions.to_pylist())
    except UnicodeDecodeError:
        return [_text(value) for value in descriptions]
    return [_state_of(text) for text in texts]


def _text(value: pa.Scalar) -> tuple[DescriptionState, str]:
    try:
        return _state_of(cast("str | None", value.as_py()))
    except UnicodeDecodeError:
        return DescriptionState.BAD_JSON, ""


def _state_of(text: str | None) -> tuple[DescriptionState, str]:
    return (DescriptionState.NONE, "") if text is None or not text.strip() else (DescriptionState.OK, text)


def _crop_values(
    chunk: pa.Array, frames: Frames, bbox_keys: Collection[str], min_visible: float
) -> tuple[list[pa.Array], list[RowOutcome]]:
    absent = null_rows(chunk)
    outcomes = [
        RowOutcome(DescriptionState.NONE if is_absent else DescriptionState.OK) for is_absent in absent.to_pylist()
    ]
    columns: list[pa.Array] = []
    for target in frames:
        into = ArrowBoxes(target, min_visible=min_visible)
        moved = move_boxes(chunk, bbox_keys, into)
        invalid = pa.array([frame is None for frame in target], pa.bool_())
        columns.append(pc.if_else(pc.or_(invalid, absent), _nulls(moved.type, len(moved)), moved))
        for row, outcome in enumerate(outcomes):
            outcome.counts.append(into.counts(row))
            outcome.problem = outcome.problem or into.problems[row]
    return columns, outcomes


def _nulls(dtype: pa.DataType, length: int) -> pa.Array:
    """Returns nulls as sidecars write them: a struct with null children, or a null slot where it may have none."""
    try:
        return null_column(dtype, length)
    except pa.ArrowInvalid:
        return pa.nulls(length, dtype)  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types
