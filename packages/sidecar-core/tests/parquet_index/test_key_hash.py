from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.align import plain_keys
from sidecar_core.parquet_index.key_hash import hash_keys


def hashes(values, dtype):
    (plain,) = plain_keys(pa.array(values, dtype)).chunks
    return hash_keys(plain).tolist()


@given(st.lists(st.binary(max_size=40), max_size=50), st.integers(0, 5))
def test_a_key_has_one_hash_wherever_it_stands(keys, skip):
    array = pa.array(keys, pa.large_binary())
    together = hash_keys(array).tolist()
    assert together == [hash_keys(pa.array([key], pa.large_binary()))[0] for key in keys]
    assert hash_keys(array[skip:]).tolist() == together[skip:]


@given(st.sets(st.binary(max_size=30), min_size=1, max_size=200))
def test_different_keys_have_different_hashes(keys):
    assert len(set(hashes(list(keys), pa.binary()))) == len(keys)


@pytest.mark.parametrize(
    "keys",
    [
        [b"\0" * length for length in range(40)],
        [b"a" * 8 + b"b" * 8, b"b" * 8 + b"a" * 8, b"a" * 16, b"b" * 16],
        [b"a", b"a\0", b"\0a", b"aa", b""],
        [bytes([value]) * 1000 for value in range(256)],
        [f"key-{number:09}".encode() for number in range(20_000)],
    ],
    ids=["zeros", "order of words", "padding", "long", "numbered"],
)
def test_keys_that_look_alike_have_different_hashes(keys):
    assert len(set(hashes(keys, pa.binary()))) == len(keys)


def test_hashes_of_numbered_keys_spread_over_buckets():
    found = np.array(hashes([f"{number}" for number in range(65_536)], pa.string()), np.uint64)
    for shift in (56, 28, 0):
        sizes = np.bincount(((found >> np.uint64(shift)) & np.uint64(255)).astype(np.int64), minlength=256)
        assert sizes.min() > 150
        assert sizes.max() < 370


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=100))
def test_integers_never_share_a_hash(keys):
    assert len(set(hashes(keys, pa.int64()))) == len(keys)


def test_width_and_encoding_make_no_difference():
    assert hashes([1, 2], pa.int8()) == hashes([1, 2], pa.uint64())
    assert hashes(["x", "y"], pa.string()) == hashes([b"x", b"y"], pa.large_binary())
    assert hashes(["x", "y"], pa.string()) == hashes(["x", "y"], pa.dictionary(pa.int8(), pa.string()))
    assert hashes([0.0], pa.float32()) == hashes([-0.0], pa.float64())


def test_nothing_has_no_hash():
    assert hashes([], pa.string()) == []
    assert len(hashes([None, None], pa.string())) == 2


def test_an_array_is_hashed_in_blocks():
    keys = [f"{number}" * (number % 3) for number in range(40_000)]
    assert hashes(keys, pa.string())[39_990:] == hashes(keys[39_990:], pa.string())
