"""`bbox_resize_meta`: what is recorded of each row whose boxes were moved, and what its status says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_resize.box_geometry import BoxCounts, TargetFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_resize.box_geometry import BoxProblem

META_COLUMN = "bbox_resize_meta"
FRAME_NAMES = ("resized_width", "resized_height", "crop_left", "crop_top", "width", "height")
COUNT_NAMES = ("boxes", "clipped", "dropped")


class DescriptionState(StrEnum):
    """What was found where a description should be.

    Attributes:
        OK: a description.
        NONE: null or blank.
        BAD_JSON: text that is not JSON.
    """

    OK = "ok"
    NONE = "no_description"
    BAD_JSON = "bad_json"


@dataclass(frozen=True, slots=True)
class ResizedRow:
    """What a resized dataset says of a row.

    Attributes:
        frame: how the picture was resized and cropped, or None when it is invalid there.
        reason: why it is invalid; None when it is valid.
        source_width: width of the displayed source in pixels, None when it could not be known.
        source_height: its height, likewise.
    """

    frame: TargetFrame | None
    reason: str | None
    source_width: int | None
    source_height: int | None


@dataclass
class RowOutcome:
    """What became of one description.

    Attributes:
        state: what was found.
        problem: what is wrong with its first bad box.
        counts: the boxes in each target, in the targets' order.
    """

    state: DescriptionState = DescriptionState.OK
    problem: BoxProblem | None = None
    counts: list[BoxCounts] = field(default_factory=list[BoxCounts])

    def status(self, resized: Sequence[tuple[int, ResizedRow]]) -> str:
        """Returns the row's one status.

        What leaves every target without a description comes first: none, or one that is not JSON; then the
        first target whose picture is invalid, as `512: <reason>`; then the first bad box; else `ok`.

        Args:
            resized: side and row of each target, in order.
        """
        if self.state is not DescriptionState.OK:
            return self.state.value
        invalid = next((f"{side}: {row.reason}" for side, row in resized if row.frame is None), None)
        return invalid or self.problem or DescriptionState.OK.value


def meta_type(sides: Sequence[int]) -> pa.StructType:
    """Returns the type of `bbox_resize_meta` for targets of these sides, in px."""
    target = pa.struct([pa.field(name, pa.int32()) for name in (*FRAME_NAMES, *COUNT_NAMES)])
    return pa.struct(
        [
            pa.field("source_width", pa.int32()),
            pa.field("source_height", pa.int32()),
            pa.field("status", pa.string()),
            *(pa.field(f"target_{side}", target) for side in sides),
        ]
    )


def meta_column(
    outcomes: Sequence[RowOutcome], sides: Sequence[int], resized: Sequence[Sequence[ResizedRow]]
) -> pa.Array:
    """Returns the column, one value a row; the struct of an invalid target has null children.

    Args:
        outcomes: what became of each row's description.
        sides: the targets, in px.
        resized: per target, each row.
    """
    rows: list[dict[str, object]] = []
    for outcome, *targets in zip(outcomes, *resized, strict=True):
        sizes = next(((row.source_width, row.source_height) for row in targets if row.source_width is not None), None)
        width, height = sizes or (None, None)
        of_sides = list(zip(sides, targets, strict=True))
        value: dict[str, object] = {
            "source_width": width,
            "source_height": height,
            "status": outcome.status(of_sides),
        }
        for (side, row), counts in zip(of_sides, outcome.counts, strict=True):
            value[f"target_{side}"] = _target(row.frame, counts)
        rows.append(value)
    return pa.array(rows, meta_type(sides))


def _target(frame: TargetFrame | None, counts: BoxCounts) -> dict[str, int]:
    if frame is None:
        return {}
    return {
        "resized_width": frame.resized_width,
        "resized_height": frame.resized_height,
        "crop_left": frame.crop_left,
        "crop_top": frame.crop_top,
        "width": frame.width,
        "height": frame.height,
        "boxes": counts.boxes,
        "clipped": counts.clipped,
        "dropped": counts.dropped,
    }
