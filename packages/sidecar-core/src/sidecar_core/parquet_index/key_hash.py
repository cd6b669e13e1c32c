"""A 64-bit hash of keys, computed for a whole array at a time.

A key is cut into words of 8 bytes. Each word is mixed together with its position, the mixes are added up and the
sum is mixed again with the length. Arrow has no such function for arrays, and to call one for each key from
Python costs more than the lookup. It is no protection against keys that somebody chose so that they collide:
lookups stay right then, and become slow.

Source: the mixing function is the finalizer of MurmurHash3 (Austin Appleby, public domain).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    HashKeys = Callable[[pa.Array], Words]

_WORD_BYTES = 8
_BLOCK_ROWS = 16_384  # so that intermediate arrays stay in the processor's cache
_STEP = np.uint64(0x9E3779B97F4A7C15)
_LENGTH_STEP = np.uint64(0xD6E8FEB86659FD93)
_FIRST = np.uint64(0xFF51AFD7ED558CCD)
_SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_LAST_WORD_MASKS = np.array([(1 << 8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.uint64)


def hash_keys(keys: pa.Array) -> Words:
    """Returns the hash of each key; what it is for a null is left open.

    Args:
        keys: in plain form, see `sidecar_core.align.plain_keys`: large_binary, int64 or float64.
    """
    if pa.types.is_large_binary(keys.type):
        return _hash_bytes(keys)
    values = fixed_width_values(keys)
    if values.dtype.kind == "f":
        values = values + 0.0  # -0.0 equals 0.0
    return _mixed(values.view(np.uint64).copy())


def fixed_width_values(keys: pa.Array) -> NDArray[Any]:
    """Returns the values of an int64 or float64 array without copying; that of a null is left open."""
    dtype = np.dtype(np.float64 if pa.types.is_floating(keys.type) else np.int64)
    data = keys.buffers()[1]
    if data is None:
        return np.zeros(len(keys), dtype)
    return np.frombuffer(cast("Any", data), dtype, len(keys), keys.offset * dtype.itemsize)


def _hash_bytes(keys: pa.Array) -> Words:
    _, offsets_buffer, data_buffer = keys.buffers()
    if len(keys) == 0 or offsets_buffer is None:
        return np.zeros(len(keys), np.uint64)
    offsets = np.frombuffer(cast("Any", offsets_buffer), np.int64, len(keys) + 1, keys.offset * 8)
    data = np.frombuffer(cast("Any", data_buffer), np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    hashes = np.empty(len(keys), np.uint64)
    for first in range(0, len(keys), _BLOCK_ROWS):
        block = offsets[first : first + _BLOCK_ROWS + 1]
        hashes[first : first + _BLOCK_ROWS] = _hash_block(block - block[0], data[block[0] : block[-1]])
    return hashes


def _hash_block(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> Words:
    """Hashes keys that lie one after the other; `offsets` begins with 0."""
    padded = np.zeros(len(data) + _WORD_BYTES, np.uint8)
    padded[: len(data)] = data
    # a word at each byte: which of them are read is chosen below
    at_bytes = np.ndarray((len(data) + 1,), np.dtype("<u8"), buffer=cast("Any", padded), strides=(1,))
    starts = offsets[:-1]
    lengths = np.diff(offsets)
    counts = np.maximum((lengths + (_WORD_BYTES - 1)) // _WORD_BYTES, 1)
    ends = np.cumsum(counts)
    firsts = ends - counts
    positions = np.arange(ends[-1])
    positions -= np.repeat(firsts, counts)
    words = at_bytes[np.repeat(starts, counts) + positions * _WORD_BYTES].astype(np.uint64, copy=False)
    words[ends - 1] &= _LAST_WORD_MASKS[lengths - (counts - 1) * _WORD_BYTES]
    words += positions.view(np.uint64) * _STEP
    sums = np.add.reduceat(_mixed(words), firsts)
    sums += lengths.view(np.uint64) * _LENGTH_STEP
    return _mixed(sums)


def _mixed(words: Words) -> Words:
    """Mixes the words in place and returns them; no two words become the same."""
    words ^= words >> _SHIFT
    words *= _FIRST
    words ^= words >> _SHIFT
    words *= _SECOND
    words ^= words >> _SHIFT
    return words
