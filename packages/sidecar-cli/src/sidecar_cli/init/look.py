"""Looks at a prefix as a stranger would: which of its columns could be the key, and which hold pictures.

Only a few rows of pictures are read and none is decoded: a picture is known by its first bytes.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sidecar_core.errors import ShardError, UsageError
from sidecar_core.foreign_types import holds_pictures
from sidecar_core.problems import counted
from sidecar_core.python_values import python_value
from sidecar_core.shard_reader import open_parquet
from sidecar_filters.containers import sniff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.storage import ObjectInfo, Storage

USUAL_KEYS = (
    *("image_key", "key", "__key__", "image_id", "id", "uid", "uuid", "guid", "sha256", "md5", "hash"),
    *("asset_id", "photo_id", "item_id", "file_name", "filename", "image_path", "path", "image_url", "url"),
)
USUAL_IMAGES = ("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "image_bytes", "bytes", "content")
_KEY_ENDINGS = ("_key", "_id", "_uuid", "_hash", "_path", "_url")
_PICTURE_ROWS = 64
_PICTURE_BATCH_ROWS = 16
_KEY_COLUMN_BYTES = 64 * 2**20  # more in one shard is text to be read, not a name
_UNREADABLE_SHARDS = 20

_compute: Any = pc  # the stubs know few of its functions


@dataclass(frozen=True)
class KeyCandidate:
    """A column of text or whole numbers.

    Attributes:
        name: the column.
        type: its type, in words.
        problem: why its values cannot name rows, or an empty text.
        example: its first value.
        rank: smaller is more usual for a key; None for a name that says nothing.
    """

    name: str
    type: str
    problem: str
    example: str
    rank: int | None


@dataclass(frozen=True)
class ImageCandidate:
    """A column that may hold pictures by its type.

    Attributes:
        name: the column.
        type: its type, in words.
        formats: the formats that its first values begin like, the most frequent first.
        problem: why it does not look like pictures, or an empty text.
        rank: smaller is more usual for pictures; None for a name that says nothing.
        only_paths: whether it says where pictures are, and has none.
    """

    name: str
    type: str
    formats: tuple[str, ...]
    problem: str
    rank: int | None
    only_paths: bool = False


@dataclass(frozen=True)
class Look:
    """What a prefix holds.

    Attributes:
        prefix: the prefix, normalised.
        shards: number of its shards.
        size_bytes: of all of them.
        shard: rel_path of the one whose columns were looked at.
        rows: its rows.
        columns: its columns with their types, in order.
        keys: columns that could be the key by their type, the most usual first.
        images: columns that could hold pictures by their type, the most usual first.
        unreadable: shards before it that cannot be read.
    """

    prefix: str
    shards: int
    size_bytes: int
    shard: str
    rows: int
    columns: dict[str, str]
    keys: tuple[KeyCandidate, ...]
    images: tuple[ImageCandidate, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def good_keys(self) -> list[KeyCandidate]:
        """The columns whose values name each row looked at."""
        return [each for each in self.keys if not each.problem]

    @property
    def good_images(self) -> list[ImageCandidate]:
        """The columns that hold pictures for certain."""
        return [each for each in self.images if not each.problem]


def look_at(storage: Storage) -> Look:
    """Looks at the first readable shard of a prefix, and at the keys of the last.

    Raises:
        UsageError: there are no shards, or none that can be read.
        StorageError: the prefix cannot be listed.
    """
    shards = storage.list_shards(missing_ok=True)
    if not shards:
        raise UsageError(f"no shards at {storage.prefix}", "*.parquet files below it, at any depth")
    unreadable: list[str] = []
    for info in shards[:_UNREADABLE_SHARDS]:
        try:
            with open_parquet(storage, info.rel_path) as file:
                if not file.metadata.num_rows and info != shards[-1]:
                    continue
                return _look_into(storage, shards, info, file, tuple(unreadable))
        except (ShardError, pa.ArrowInvalid) as error:
            unreadable.append(f"{info.rel_path}: {error}")
    first = f": {unreadable[0]}" if unreadable else "; they have no rows"
    raise UsageError(f"none of {counted(len(shards), 'shard')} at {storage.prefix} can be looked at{first}")


def _look_into(
    storage: Storage,
    shards: Sequence[ObjectInfo],
    info: ObjectInfo,
    file: pq.ParquetFile,
    unreadable: tuple[str, ...],
) -> Look:
    schema = file.schema_arrow
    names = [field.name for field in schema if _may_be_key(field.type)]
    with ExitStack() as opened:
        other = _last_other(storage, shards, info, opened)
        keys = [_key_candidate(schema.field(name), file, other) for name in names]
    images = _image_candidates(schema, file)
    return Look(
        prefix=storage.prefix,
        shards=len(shards),
        size_bytes=sum(each.size_bytes for each in shards),
        shard=info.rel_path,
        rows=file.metadata.num_rows,
        columns={field.name: str(field.type) for field in schema},
        keys=tuple(sorted(keys, key=lambda each: _last_if_none(each.rank))),
        images=tuple(sorted(images, key=lambda each: _last_if_none(each.rank))),
        unreadable=unreadable,
    )


def _last_other(
    storage: Storage, shards: Sequence[ObjectInfo], info: ObjectInfo, opened: ExitStack
) -> pq.ParquetFile | None:
    """Opens the last shard, whose keys must be others than the first one's; None where there is no such shard."""
    if shards[-1] == info:
        return None
    try:
        return opened.enter_context(open_parquet(storage, shards[-1].rel_path))
    except ShardError:
        return None


