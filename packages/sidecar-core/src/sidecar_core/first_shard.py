"""The columns of a dataset as its first shard that can be read has them: what fixes the types of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.errors import ShardError, StorageNotFoundError, UsageError
from sidecar_core.foreign_types import has_untyped_nulls, plain_type, with_types_of
from sidecar_core.problems import counted
from sidecar_core.shard_reader import open_parquet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.storage import ObjectInfo, Storage

FURTHER_SHARDS = 16
"""How many shards after the first are looked at for the type of a column that has only nulls there."""


def first_readable_schema(storage: Storage, shards: Sequence[ObjectInfo], *, setting: str = "main_prefix") -> pa.Schema:
    """Returns the columns of the first shard that is there and has a Parquet footer, with `plain_type` types.

    A column of Arrow's type null, as writers make it of nothing but nulls or of no rows, has the type that it has in
    the next shard that says one, at any depth; `FURTHER_SHARDS` shards are looked at, and none when all types are said.

    Args:
        storage: a dataset.
        shards: its shards.
        setting: what says where the dataset is, for messages.

    Raises:
        UsageError: there are no shards, or none is readable.
    """
    if not shards:
        raise UsageError(
            f"no shards at {storage.prefix}",
            "*.parquet files at any depth, in folders that do not begin with '_' or '.'",
            f"check {setting}",
        )
    first_error: ShardError | StorageNotFoundError | None = None
    for number, shard in enumerate(shards):
        try:
            schema = _plain_schema(storage, shard)
        except (ShardError, StorageNotFoundError) as error:  # a link to nowhere is listed, and cannot be opened
            first_error = first_error or error
            continue
        return _with_types_of_next(schema, storage, shards[number + 1 : number + 1 + FURTHER_SHARDS])
    raise UsageError(
        f"none of {counted(len(shards), 'shard')} at {storage.prefix} is readable: {first_error}"
    ) from first_error


def _with_types_of_next(schema: pa.Schema, storage: Storage, shards: Sequence[ObjectInfo]) -> pa.Schema:
    for shard in shards:
        untyped = [index for index, field in enumerate(schema) if has_untyped_nulls(field.type)]
        if not untyped:
            break
        try:
            found = _plain_schema(storage, shard)
        except (ShardError, StorageNotFoundError):
            continue
        for index in untyped:
            field = schema.field(index)
            if found.names.count(field.name) == 1:
                schema = schema.set(index, field.with_type(with_types_of(field.type, found.field(field.name).type)))
    return schema


def _plain_schema(storage: Storage, shard: ObjectInfo) -> pa.Schema:
    with open_parquet(storage, shard.rel_path) as file:
        return pa.schema([field.with_type(plain_type(field.type)) for field in file.schema_arrow])
