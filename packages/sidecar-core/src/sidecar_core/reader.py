"""A main dataset and its sidecars as one stream of record batches: for trainers, DuckDB and notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from sidecar_core.aligned_shard import AlignedShard, AlignedSource
from sidecar_core.dataset import Dataset, StorageOptions
from sidecar_core.errors import ShardError, StorageNotFoundError, UsageError
from sidecar_core.first_shard import first_readable_schema
from sidecar_core.foreign_types import holds_pictures
from sidecar_core.problems import counted, did_you_mean
from sidecar_core.shard_reader import PLAIN_BATCH_ROWS, open_parquet
from sidecar_core.storage import normalise_prefix, shared_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sidecar_core.storage import ObjectInfo, Storage

_NAMED_SHARDS = 5
_KEY_FIX = "key_column='…', or --key-column …"


def open_aligned(  # noqa: PLR0913 - options of one reading, each by its name
    main: str | Path | Dataset,
    sidecars: Sequence[str | Path | Dataset] = (),
    *,
    columns: Sequence[str] | None = None,
    key_column: str | None = None,
    storage: StorageOptions | None = None,
    subprefix: str = "",
    shards: Sequence[str] | slice | None = None,
    missing: Literal["error", "null"] = "error",
    batch_rows: int = PLAIN_BATCH_ROWS,
) -> pa.RecordBatchReader:
    """Returns the rows of a main dataset and of its sidecars side by side, as one stream of record batches.

    The stream goes shard by shard in the order of paths, and row group by row group of the main dataset. Before
    the first row of a shard is given out, each sidecar's shard is proven to have the main shard's number of rows
    and its keys, row by row, and the digest in its footer is held against them. Memory follows the batch. Only the
    key and the columns that are asked for are read.

        reader = open_aligned("s3://bucket/photos/", ["s3://bucket/photos_filters/"], columns=["image", "filter_luma"])
        for batch in reader: ...                          # or duckdb.from_arrow(reader), or reader.read_pandas()

    Args:
        main: the main dataset: its prefix, or a loaded dataset.
        sidecars: prefixes, or datasets, of which each stands for its sidecar_prefix.
        columns: what to read, in this order. A name that several have is read from the first one: the main dataset,
            then the sidecars as they are listed. Default: every column but pictures, that is binary columns and
            structs with a binary field `bytes`.
        key_column: default that of the dataset, or else the first column of whichever of them sidecar wrote; not needed
            without sidecars.
        storage: how to reach the prefixes that are not given as datasets.
        subprefix: only shards whose path begins with it. Types are those of the first of them.
        shards: only these paths below the main prefix, or a slice of all, such as `slice(rank, None, world)`; types
            are those of the first shard nevertheless, so that all parts have the same schema.
        missing: what to do about shards that a sidecar lacks; `null` gives nulls for its columns.
        batch_rows: rows a batch at most; large rows make smaller batches, of about 64 MiB.

    Raises:
        UsageError: there are no shards, no such column, or no known key column.
        ShardError: a sidecar lacks shards. While reading: a file is damaged, or a value does not fit the type that
            its column has in the first shard.
        AlignmentError: while reading: other keys or another number of rows; names shard, row and both keys.
    """
    held = AlignedDatasets.open(
        main, sidecars, key_column=key_column, storage=storage, subprefix=subprefix, missing=missing
    )
    return held.read(columns, shards=shards, batch_rows=batch_rows)


@dataclass(frozen=True)
class AlignedDatasets:
    """A main dataset and its sidecars, listed, with their columns; made by `open`, read any number of times.

    Attributes:
        key_column: the column that all have; None when nothing says which it is, and there are no sidecars.
        schema: every column, of the first source that has it: the main dataset, then the sidecars in order.
        shards: the main dataset's shards, in order.
        sources: the main dataset, then the sidecars, each with the columns of which it is the first source.
        lacking: per source, the shards that it lacks.
        repeated: names that a source has more than once, so that nobody can say which column is meant.
    """

    key_column: str | None
    schema: pa.Schema
    shards: tuple[str, ...]
    sources: tuple[AlignedSource, ...]
    lacking: tuple[frozenset[str], ...]
    repeated: frozenset[str] = frozenset()
    _proven: set[str] = field(default_factory=set[str], repr=False, compare=False)

    @classmethod
    def open(
        cls,
        main: str | Path | Dataset,
        sidecars: Sequence[str | Path | Dataset] = (),
        *,
        key_column: str | None = None,
        storage: StorageOptions | None = None,
        subprefix: str = "",
        missing: Literal["error", "null"] = "error",
    ) -> AlignedDatasets:
        """Lists the datasets and reads the footer of each one's first shard; see `open_aligned`."""
        if isinstance(sidecars, (str, Path, Dataset)):
            raise UsageError(f"sidecars is {sidecars!r}", "a list of prefixes or datasets", "put it in brackets")
        if missing not in ("error", "null"):
            raise UsageError(f"missing is {missing!r}", "'error' or 'null'")
        options = storage or StorageOptions()
        storages = [_storage_of(main, "main_prefix", options)]
        storages += [_storage_of(each, "sidecar_prefix", options) for each in sidecars]
        main_shards = storages[0].list_shards(subprefix)
        paths = tuple(each.rel_path for each in main_shards)
        schemas = [first_readable_schema(storages[0], main_shards, setting="main")]
        listed = [(storages[0], main_shards)]
        lacking = [frozenset[str]()]
        for each in storages[1:]:
            infos = each.list_shards(subprefix, missing_ok=missing == "null")
            lacks = frozenset(paths).difference(info.rel_path for info in infos)
            if lacks and missing == "error":
                raise _lacks_shards(each, sorted(lacks), len(paths), storages[0].prefix)
            lacking.append(lacks)
            listed.append((each, infos))
            schemas.append(first_readable_schema(each, infos, setting="sidecars") if infos else pa.schema([]))
        key = key_column or _key_column([main, *sidecars], listed, schemas[0])
        sources: list[AlignedSource] = []
        fields: dict[str, pa.Field] = {}
        for each, found in zip(storages, schemas, strict=True):
            if key is not None and key not in found.names and found.names:
                message = f"{each.prefix}: no key column {key!r}{did_you_mean(key, found.names)}"
                raise UsageError(message, "columns " + ", ".join(found.names), _KEY_FIX)
            own = [
                pa.field(name, found.field(name).type)
                for name in found.names
                if found.names.count(name) == 1 and name not in fields
            ]
            fields.update({each.name: each for each in own})
            sources.append(AlignedSource(each, pa.schema(own)))
        return cls(
            key_column=key,
            schema=pa.schema(list(fields.values())),
            shards=paths,
            sources=tuple(sources),
            lacking=tuple(lacking),
            repeated=frozenset(name for found in schemas for name in found.names if found.names.count(name) > 1),
        )

    @property
    def plain_columns(self) -> list[str]:
        """The columns that are read unless others are asked for: all but pictures."""
        return [each.name for each in self.schema if each.name == self.key_column or not holds_pictures(each.type)]

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        shards: Sequence[str] | slice | None = None,
        batch_rows: int = PLAIN_BATCH_ROWS,
    ) -> pa.RecordBatchReader:
        """Returns a new stream; see `open_aligned`. A shard is proven once, however often it is read."""
        if isinstance(columns, str):
            raise UsageError(f"columns is {columns!r}", "a list of names", "put it in brackets")
        names = self.plain_columns if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names and name in self.repeated:
                raise UsageError(f"column {name!r} is there more than once in the files that have it")
            if name not in self.schema.names:
                known = ", ".join(self.schema.names)
                raise UsageError(f"no column {name!r}{did_you_mean(name, self.schema.names)}", known)
        if not names or len(set(names)) < len(names):
            raise UsageError(f"columns are {names}", "at least one name, and none twice")
        if batch_rows < 1:
            raise UsageError(f"batch_rows is {batch_rows}", "at least 1")
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema, self._chosen(shards), batch_rows))

    def _chosen(self, shards: Sequence[str] | slice | None) -> Sequence[str]:
        if shards is None:
            return self.shards
        if isinstance(shards, slice):
            return self.shards[shards]
        if isinstance(shards, str) or not isinstance(shards, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"shards is {shards!r}", "a list of paths, or a slice", "put it in brackets")
        chosen, known = list(shards), set(self.shards)
        for rel_path in chosen:
            if rel_path not in known:
                message = f"no shard {rel_path!r} at {self.sources[0].storage.prefix}"
                raise UsageError(f"{message}{did_you_mean(rel_path, self.shards)}")
        return chosen

    def _batches(self, schema: pa.Schema, shards: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        sources = [
            AlignedSource(each.storage, pa.schema([own for own in each.schema if own.name in schema.names]))
            for each in self.sources
        ]
        for rel_path in shards:
            absent = [rel_path in lacks for lacks in self.lacking]
            with AlignedShard.open(rel_path, self.key_column or "", sources, absent=absent) as shard:
                if rel_path not in self._proven:
                    shard.prove()
                    self._proven.add(rel_path)
                yield from shard.batches(schema, max_rows=batch_rows)


def _storage_of(
    given: str | Path | Dataset, prefix: Literal["main_prefix", "sidecar_prefix"], options: StorageOptions
) -> Storage:
    if isinstance(given, Dataset):
        return shared_storage(given.main_prefix if prefix == "main_prefix" else given.sidecar_prefix, given.storage)
    return shared_storage(normalise_prefix(str(given)), options)


def _key_column(
    given: Sequence[str | Path | Dataset], listed: Sequence[tuple[Storage, Sequence[ObjectInfo]]], main: pa.Schema
) -> str | None:
    """Returns the key column that a dataset names, or that is the first in a file that sidecar wrote."""
    for each in given:
        if isinstance(each, Dataset):
            return each.key_column
    for storage, shards in listed:
        for info in shards:
            with suppress(ShardError, StorageNotFoundError), open_parquet(storage, info.rel_path) as file:
                if b"sidecar.key_digest" in (file.metadata.metadata or {}):
                    return file.schema_arrow.names[0]
                break
    if len(given) == 1:
        return None
    message = f"nothing says which column is the key: {given[0]} is a prefix, and sidecar wrote none of the files"
    raise UsageError(message, "a column of " + ", ".join(main.names), _KEY_FIX)


def _lacks_shards(storage: Storage, lacks: Sequence[str], total: int, main_prefix: str) -> ShardError:
    named = ", ".join(lacks[:_NAMED_SHARDS]) + (", …" if len(lacks) > _NAMED_SHARDS else "")
    message = f"{storage.prefix} lacks {len(lacks):,} of {counted(total, 'shard')} of {main_prefix}: {named}"
    return ShardError(message, None, "make them, or take nulls in their place: missing='null', or --missing null")
