"""Whether two shards hold the same keys in the same order: row by row, or by a digest of the key column.

Keys are first brought into a plain form that does not depend on how Arrow happens to hold them
(chunks, offsets, dictionaries, views, 32 or 64 bit). Comparison and digest both work on that form.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from sidecar_core.errors import AlignmentError
from sidecar_core.problems import counted
from sidecar_core.python_values import python_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DIGEST_BYTES = 32
_SHOWN_CHARACTERS = 200
_arrow: Any = pa  # the stubs know few of the types that its functions take
_NO_LENGTH = pa.scalar(-1, pa.int64())
_READ_AS_THEY_ARE = (pa.string(), pa.binary())  # no plain form is needed for their bytes


def assert_alignment(main: pa.Table | pa.RecordBatch, sidecar: pa.Table | pa.RecordBatch, key_column: str) -> None:
    """Checks that two tables have equal keys, row by row. Null against null is a mismatch; NaN equals NaN.

    Works across chunk layouts, dictionary encoding, views, 32 and 64 bit offsets and integer widths;
    text and binary are compared as bytes (text as UTF-8).

    Args:
        main: a table with the key column.
        sidecar: a table with the key column.
        key_column: the name of the column.

    Raises:
        AlignmentError: another number of rows, another key in some row (the first one is named, with both
            values), types that cannot be compared, or no such column.
    """
    for name, table in (("main", main), ("sidecar", sidecar)):
        if key_column not in table.schema.names:
            message = f"the {name} table has no key column {key_column!r}"
            raise AlignmentError(message, "columns " + ", ".join(table.schema.names))
    if main.num_rows != sidecar.num_rows:
        raise AlignmentError(f"{counted(main.num_rows, 'row')} in the main table, {sidecar.num_rows:,} in the sidecar")
    main_keys, sidecar_keys = main.column(key_column), sidecar.column(key_column)
    row = first_misaligned(main_keys, sidecar_keys)
    if row is not None:
        raise AlignmentError(
            f"row {row} of {main.num_rows}: {key_column!r} is {describe_key(main_keys[row])} in the main table and "
            f"{describe_key(sidecar_keys[row])} in the sidecar"
        )


def first_misaligned(
    main_keys: pa.Array | pa.ChunkedArray, sidecar_keys: pa.Array | pa.ChunkedArray, *, null_matches_null: bool = False
) -> int | None:
    """Returns the first row whose keys differ, or None when all are equal; NaN equals NaN.

    Args:
        main_keys: keys of one side.
        sidecar_keys: keys of the other; when one side is longer, its first extra row differs.
        null_matches_null: whether two nulls are equal.

    Raises:
        AlignmentError: the types cannot be compared.
    """
    pc = _compute()
    check_comparable(main_keys.type, sidecar_keys.type)
    main_kind, sidecar_kind = _kind(main_keys.type), _kind(sidecar_keys.type)
    rows = min(len(main_keys), len(sidecar_keys))
    main_plain, sidecar_plain = _plain(main_keys.slice(0, rows)), _plain(sidecar_keys.slice(0, rows))
    if main_kind == "null":
        main_plain = _nulls(rows, sidecar_plain.type)
    elif sidecar_kind == "null":
        sidecar_plain = _nulls(rows, main_plain.type)
    equal = pc.fill_null(pc.equal(main_plain, sidecar_plain), False)
    if pa.types.is_floating(main_plain.type):
        both_nan = pc.and_(pc.is_nan(main_plain), pc.is_nan(sidecar_plain))
        equal = pc.or_(equal, pc.fill_null(both_nan, False))  # a row's place is its name: NaN is what stands there
    if (
        main_kind == "integer"
        and pa.uint64() in (main_keys.type, sidecar_keys.type)
        and main_keys.type != sidecar_keys.type
    ):
        # the same 64 bits are another number on the signed side when the first of them is set
        equal = pc.and_(equal, pc.fill_null(pc.greater_equal(main_plain, 0), False))
    if null_matches_null:
        equal = pc.or_(equal, pc.and_(pc.is_null(main_plain), pc.is_null(sidecar_plain)))
    found: int = pc.index(equal, False).as_py()
    if found >= 0:
        return found
    return None if len(main_keys) == len(sidecar_keys) else rows


def check_comparable(main_type: pa.DataType, sidecar_type: pa.DataType) -> None:
    """Raises AlignmentError when keys of the one type can never equal keys of the other, as text and numbers."""
    main_kind, sidecar_kind = _kind(main_type), _kind(sidecar_type)
    if main_kind != sidecar_kind and "null" not in (main_kind, sidecar_kind):
        raise AlignmentError(f"keys of type {main_type} cannot be compared with keys of type {sidecar_type}")


def plain_keys(keys: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns keys in plain form: two keys of comparable types are equal when these are; NaN is equal to none.

    A uint64 above 2^63-1 keeps its 64 bits, and so looks like a negative number.

    Args:
        keys: a column, of any type that can be a key.

    Returns:
        As many keys, chunk by chunk: large_binary (text as UTF-8), int64 or float64.

    Raises:
        AlignmentError: a column of this type cannot be a key.
    """
    return _plain(keys)


