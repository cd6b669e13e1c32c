"""The audit columns of a resized dataset, read beside the main shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sidecar_core.errors import ShardError
from sidecar_core.sibling import SiblingReader

from sidecar_resize.audit_columns import audit_fields
from sidecar_resize.box_geometry import TargetFrame
from sidecar_resize.crop_meta import FRAME_NAMES, ResizedRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.op import OpContext

_WANTED = ("valid", "reason", "source_width", "source_height", *FRAME_NAMES)


def geometry_fields(audit_prefix: str) -> list[pa.Field]:
    """Returns the audit columns that say where a picture's pixels went."""
    wanted = {f"{audit_prefix}_{name}" for name in _WANTED}
    return [each for each in audit_fields(audit_prefix) if each.name in wanted]


def read_resized(ctx: OpContext, prefix: str, audit_prefix: str, keys: pa.ChunkedArray) -> list[ResizedRow]:
    """Returns what the resized dataset at `prefix` says of the batch's rows.

    Raises:
        ShardError: its shard is absent or unreadable, lacks a column, or calls a row valid that has no geometry.
        AlignmentError: it has other rows than the main shard.
    """
    reader = SiblingReader.of_shard(ctx, prefix, pa.schema(geometry_fields(audit_prefix)))
    if reader is None:  # it is required, so that this cannot be
        raise ShardError(f"{ctx.rel_path}: no such shard at {prefix}")
    table = reader.rows(ctx.first_row, keys)
    columns = [table.column(f"{audit_prefix}_{name}").to_pylist() for name in _WANTED]
    rows: list[ResizedRow] = []
    for index, (valid, reason, width, height, *frame) in enumerate(zip(*columns, strict=True)):
        if not valid:
            rows.append(ResizedRow(None, reason or "invalid", width, height))
            continue
        if not _is_frame(frame):
            where = f"{ctx.rel_path} row {ctx.first_row + index}"
            values = ", ".join(f"{name} {value}" for name, value in zip(FRAME_NAMES, frame, strict=True))
            raise ShardError(
                f"{where}: the row is valid at {prefix}, and its geometry is {values}",
                "a crop inside the resized picture",
                "make that shard again",
            )
        rows.append(ResizedRow(TargetFrame(*frame), None, width, height))
    return rows


def check_same_source(ctx: OpContext, prefixes: Sequence[str], resized: Sequence[Sequence[ResizedRow]]) -> None:
    """Raises ShardError when resized datasets tell different sizes of a row's source: they are of other pictures."""
    for index, rows in enumerate(zip(*resized, strict=True)):
        told = {
            prefix: (row.source_width, row.source_height)
            for prefix, row in zip(prefixes, rows, strict=True)
            if row.source_width is not None
        }
        if len(set(told.values())) > 1:
            where = f"{ctx.rel_path} row {ctx.first_row + index}"
            sizes = " and ".join(f"{width} x {height} px at {prefix}" for prefix, (width, height) in told.items())
            raise ShardError(f"{where}: its source is {sizes}", "one picture", "build both from the main dataset")


def _is_frame(frame: Sequence[int | None]) -> bool:
    resized_width, resized_height, crop_left, crop_top, width, height = (-1 if px is None else px for px in frame)
    return (
        min(crop_left, crop_top) >= 0
        and min(width, height) >= 1
        and crop_left + width <= resized_width
        and crop_top + height <= resized_height
    )
