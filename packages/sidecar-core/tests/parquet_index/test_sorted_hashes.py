from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.parquet_index.sorted_hashes import HashSorter, SortedHashes

ANY_HASH = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 2**64 - 1, 5]),
    st.integers(0, 3).map(lambda n: n << 62),
    st.integers(2**40, 2**40 + 3),
)


def sort(hashes, *, sort_rows, batch=7, keep=lambda hashes, rows: None):
    folder = Path(tempfile.mkdtemp())
    with HashSorter(folder, sort_rows=sort_rows) as sorter:
        for first in range(0, len(hashes), batch):
            block = np.array(hashes[first : first + batch], np.uint64)
            sorter.add(block, np.arange(first, first + len(block)))
        kept = sorter.finish(keep)
    found = SortedHashes(folder)
    assert found.num_keys == kept
    assert sorted(path.name for path in folder.iterdir()) == ["buckets.arrow", "hashes.arrow"]
    return found


@given(st.lists(ANY_HASH, max_size=60), st.sampled_from([1, 2, 5, 1000]), st.integers(1, 70))
def test_hashes_come_sorted_with_their_rows_in_order(hashes, sort_rows, batch):
    found = sort(hashes, sort_rows=sort_rows, batch=batch)
    expected = sorted((value, row) for row, value in enumerate(hashes))
    rows = found.rows(np.arange(found.num_keys))
    assert [(hashes[row], row) for row in rows.tolist()] == expected


@given(st.lists(ANY_HASH, max_size=60), st.lists(ANY_HASH, max_size=20))
def test_find_gives_the_first_that_is_not_smaller(hashes, sought):
    found = sort(hashes, sort_rows=8)
    asked = np.array(sought, np.uint64)
    positions = found.find(asked)
    assert positions.tolist() == np.searchsorted(np.array(sorted(hashes), np.uint64), asked).tolist()
    assert found.matches(positions, asked).tolist() == [value in hashes for value in sought]


def test_many_hashes_in_many_parts():
    hashes = np.random.default_rng(0).integers(0, 2**64, 100_000, np.uint64)
    found = sort(hashes, sort_rows=1000, batch=4096)
    assert (hashes[found.rows(np.arange(found.num_keys))] == np.sort(hashes)).all()
    assert (found.find(np.sort(hashes)) == np.arange(len(hashes))).all()


def test_what_is_not_kept_is_not_there():
    seen = []

    def keep(hashes, rows):
        seen.extend(rows.tolist())
        return hashes != 3

    found = sort([3, 1, 3, 2**63], sort_rows=1, keep=keep)
    assert sorted(seen) == [0, 1, 2, 3]
    assert found.rows(np.arange(2)).tolist() == [1, 3]
    assert not found.matches(found.find(np.array([3], np.uint64)), np.array([3], np.uint64)).any()


def test_all_of_one_hash_come_in_one_part():
    parts = []
    sort([7] * 50 + [2**63 + 1] * 50, sort_rows=3, keep=lambda hashes, rows: parts.append(set(hashes.tolist())))
    assert parts.count({7}) == 1
    assert parts.count({2**63 + 1}) == 1