def describe_key(value: pa.Scalar) -> str:
    """Returns a key as messages quote it; a long one is cut."""
    text = repr(python_value(value))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


class KeyDigest:
    """A digest of a key column, sensitive to order, fed batch by batch.

    It is the BLAKE2b (32 bytes) of three things: the row count as little-endian int64; the BLAKE2b of
    the lengths of all values in bytes, each a little-endian int64 and -1 for null; and the BLAKE2b of
    all values that are not null, one after the other. Dictionaries are decoded. Values count as:

    - text: its UTF-8 bytes; binary and UUIDs: their bytes
    - integers: little-endian int64; a uint64 above 2^63-1 keeps its 64 bits
    - booleans: int64 0 or 1; dates: int64 days since 1970
    - times, timestamps, durations: int64 µs, or ns where that is the unit
    - floats: little-endian float64, each NaN as 0x7ff8000000000000; decimals: their text with all places

    Chunks, slices and batch sizes make no difference, nor does the width of an integer or an offset.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._lengths = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._values = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def update(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Adds rows. Raises AlignmentError for a type that cannot be a key."""
        _feed([self], keys)

    def hexdigest(self) -> str:
        """Returns the digest of the rows so far, 64 hex digits."""
        whole = hashlib.blake2b(struct.pack("<q", self.rows), digest_size=_DIGEST_BYTES)
        whole.update(self._lengths.digest())
        whole.update(self._values.digest())
        return whole.hexdigest()

    def add_bytes(self, rows: int, lengths: memoryview, values: memoryview) -> None:
        """Adds rows in the form that is hashed: their lengths as int64, and their bytes."""
        self.rows += rows
        self._lengths.update(lengths)
        self._values.update(values)