def _may_be_key(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.DictionaryType):
        return _may_be_key(dtype.value_type)
    types = pa.types
    text = types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    return text or types.is_integer(dtype)


def _key_candidate(field: pa.Field, file: pq.ParquetFile, other: pq.ParquetFile | None) -> KeyCandidate:
    rank = _rank(field.name, USUAL_KEYS, _KEY_ENDINGS)
    values, problem = _read_key(field.name, file)
    example = "" if values is None or not len(values) else _shown(python_value(values[0]))
    if not problem and values is not None:
        problem = _why_no_key(values)
        if not problem and other is not None:
            problem = _why_not_in_both(values, field.name, other)
    return KeyCandidate(field.name, str(field.type), problem, example, rank)


def _read_key(name: str, file: pq.ParquetFile) -> tuple[pa.ChunkedArray | None, str]:
    """Returns the column's values in plain types, or None and why it was not read."""
    if file.schema_arrow.names.count(name) > 1:
        return None, "two columns have this name"
    if _column_bytes(file, name) > _KEY_COLUMN_BYTES:
        return None, "its values are too long for a key"
    column = file.read(columns=[name]).column(0)
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.large_string())
    return column, ""


def _why_no_key(values: pa.ChunkedArray) -> str:
    if values.null_count:
        return f"{values.null_count} of {counted(len(values), 'value')} are null"
    distinct = _compute.count_distinct(values).as_py()
    return f"only {distinct} of {counted(len(values), 'value')} are different" if distinct < len(values) else ""


def _why_not_in_both(values: pa.ChunkedArray, name: str, other: pq.ParquetFile) -> str:
    if name not in other.schema_arrow.names:
        return "the last shard has no such column"
    found = other.schema_arrow.field(name).type
    if not _may_be_key(found):
        return f"it is {found} in the last shard"
    more, problem = _read_key(name, other)
    if problem or more is None:
        return f"{problem} in the last shard"
    if pa.types.is_integer(values.type) != pa.types.is_integer(more.type):
        return f"it is {more.type} in the last shard"
    both = pa.chunked_array([*values.chunks, *more.cast(values.type).chunks], values.type)
    problem = _why_no_key(both)
    return f"{problem} in the first and the last shard" if problem else ""


def _image_candidates(schema: pa.Schema, file: pq.ParquetFile) -> list[ImageCandidate]:
    names = [field.name for field in schema if holds_pictures(field.type) and schema.names.count(field.name) == 1]
    if not names:
        return []
    seen: dict[str, list[str | None]] = {name: [] for name in names}
    with_paths: set[str] = set()
    rows = 0
    for batch in file.iter_batches(batch_size=_PICTURE_BATCH_ROWS, columns=names, use_threads=False):
        for name in names:
            seen[name] += [sniff(value) for value in _encoded(batch.column(name)) if value is not None]
            if _has_paths(batch.column(name)):
                with_paths.add(name)
        rows += batch.num_rows
        if rows >= _PICTURE_ROWS or all(seen.values()):
            break
    return [
        _image_candidate(schema.field(name), seen[name], rows, only_paths=name in with_paths and not seen[name])
        for name in names
    ]


def _image_candidate(field: pa.Field, found: Sequence[str | None], rows: int, *, only_paths: bool) -> ImageCandidate:
    formats = [each for each in found if each is not None]
    by_count = sorted(set(formats), key=lambda each: (-formats.count(each), each))
    if only_paths:
        problem = f"only paths among its first {counted(rows, 'row')}, the pictures are elsewhere"
    elif not found:
        problem = f"no value among its first {counted(rows, 'row')}"
    elif not formats:
        problem = f"no picture among its first {counted(len(found), 'value')}"
    else:
        problem = ""
    rank = _rank(field.name, USUAL_IMAGES, ())
    return ImageCandidate(field.name, _type_words(field.type), tuple(by_count), problem, rank, only_paths)


def _encoded(column: pa.Array) -> list[bytes | None]:
    if isinstance(column.type, pa.StructType):
        column = cast("pa.StructArray", column).field("bytes")
    return cast("list[bytes | None]", column.to_pylist())


def _has_paths(column: pa.Array) -> bool:
    """Whether a value of the layout of Hugging Face datasets says where its picture is."""
    if not isinstance(column.type, pa.StructType) or column.type.get_field_index("path") < 0:
        return False
    paths = cast("pa.StructArray", column).field("path")
    return paths.null_count < len(paths)


def _type_words(dtype: pa.DataType) -> str:
    if isinstance(dtype, pa.StructType):
        return f"struct {{{', '.join(field.name for field in dtype)}}}"
    return str(dtype)


def _column_bytes(file: pq.ParquetFile, name: str) -> int:
    metadata = file.metadata
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    return sum(
        group.column(index).total_uncompressed_size
        for group in groups
        for index in range(group.num_columns)
        if group.column(index).path_in_schema == name
    )


def _rank(name: str, usual: Sequence[str], endings: Sequence[str]) -> int | None:
    plain = name.casefold()
    if plain in usual:
        return usual.index(plain)
    return len(usual) if plain.endswith(tuple(endings)) and endings else None


def _last_if_none(rank: int | None) -> int:
    return len(USUAL_KEYS) + len(USUAL_IMAGES) if rank is None else rank


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
