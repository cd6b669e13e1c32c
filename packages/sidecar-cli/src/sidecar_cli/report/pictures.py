"""Pictures of the rows that a report names: read from where they are, made small in isolated children."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.errors import ShardError, StorageError, WorkerCallFailed
from sidecar_core.isolation import IsolationPool
from sidecar_core.shard_reader import open_parquet, read_row_group
from sidecar_core.storage import Storage

from sidecar_cli.report.figures import NotedRow, Picture, RowPlace
from sidecar_cli.report.leaves import is_bytes
from sidecar_cli.report.shown_text import shown, value_at
from sidecar_cli.report.thumbnails import ThumbnailSpec, draw_thumbnail

_PARALLEL_SHARDS = 4
_READ_ROWS = 32
_DRAWN_AT_ONCE_BYTES = 32 * 2**20
_DRAW_TIMEOUT_S = 20.0
_LEFT_OUT = Picture(None, note="left out: more bytes would have to be read than --picture-gib allows")
_NULL = Picture(None, note="missing: the picture is null")


@dataclass
class ReadBudget:
    """Bytes that may still be read to find pictures; whole row groups count."""

    left: int

    def take(self, size: int) -> bool:
        """Returns whether `size` bytes may be read, and counts them."""
        if size > self.left:
            return False
        self.left -= size
        return True


@dataclass(frozen=True)
class PictureSource:
    """A dataset with pictures.

    Attributes:
        storage: where it is.
        key_column: its key column, None to trust the position of rows.
        image_column: its column of encoded pictures.
    """

    storage: Storage
    key_column: str | None
    image_column: str


@dataclass
class _Wanted:
    """Rows of one shard that are to be shown, by row group; in the order of first need."""

    keys: dict[int, str] = field(default_factory=dict[int, str])


def collect_pictures(
    rows: Sequence[NotedRow],
    sources: Sequence[PictureSource],
    *,
    isolation: IsolationPool,
    budget: ReadBudget,
    spec: ThumbnailSpec | None = None,
) -> dict[RowPlace, Picture]:
    """Returns a small picture, or why there is none, for each row.

    Args:
        rows: the most wanted first: they are served first from the budget.
        sources: the first with a picture of a row is taken.
        isolation: the children that decode.
        budget: what may be read.
        spec: how thumbnails are made.
    """
    found: dict[RowPlace, Picture] = {}
    open_rows: dict[RowPlace, NotedRow] = {}
    for row in rows:
        open_rows.setdefault(row.place, row)
    for source in sources:
        shards: dict[str, _Wanted] = defaultdict(_Wanted)
        for place, row in open_rows.items():
            shards[place.shard].keys[place.row] = row.key
        read = partial(_shard_pictures, source, isolation=isolation, budget=budget, spec=spec or ThumbnailSpec())
        with ThreadPoolExecutor(_PARALLEL_SHARDS) as threads:
            for pictures in threads.map(read, list(shards), list(shards.values())):
                found |= pictures
        open_rows = {place: row for place, row in open_rows.items() if found.get(place, _NULL) is _NULL}
    return found


def _shard_pictures(
    source: PictureSource,
    rel_path: str,
    wanted: _Wanted,
    *,
    isolation: IsolationPool,
    budget: ReadBudget,
    spec: ThumbnailSpec,
) -> dict[RowPlace, Picture]:
    try:
        with open_parquet(source.storage, rel_path) as file:
            schema = file.schema_arrow
            if source.image_column not in schema.names:
                return _all(rel_path, wanted, f"no column {source.image_column!r} in {source.storage.uri(rel_path)}")
            if not is_bytes(schema.field(source.image_column).type):
                return _all(rel_path, wanted, f"column {source.image_column!r} holds no bytes")
            return _drawn(_images(file, source, rel_path, wanted, budget), isolation, spec)
    except (ShardError, StorageError, pa.ArrowException, OSError) as error:
        return _all(rel_path, wanted, str(error))


def _images(
    file: pq.ParquetFile, source: PictureSource, rel_path: str, wanted: _Wanted, budget: ReadBudget
) -> Iterator[tuple[RowPlace, bytes | Picture]]:
    """Yields the bytes of each wanted row, or why there are none."""
    names = [source.image_column]
    if source.key_column is not None and source.key_column in file.schema_arrow.names:
        names.append(source.key_column)
    first_row = 0
    left = dict(wanted.keys)
    for group in range(file.metadata.num_row_groups):
        metadata = file.metadata.row_group(group)
        inside = {row for row in left if first_row <= row < first_row + metadata.num_rows}
        if inside and not budget.take(_image_bytes(metadata, source.image_column)):
            yield from ((RowPlace(rel_path, row), _LEFT_OUT) for row in inside)
        elif inside:
            yield from _group_images(file, group, names, first_row, {row: left[row] for row in inside}, rel_path)
        left = {row: key for row, key in left.items() if row not in inside}
        first_row += metadata.num_rows
    yield from ((RowPlace(rel_path, row), Picture(None, note="the shard has no such row")) for row in left)


def _group_images(
    file: pq.ParquetFile, group: int, names: Sequence[str], first_row: int, keys: dict[int, str], rel_path: str
) -> Iterator[tuple[RowPlace, bytes | Picture]]:
    start = first_row
    last = max(keys)
    for batch in read_row_group(file, group, names, max_rows=_READ_ROWS):
        images = batch.column(batch.schema.get_field_index(names[0]))
        for row in sorted(row for row in keys if start <= row < start + batch.num_rows):
            place = RowPlace(rel_path, row)
            if len(names) > 1 and keys[row]:
                key = shown(value_at(batch.column(batch.schema.get_field_index(names[1])), row - start))
                if key != keys[row]:
                    yield place, Picture(None, note=f"the row has another key there: {key}")
                    continue
            image = images[row - start].as_py()
            yield place, _NULL if image is None else image
        start += batch.num_rows
        if start > last:
            return


def _drawn(
    images: Iterator[tuple[RowPlace, bytes | Picture]], isolation: IsolationPool, spec: ThumbnailSpec
) -> dict[RowPlace, Picture]:
    """Draws what comes, a few at a time: full pictures are large."""
    found: dict[RowPlace, Picture] = {}
    waiting: list[tuple[RowPlace, bytes]] = []
    for place, image in images:
        if isinstance(image, Picture):
            found[place] = image
            continue
        waiting.append((place, image))
        if sum(len(each) for _, each in waiting) > _DRAWN_AT_ONCE_BYTES:
            found |= _draw(waiting, isolation, spec)
            waiting = []
    return found | _draw(waiting, isolation, spec)


def _draw(
    waiting: Sequence[tuple[RowPlace, bytes]], isolation: IsolationPool, spec: ThumbnailSpec
) -> dict[RowPlace, Picture]:
    images = [image for _, image in waiting]
    answers = isolation.map_rows(draw_thumbnail, images, common=spec, timeout_s=_DRAW_TIMEOUT_S)
    return {place: _picture(answer) for (place, _), answer in zip(waiting, answers, strict=True)}


def _picture(answer: object) -> Picture:
    if isinstance(answer, Picture):
        return replace(answer, note=shown(answer.note)) if answer.note else answer
    if isinstance(answer, WorkerCallFailed):
        return Picture(None, note=shown(f"{answer.cause}: {answer.detail or answer.message}"))
    raise TypeError(f"a picture was expected, not {type(answer).__name__}")


def _all(rel_path: str, wanted: _Wanted, note: str) -> dict[RowPlace, Picture]:
    return {RowPlace(rel_path, row): Picture(None, note=shown(note)) for row in wanted.keys}


def _image_bytes(metadata: pq.RowGroupMetaData, name: str) -> int:
    columns = (metadata.column(index) for index in range(metadata.num_columns))
    return sum(column.total_compressed_size for column in columns if column.path_in_schema.split(".")[0] == name)