class GroupedKeyDigest:
    """The digests of a file's key column: of each row group, and of the whole; every key is converted once.

    Attributes:
        groups: digests of the row groups that have ended.
    """

    def __init__(self) -> None:
        self.groups: list[str] = []
        self._whole: KeyDigest | None = None  # of the first group, it is that group's
        self._group = KeyDigest()

    @property
    def rows(self) -> int:
        """Rows of the row groups that have ended."""
        return 0 if self._whole is None else self._whole.rows

    def update(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Adds rows to the present row group. Raises AlignmentError for a type that cannot be a key."""
        _feed([self._group] if self._whole is None else [self._group, self._whole], keys)

    def end_group(self) -> None:
        """Ends the present row group."""
        self.groups.append(self._group.hexdigest())
        if self._whole is None:
            self._whole = self._group
        self._group = KeyDigest()

    def hexdigest(self) -> str:
        """Returns the digest of all row groups that have ended, 64 hex digits."""
        return (self._whole or KeyDigest()).hexdigest()


def _feed(digests: Sequence[KeyDigest], keys: pa.Array | pa.ChunkedArray) -> None:
    """Adds rows to several digests."""
    _kind(keys.type)
    pc = _compute()
    for chunk in _chunks(keys):
        if len(chunk) == 0:
            continue
        plain = chunk if chunk.type in _READ_AS_THEY_ARE else _plain_chunk(chunk)
        present = plain.drop_null() if plain.null_count else plain  # a null's slot may hold bytes
        if _is_bytes(plain.type):
            lengths = pc.binary_length(plain).cast(pa.int64())
            lengths = _fixed_bytes(pc.fill_null(lengths, _NO_LENGTH) if plain.null_count else lengths)
            values = _joined_bytes(present)
        else:
            lengths = _fixed_bytes(pc.if_else(plain.is_valid(), pa.scalar(8, pa.int64()), _NO_LENGTH))
            values = _fixed_bytes(_with_one_nan(present) if pa.types.is_floating(present.type) else present)
        for digest in digests:
            digest.add_bytes(len(chunk), lengths, values)


def key_digest(keys: pa.Array | pa.ChunkedArray) -> str:
    """Returns the digest of a whole key column; see `KeyDigest`."""
    digest = KeyDigest()
    digest.update(keys)
    return digest.hexdigest()


def _kind(dtype: pa.DataType) -> str:
    """Returns what sort of key a type holds; keys of one sort can be compared."""
    dtype = _storage_type(dtype)
    if _is_bytes(dtype):
        return "bytes"
    if pa.types.is_timestamp(dtype):
        return f"timestamp {_tick(dtype)} {'UTC' if dtype.tz else 'local'}"
    if pa.types.is_time(dtype) or pa.types.is_duration(dtype):
        return f"{'time' if pa.types.is_time(dtype) else 'duration'} {_tick(dtype)}"
    if pa.types.is_decimal(dtype):
        return f"decimal {dtype.scale}"  # 1 and 1.00 are other text, and have another digest
    for name, holds in (
        ("integer", pa.types.is_integer),
        ("boolean", pa.types.is_boolean),
        ("float", pa.types.is_floating),
        ("date", pa.types.is_date),
        ("null", pa.types.is_null),
    ):
        if holds(dtype):
            return name
    raise AlignmentError(f"a column of type {dtype} cannot be a key", "text, binary, numbers, booleans, dates or times")


def _storage_type(dtype: pa.DataType) -> pa.DataType:
    """Returns the type below dictionaries, runs and extension types."""
    if isinstance(dtype, (pa.DictionaryType, pa.RunEndEncodedType)):
        return _storage_type(dtype.value_type)
    if isinstance(dtype, pa.BaseExtensionType):
        return _storage_type(dtype.storage_type)
    return dtype


def _is_bytes(dtype: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(dtype)
        or types.is_large_string(dtype)
        or types.is_string_view(dtype)
        or types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or types.is_binary_view(dtype)
        or types.is_fixed_size_binary(dtype)
    ) and not types.is_decimal(dtype)


def _tick(dtype: pa.TimestampType | pa.Time32Type | pa.Time64Type | pa.DurationType) -> Literal["us", "ns"]:
    """Returns the unit in which times of this type are compared and digested."""
    return "ns" if dtype.unit == "ns" else "us"


def _chunks(keys: pa.Array | pa.ChunkedArray) -> Iterable[pa.Array]:
    return keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]


def _plain(keys: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the keys in plain form, chunk by chunk: no chunk is ever put together with another."""
    return _arrow.chunked_array([_plain_chunk(chunk) for chunk in _chunks(keys)], type=_plain_type(keys.type))


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    kind = _kind(dtype)
    if kind == "float":
        return pa.float64()
    return pa.large_binary() if kind in {"bytes", "null"} or pa.types.is_decimal(_storage_type(dtype)) else pa.int64()


def _compute() -> Any:  # noqa: ANN401 - its functions take more types than its stubs know
    """Returns pyarrow.compute: loading it takes longer than listing a thousand shards, which a dry run does without."""
    import pyarrow.compute

    return pyarrow.compute


def _nulls(rows: int, dtype: pa.DataType) -> pa.ChunkedArray:
    return _arrow.chunked_array([_arrow.nulls(rows, dtype)])


def _plain_chunk(keys: pa.Array) -> pa.Array:
    """Returns an array of large_binary, float64 or int64 that holds the same keys."""
    if isinstance(keys, pa.DictionaryArray):
        return _plain_chunk(keys.dictionary).take(keys.indices)
    if isinstance(keys, pa.RunEndEncodedArray):
        return _plain_chunk(_compute().call_function("run_end_decode", [keys]))
    if isinstance(keys, pa.ExtensionArray):
        return _plain_chunk(keys.storage)
    dtype = keys.type
    if dtype == pa.uint64():
        return keys.view(pa.int64())
    if pa.types.is_decimal(dtype):
        keys = keys.cast(pa.large_string())
    elif pa.types.is_date(dtype):
        keys = keys.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_time(dtype):
        keys = keys.cast(pa.time64(_tick(dtype)))
    elif pa.types.is_timestamp(dtype):
        keys = keys.cast(pa.timestamp(_tick(dtype), dtype.tz))
    elif pa.types.is_duration(dtype):
        keys = keys.cast(pa.duration(_tick(dtype)))
    return keys.cast(_plain_type(dtype))


def _fixed_bytes(keys: pa.Array) -> memoryview:
    """Returns the bytes of an int64 or float64 array without nulls."""
    data = keys.buffers()[1]
    if data is None:
        return memoryview(b"")
    return memoryview(data)[keys.offset * 8 : (keys.offset + len(keys)) * 8]


def _with_one_nan(keys: pa.Array) -> pa.Array:
    """Returns float64 keys in which every NaN has the same bits."""
    pc = _compute()
    return pc.if_else(pc.is_nan(keys), pa.scalar(math.nan, pa.float64()), keys)


def _joined_bytes(keys: pa.Array) -> memoryview:
    """Returns the bytes of all values of a binary, large_binary or string array without nulls, one after the other."""
    _, offsets, data = keys.buffers()
    if data is None or offsets is None:
        return memoryview(b"")
    offset = struct.Struct("<q" if pa.types.is_large_binary(keys.type) else "<i")
    (start,) = offset.unpack_from(offsets, keys.offset * offset.size)
    (end,) = offset.unpack_from(offsets, (keys.offset + len(keys)) * offset.size)
    return memoryview(data)[start:end]
