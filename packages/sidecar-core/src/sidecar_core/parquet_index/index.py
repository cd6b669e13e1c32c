"""An index that is open: rows by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar_core.align import check_comparable, plain_keys
from sidecar_core.errors import AlignmentError, UsageError
from sidecar_core.parquet_index.description import ROWS_FILE, DamagedIndexError, read_description
from sidecar_core.parquet_index.key_hash import fixed_width_values, hash_keys
from sidecar_core.parquet_index.row_file import RowFile
from sidecar_core.parquet_index.sorted_hashes import SortedHashes
from sidecar_core.parquet_index.stored_types import as_type
from sidecar_core.problems import did_you_mean
from sidecar_core.safe_cast import CastError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sidecar_core.parquet_index.key_hash import HashKeys

_compute: Any = pc  # the stubs know few of the types that these functions take
_arrow: Any = pa


class ParquetIndex:
    """Columns of a Parquet file, or of all below a prefix, by key. Safe to use from several threads.

    All data stay in mapped files: a process of its own needs some MiB, and every process of the machine shares the
    pages that are read. Rows are numbered in file, then row order.

    Args:
        folder: a complete index.
        name: what messages call it: its source.
        hash_keys: the hash function that it was made with.

    Attributes:
        schema: the columns that can be looked up, with the types of the source; each may be null.
        key: the source's key column.
        num_keys: how many keys there are.
        num_rows: how many rows the source has.

    Raises:
        DamagedIndexError: it is not as it was made.
    """

    def __init__(self, folder: Path, *, name: str, hash_keys: HashKeys = hash_keys) -> None:
        described = read_description(folder)
        try:
            self._file = RowFile(folder / ROWS_FILE)
            self._hashes = SortedHashes(folder)
        except (pa.ArrowInvalid, OSError, IndexError) as error:
            raise DamagedIndexError(f"{folder}: {error}") from error
        if self._hashes.num_keys != described.num_keys:
            raise DamagedIndexError(f"{folder}: {self._hashes.num_keys} keys, not {described.num_keys}")
        self._name = name
        self._hash_keys = hash_keys
        self.schema = described.values
        self.key = described.key
        self.num_keys = described.num_keys
        self.num_rows = self._file.num_rows

    def lookup(self, keys: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Returns the row of each key, as int64; null where the key is null or is not there.

        Args:
            keys: of any type that can be compared with the source's keys: text with text of any width or encoding,
                integers with integers by value.

        Raises:
            AlignmentError: keys of this type can never equal the source's, as text and numbers.
        """
        try:
            check_comparable(keys.type, self.key.type)
        except AlignmentError as error:
            raise AlignmentError(f"{self._name}: column {self.key.name!r}: {error.message}") from error
        if pa.types.is_null(keys.type) or pa.types.is_null(self.key.type) or not self.num_keys or not len(keys):
            return _arrow.nulls(len(keys), pa.int64())
        chunks = plain_keys(keys).chunks
        plain = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        sought = np.ones(len(plain), np.bool_)
        if plain.null_count:
            sought = plain.is_valid().to_numpy(zero_copy_only=False)
        if pa.uint64() in (keys.type, self.key.type) and keys.type != self.key.type:
            # the same 64 bits are another number on the signed side when the first of them is set
            sought = sought & (fixed_width_values(plain) >= 0)
        rows = self._find(plain, sought)
        return pa.array(rows, mask=rows < 0)

    def take(self, rows: pa.Array | pa.ChunkedArray, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns one row for each entry, in order; where the entry is null, every column is null.

        Columns have the types of `schema`, and several chunks where 32-bit offsets do not reach.

        Args:
            rows: what `lookup` returned.
            columns: which columns; default all.

        Raises:
            UsageError: there is no such column, or no such row.
            CastError: a batch has more different values than a dictionary column's index type can number.
        """
        names = self.schema.names if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names:
                message = f"{self._name}: column {name!r} is not in the index{did_you_mean(name, self.schema.names)}"
                raise UsageError(message, "columns " + ", ".join(self.schema.names))
        numbers = self._numbers(rows)
        fields = [self.schema.field(name) for name in names]
        positions = tuple(self.schema.get_field_index(name) + 1 for name in names)
        pieces = self._file.take(numbers, positions) if names else []
        taken: list[pa.ChunkedArray] = []
        for number, (field, position) in enumerate(zip(fields, positions, strict=True)):
            held = self._file.schema.field(position).type
            try:
                taken.append(as_type([piece.column(number) for piece in pieces], field.type, held=held))
            except CastError as error:
                raise CastError(f"{self._name}: column {field.name!r}: {error.message}", error.row) from error
        if not names:
            return pa.table({"": numbers}).select([])
        return pa.Table.from_arrays(taken, schema=pa.schema(fields))

    def _find(self, plain: pa.Array, sought: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the row of each key in plain form, -1 where there is none."""
        hashes = self._hash_keys(plain)
        positions = self._hashes.find(hashes)
        found = np.full(len(plain), -1, np.int64)
        active = np.flatnonzero(sought & self._hashes.matches(positions, hashes))
        while len(active):
            rows = self._hashes.rows(positions[active])
            asked = plain if len(active) == len(plain) else plain.take(_arrow.array(active))
            equal = _compute.equal(self._file.keys(rows), asked).to_numpy(zero_copy_only=False)
            found[active[equal]] = rows[equal]
            active = active[~equal]  # another key has the same hash: it may come next
            positions[active] += 1
            active = active[self._hashes.matches(positions[active], hashes[active])]
        return found

    def _numbers(self, rows: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        """Returns row numbers with -1 for null."""
        if not pa.types.is_integer(rows.type) and not pa.types.is_null(rows.type):
            raise UsageError(f"rows of type {rows.type}", "integers, as lookup returns them")
        whole = rows.cast(pa.int64())
        if isinstance(whole, pa.ChunkedArray):
            whole = _arrow.concat_arrays([_arrow.nulls(0, pa.int64()), *whole.chunks])
        numbers = fixed_width_values(whole)
        outside = (numbers < 0) | (numbers >= self.num_rows)
        if whole.null_count:
            valid = whole.is_valid().to_numpy(zero_copy_only=False)
            numbers = np.where(valid, numbers, -1)
            outside &= valid
        if outside.any():
            raise UsageError(f"{self._name}: a row number outside of 0 to {self.num_rows - 1}")
        return numbers
