"""Keys that a source has twice: found among equal hashes, and one row of each kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sidecar_core.parquet_index.key_hash import Words
    from sidecar_core.parquet_index.row_file import RowFile
    from sidecar_core.parquet_index.spec import Duplicates

_compute: Any = pc  # the stubs know few of the types that these functions take
_KEYS_AT_A_TIME = 65_536


class DuplicateKeys:
    """Decides which rows an index leaves out.

    Args:
        file: the rows with their keys.
        policy: which row of a key is kept.

    Attributes:
        found: with the policy "error", two rows of one key with the key; of those that were seen together, the
            pair that ends first.
    """

    def __init__(self, file: RowFile, policy: Duplicates) -> None:
        self._file = file
        self._policy = policy
        self.found: tuple[int, int, pa.Scalar] | None = None

    def keep(self, hashes: Words, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Returns which of these rows, sorted by hash, then row, are kept; None for all."""
        alike = hashes[1:] == hashes[:-1]
        if self.found is not None or not alike.any():
            return None
        members = np.flatnonzero(_in_runs(alike))
        runs = np.cumsum(np.insert(~alike, 0, False))[members]
        kept = np.ones(len(rows), np.bool_)
        while len(members):
            # each run's first row against all of the run: those with another key are a run again
            begins = np.append(True, runs[1:] != runs[:-1])
            heads = np.flatnonzero(begins)
            head_of = heads[np.cumsum(begins) - 1]
            same = self._same_keys(rows[members[head_of]], rows[members])
            same[heads] = True  # NaN does not equal itself
            self._drop(members, head_of, same, rows, kept)
            members, runs = members[~same], runs[~same]
            if len(members):
                again = _in_runs(runs[1:] == runs[:-1])
                members, runs = members[again], runs[again]  # a run of one is another key that shares the hash
        return kept

    def _drop(
        self,
        members: NDArray[np.int64],
        head_of: NDArray[np.int64],
        same: NDArray[np.bool_],
        rows: NDArray[np.int64],
        kept: NDArray[np.bool_],
    ) -> None:
        """Marks all but one row of each head's key as not kept, or notes two of them."""
        equal = np.flatnonzero(same)
        heads = head_of[equal]
        if self._policy == "last":
            kept[members[equal[:-1][heads[1:] == heads[:-1]]]] = False
            return
        later = equal[equal != heads]
        kept[members[later]] = False
        if self._policy == "error" and len(later):
            second = later[np.argmin(rows[members[later]])]
            pair = int(rows[members[head_of[second]]]), int(rows[members[second]])
            if self.found is None or pair[1] < self.found[1]:
                self.found = (*pair, self._file.keys(np.array(pair[:1]))[0])

    def _same_keys(self, some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        same = np.empty(len(some), np.bool_)
        for first in range(0, len(some), _KEYS_AT_A_TIME):
            block = slice(first, first + _KEYS_AT_A_TIME)
            equal = _compute.equal(self._file.keys(some[block]), self._file.keys(others[block]))
            same[block] = equal.to_numpy(zero_copy_only=False)
        return same


def _in_runs(same_as_next: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which elements equal the one before or after them."""
    return np.append(same_as_next, False) | np.insert(same_as_next, 0, False)
