"""One shard of a main dataset with what lies beside it, row by row: pictures and boxes before they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from sidecar_core.align import describe_key, first_misaligned
from sidecar_core.errors import AlignmentError, ShardError, StorageNotFoundError
from sidecar_core.row_reader import RowReader
from sidecar_core.shard_reader import open_parquet, single_field
from sidecar_core.storage import Storage
from sidecar_resize.boxes import LabelledBox, find_boxes
from sidecar_resize.shard_checks import find_audit_prefix

from sidecar_cli.overlay_sources import OverlaySource
from sidecar_cli.report.shown_text import value_at

ORIGINAL = "original"
CAPTION_COLUMN = "caption"
META_COLUMN = "bbox_resize_meta"


@dataclass(frozen=True)
class FoundPicture:
    """One picture of a row, not yet drawn.

    Attributes:
        name: `original`, or the side of the resized dataset.
        image: its encoded bytes, or None.
        boxes: the boxes on it.
        reason: why there is no picture, when that is known already.
        detail: the fact behind the reason.
        notes: what else is known of its boxes.
    """

    name: str
    image: bytes | None
    boxes: tuple[LabelledBox, ...] = ()
    reason: str | None = None
    detail: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundRow:
    """A row before it is drawn; see `sidecar_cli.overlay_rows.OverlayRow`."""

    key: object
    caption: str | None
    status: str | None
    pictures: tuple[FoundPicture, ...]


class ShardRows:
    """The shards of one path, open beside each other until `opened` is closed.

    Raises:
        ShardError: one of them is damaged, or lacks the key or the image column.
        AlignmentError: one has another number of rows than the main shard.
    """

    def __init__(self, source: OverlaySource, rel_path: str, opened: ExitStack) -> None:
        self._source = source
        self._rel_path = rel_path
        self._opened = opened
        wanted = (source.image_column, source.description_column, CAPTION_COLUMN)
        self._main = _Columns(source.main, rel_path, opened, source.key_column, lambda _: wanted)
        self._main.require(source.image_column)
        moved = (META_COLUMN, *(self._moved(side) for side in source.resized or {}))
        self._crop = self._beside(source.crop, lambda _: moved) if source.crop else None
        self._resized: dict[int, _Columns | None] = {}
        for side, storage in (source.resized or {}).items():
            columns = self._beside(storage, self._resized_columns)
            if columns is not None:
                columns.require(source.image_column)
            self._resized[side] = columns

    def row(self, row: int) -> FoundRow:
        """Returns what is known of a row.

        Raises:
            AlignmentError: its key beside the main shard is another; names shard, row and both keys.
            ShardError: a shard is damaged.
        """
        key, main = self._main.read(row)
        crop = self._aligned(self._crop, row, key)
        meta = crop.get(META_COLUMN)
        known = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
        pictures = [self._original(main)]
        for side, columns in self._resized.items():
            values = self._aligned(columns, row, key) if columns else None
            pictures.append(self._target(side, values, crop, known))
        caption, status = main.get(CAPTION_COLUMN), known.get("status")
        return FoundRow(
            key=main[self._source.key_column],
            caption=caption if isinstance(caption, str) else None,
            status=status if isinstance(status, str) else None,
            pictures=tuple(pictures),
        )

    def _original(self, main: Mapping[str, object]) -> FoundPicture:
        column = self._source.description_column
        notes: tuple[str, ...] = ()
        if column not in main:
            notes = (f"no column {column}",)
        elif main[column] is None:
            notes = ("no description",)
        boxes = tuple(find_boxes(main.get(column), bbox_keys=self._source.bbox_keys))
        return FoundPicture(ORIGINAL, _encoded(main[self._source.image_column]), boxes, notes=notes)

    def _target(
        self, side: int, values: Mapping[str, object] | None, crop: Mapping[str, object], meta: Mapping[str, Any]
    ) -> FoundPicture:
        column = self._moved(side)
        notes: list[str] = []
        if self._crop is None:
            notes.append("boxes not moved: no sidecar named" if self._source.crop is None else "not in the sidecar")
        elif column not in crop:
            notes.append(f"no column {column}")
        else:
            target = meta.get(f"target_{side}")
            counts = cast("dict[str, object]", target) if isinstance(target, dict) else {}
            for what in ("clipped", "dropped"):
                count = counts.get(what)
                if isinstance(count, int) and count:
                    notes.append(f"{count:,} {what}")
            if crop[column] is None:
                notes.append("no description")
        if values is None:
            detail = f"the {side} dataset has no shard {self._rel_path}"
            return FoundPicture(str(side), None, reason="no_such_shard", detail=detail, notes=tuple(notes))
        boxes = tuple(find_boxes(crop.get(column), bbox_keys=self._source.bbox_keys))
        image = _encoded(values[self._source.image_column])
        reason = detail = None
        if image is None:
            audit = {name.rpartition("_")[2]: value for name, value in values.items()}
            reason = str(audit.get("reason") or "missing")
            detail = cast("str | None", audit.get("detail"))
        return FoundPicture(str(side), image, boxes, reason, detail, tuple(notes))

    def _moved(self, side: int) -> str:
        return f"{self._source.description_column}_crop_{side}"

    def _resized_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        try:
            prefix = find_audit_prefix(schema)
        except ShardError:  # pictures without an audit can be shown too
            return (self._source.image_column,)
        return (self._source.image_column, f"{prefix}_reason", f"{prefix}_detail")

    def _beside(self, storage: Storage, wanted: Callable[[pa.Schema], Sequence[str]]) -> _Columns | None:
        """Opens a shard beside the main shard; None where there is none."""
        try:
            columns = _Columns(storage, self._rel_path, self._opened, self._source.key_column, wanted)
        except StorageNotFoundError:
            return None
        if columns.num_rows != self._main.num_rows:
            raise AlignmentError(
                f"{self._rel_path}: {self._main.num_rows} rows in the main shard, {columns.num_rows} in {columns.uri}",
                None,
                f"make the shard of {storage.prefix} again",
            )
        return columns

    def _aligned(self, columns: _Columns | None, row: int, key: pa.ChunkedArray) -> dict[str, object]:
        """Returns a row's values, held against the main shard's key; empty without the shard."""
        if columns is None:
            return {}
        own, values = columns.read(row)
        place = f"{self._rel_path} row {row}: {self._source.key_column!r}"
        try:
            moved = first_misaligned(key, own, null_matches_null=True)
        except AlignmentError as error:
            raise AlignmentError(f"{place} at {columns.prefix}: {error.message}") from error
        if moved is not None:
            raise AlignmentError(
                f"{place} is {describe_key(key[0])} in the main shard and {describe_key(own[0])} at {columns.prefix}",
                None,
                f"make the shard of {columns.prefix} again",
            )
        return values


class _Columns:
    """Some columns of one file, row by row; those that it lacks are left out."""

    def __init__(
        self,
        storage: Storage,
        rel_path: str,
        opened: ExitStack,
        key: str,
        wanted: Callable[[pa.Schema], Sequence[str]],
    ) -> None:
        file = opened.enter_context(open_parquet(storage, rel_path))
        schema = file.schema_arrow
        self.uri = storage.uri(rel_path)
        self.prefix = storage.prefix
        self.names: list[str] = schema.names
        self._key = key
        self.require(key)
        held = dict.fromkeys(name for name in (key, *wanted(schema)) if name in schema.names)
        fields = pa.schema([single_field(schema, name, self.uri) for name in held])
        self._rows = RowReader(file, self.uri, fields, types_from="its own footer")
        self.num_rows = self._rows.num_rows

    def require(self, name: str) -> None:
        """Raises ShardError when the file lacks a column."""
        if name not in self.names:
            flag = "--key-column" if name == self._key else "--image-column"
            raise ShardError(f"{self.uri}: no column {name!r}", "columns " + ", ".join(self.names), f"{flag} NAME")

    def read(self, row: int) -> tuple[pa.ChunkedArray, dict[str, object]]:
        """Returns the key column of one row, and its values by column."""
        table = self._rows.rows(row, 1)
        return table.column(self._key), {name: value_at(table.column(name), 0) for name in table.schema.names}


def _encoded(value: object) -> bytes | None:
    """Returns a picture's bytes, of a binary column or of the struct {bytes, path}."""
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("bytes")
    if value is None or isinstance(value, bytes):
        return value
    raise ShardError(f"the image column holds {type(value).__name__}", "binary, or the struct {bytes, path}")
