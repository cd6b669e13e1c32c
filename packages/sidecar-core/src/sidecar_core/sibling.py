"""Another sidecar's shard, read beside the main shard and held to its keys row by row."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sidecar_core.errors import AlignmentError, ShardError, StorageNotFoundError
from sidecar_core.problems import counted
from sidecar_core.row_reader import KeyPlace, RowReader, check_keys
from sidecar_core.shard_reader import open_parquet, single_field

if TYPE_CHECKING:
    import pyarrow as pa

    from sidecar_core.op import OpContext
    from sidecar_core.storage import Storage


class SiblingReader:
    """A sibling's shard beside the main shard: ranges of rows that mostly follow each other.

    Its row groups may be cut differently from the main shard's, and memory follows the range that is asked for.
    Made by `of_shard`, once a shard.
    """

    def __init__(self, storage: Storage, rel_path: str, rows: RowReader, schema: pa.Schema, key_column: str) -> None:
        self._prefix = storage.prefix
        self._rel_path = rel_path
        self._rows = rows
        self._schema = schema
        self._key_column = key_column

    @classmethod
    def of_shard(cls, ctx: OpContext, prefix: str, schema: pa.Schema, *, required: bool = True) -> SiblingReader | None:
        """Returns the reader of the sibling shard at `ctx.rel_path`; opened at the shard's first batch, then kept.

        Args:
            ctx: of the batch at hand; the reader is closed with `ctx.shard_scope`.
            prefix: the sibling, reached with the dataset's storage options.
            schema: the columns to read, without the key, with their planned types.
            required: whether an absent shard is an error.

        Returns:
            The reader; None when the shard is absent and not required.

        Raises:
            ShardError: the shard is absent and required, is no Parquet file, lacks a column, or has one of a type
                that does not fit.
            AlignmentError: it has another number of rows than the main shard.
        """
        state = (cls, prefix, tuple(schema.names), tuple(schema.types), required)
        if state not in ctx.shard_state:
            ctx.shard_state[state] = cls._open(ctx, prefix, schema, required=required)
        held = ctx.shard_state[state]
        return held if isinstance(held, cls) else None

    @classmethod
    def _open(cls, ctx: OpContext, prefix: str, schema: pa.Schema, *, required: bool) -> SiblingReader | None:
        storage = ctx.open_storage(prefix)
        uri = storage.uri(ctx.rel_path)
        with ExitStack() as opening:
            try:
                file = opening.enter_context(open_parquet(storage, ctx.rel_path))
            except StorageNotFoundError as error:
                if not required:
                    return None
                message = f"{ctx.rel_path}: the sidecar at {storage.prefix} has no such shard"
                fix = "make that shard, or say required: false for nulls in its place"
                raise ShardError(message, None, fix) from error
            key = single_field(file.schema_arrow, ctx.dataset.key_column, uri, role="key column")
            rows = RowReader(file, uri, schema.insert(0, key), types_from="the plan")
            if rows.num_rows != ctx.shard_rows:
                message = (
                    f"{ctx.rel_path}: {counted(ctx.shard_rows, 'row')} in the main shard, {rows.num_rows:,} in {uri}"
                )
                raise AlignmentError(message, None, f"make the shard of {storage.prefix} again")
            ctx.shard_scope.enter_context(opening.pop_all())
        return cls(storage, ctx.rel_path, rows, schema, ctx.dataset.key_column)

    def rows(self, first_row: int, keys: pa.ChunkedArray | pa.Array) -> pa.Table:
        """Returns the columns of the schema for consecutive rows, held against the main shard's keys.

        A row whose key is null in the main dataset has none here either: nulls match nulls.

        Args:
            first_row: position in the shard of the first row.
            keys: the main shard's keys of these rows.

        Raises:
            AlignmentError: a key differs; names shard, row and both keys.
            ShardError: the file is damaged, or a value does not fit its planned type.
        """
        table = self._rows.rows(first_row, len(keys))
        own = table.column(self._key_column)
        check_keys(keys, own, KeyPlace(self._rel_path, first_row, self._key_column, self._prefix))
        return table.select(self._schema.names)
