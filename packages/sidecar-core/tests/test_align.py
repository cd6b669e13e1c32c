from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import itertools
import math
import re
import struct
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.align import GroupedKeyDigest, KeyDigest, assert_alignment, first_misaligned, key_digest
from sidecar_core.errors import AlignmentError

KEYS = st.lists(st.none() | st.text(max_size=8), max_size=40)
INT_KEYS = st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=40)


def digest_by_row(values):
    """The definition, one row at a time."""
    lengths, joined = b"", b""
    for value in values:
        raw = (
            value.encode() if isinstance(value, str) else struct.pack("<q", value) if isinstance(value, int) else value
        )
        lengths += struct.pack("<q", -1 if raw is None else len(raw))
        joined += raw or b""
    whole = struct.pack("<q", len(values))
    for part in (lengths, joined):
        whole += hashlib.blake2b(part, digest_size=32).digest()
    return hashlib.blake2b(whole, digest_size=32).hexdigest()


def ways_to_hold_text(values):
    """The same text keys in every way that Arrow has for them."""
    plain = pa.array(values, pa.string())
    padded = pa.array(["é?", None, *values, "tail", None], pa.string())
    yield plain
    yield plain.cast(pa.large_string())
    yield pa.array(values, pa.string_view())
    yield plain.cast(pa.binary())
    yield plain.cast(pa.large_binary())
    yield plain.dictionary_encode()
    yield padded.slice(2, len(values))
    yield padded.dictionary_encode().slice(2, len(values))
    yield pa.array(["é?", None, *values, "tail"], pa.string_view()).slice(2, len(values))
    yield pa.chunked_array([plain[:3], plain[3:3], plain[3:7], plain[7:]])
    yield pc.run_end_encode(plain)
    yield pa.DictionaryArray.from_arrays(
        pa.array([None if v is None and i % 2 else i for i, v in enumerate(values)], pa.int32()),
        pa.array(values, pa.large_string()),
    )


@given(KEYS)
def test_a_text_digest_follows_the_definition_however_the_keys_are_held(values):
    expected = digest_by_row(values)
    assert [key_digest(keys) for keys in ways_to_hold_text(values)] == [expected] * 12


@given(INT_KEYS)
def test_an_integer_digest_follows_the_definition_whatever_the_width(values):
    expected = digest_by_row(values)
    padded = pa.array([7, None, *values, 9], pa.int64())
    assert key_digest(pa.array(values, pa.int64())) == expected
    assert key_digest(pa.array(values, pa.int32())) == expected
    assert key_digest(padded.slice(2, len(values))) == expected
    assert key_digest(pa.array(values, pa.int32()).dictionary_encode()) == expected
    positive = [None if value is None else abs(value) for value in values]
    assert key_digest(pa.array(positive, pa.uint64())) == digest_by_row(positive)


@given(KEYS, st.lists(st.integers(0, 40), max_size=5))
def test_batches_make_no_difference(values, cuts):
    whole = pa.array(values, pa.string())
    digest = KeyDigest()
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    for start, end in itertools.pairwise(edges):
        digest.update(whole[start:end])
    assert digest.hexdigest() == key_digest(whole)
    assert digest.rows == len(values)


@given(KEYS, KEYS)
def test_other_keys_have_another_digest(first, second):
    same = key_digest(pa.array(first, pa.string())) == key_digest(pa.array(second, pa.string()))
    assert same == (first == second)


def test_a_digest_tells_apart_what_joined_text_does_not():
    held = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", None], [None, "abc"], ["abc", ""], ["", "abc"], [None], [""], []]
    assert len({key_digest(pa.array(values, pa.string())) for values in held}) == len(held)


def test_bytes_below_a_null_do_not_count():
    hidden = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(struct.pack("<4i", 0, 1, 3, 4)), pa.py_buffer(b"aXXb")]
    )
    assert hidden.to_pylist() == ["a", None, "b"]
    assert key_digest(hidden) == digest_by_row(["a", None, "b"])


def test_large_unsigned_keys_keep_their_bits():
    keys = pa.array([2**64 - 1, 2**63, 5, None], pa.uint64())
    assert key_digest(keys) == digest_by_row([-1, -(2**63), 5, None])


DAY = dt.date(2024, 2, 29)
NOW = dt.datetime(2024, 2, 29, 12, 30, 0)  # noqa: DTZ001


@pytest.mark.parametrize(
    "ways",
    [
        [pa.array([True, None, False])],
        [pa.array([DAY, None], pa.date32()), pa.array([DAY, None], pa.date64())],
        [pa.array([NOW, None], pa.timestamp(unit)) for unit in ("s", "ms", "us")],
        [pa.array([NOW, None], pa.timestamp("ns"))],
        [pa.array([NOW, None], pa.timestamp(unit, "UTC")) for unit in ("s", "us")],
        [pa.array([NOW.time()], pa.time32("s")), pa.array([NOW.time()], pa.time64("us"))],
        [pa.array([dt.timedelta(1)], pa.duration("s")), pa.array([dt.timedelta(1)], pa.duration("ms"))],
        [pa.array([1.5, None, -0.25], dtype) for dtype in (pa.float16(), pa.float32(), pa.float64())],
        [pa.array([decimal.Decimal("1.50"), None], dtype) for dtype in (pa.decimal128(5, 2), pa.decimal256(9, 2))],
        [pa.array([b"abcd", None], pa.binary(4)), pa.array([b"abcd", None], pa.binary())],
        [pa.array([uuid.UUID(int=5).bytes], pa.uuid()), pa.array([uuid.UUID(int=5).bytes], pa.binary(16))],
        [pa.nulls(4), pa.nulls(4, pa.string()), pa.nulls(4, pa.int64())],
    ],
    ids=lambda ways: str(ways[0].type),
)
def test_every_type_of_key_has_one_digest_and_compares(ways):
    assert len({key_digest(keys) for keys in ways}) == 1
    for keys in ways:
        assert first_misaligned(ways[0], keys, null_matches_null=True) is None
        assert key_digest(keys) != key_digest(keys[1:])
        if len(keys) > 1:
            assert key_digest(keys) == key_digest(pa.chunked_array([keys[:1], keys[1:]]))


@pytest.mark.parametrize(
    "keys", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([(1, 2, 3)], pa.month_day_nano_interval())]
)
def test_what_cannot_be_a_key_is_refused(keys):
    with pytest.raises(AlignmentError, match="cannot be a key"):
        key_digest(keys)
    with pytest.raises(AlignmentError, match="cannot be a key"):
        first_misaligned(keys, keys)


@given(KEYS)
def test_equal_text_is_aligned_however_it_is_held(values):
    held = list(ways_to_hold_text(values))
    first_null = values.index(None) if None in values else None
    for keys in held:
        assert first_misaligned(held[0], keys, null_matches_null=True) is None
        assert first_misaligned(keys, held[2]) == first_null


@given(st.lists(st.text(max_size=4), min_size=1, max_size=20), st.data())
def test_the_first_other_row_is_found(values, data):
    row = data.draw(st.integers(0, len(values) - 1))
    replacement = data.draw(st.none() | st.text(max_size=4).filter(lambda text: text != values[row]))
    changed = [*values[:row], replacement, *values[row + 1 :]]
    for keys in ways_to_hold_text(changed):
        for nulls in (False, True):
            assert first_misaligned(pa.array(values), keys, null_matches_null=nulls) == row
            assert first_misaligned(keys, pa.array(values), null_matches_null=nulls) == row


def test_integer_widths_and_signs():
    small, large = pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.int64())
    assert first_misaligned(small, large) is None
    assert first_misaligned(small, pa.array([1, 2], pa.uint64())) is None
    assert first_misaligned(pa.array([1, -1]), pa.array([1, 2**64 - 1], pa.uint64())) == 1
    assert first_misaligned(pa.array([1, 2**64 - 1], pa.uint64()), pa.array([1, 2**64 - 1], pa.uint64())) is None
    assert first_misaligned(pa.array([1, None]), pa.array([1, None], pa.uint64()), null_matches_null=True) is None


def test_lengths_and_nulls():
    assert first_misaligned(pa.array(["a", "b"]), pa.array(["a"])) == 1
    assert first_misaligned(pa.array([], pa.string()), pa.array([], pa.large_string())) is None
    assert first_misaligned(pa.nulls(2), pa.array([None, "a"]), null_matches_null=True) == 1
    assert first_misaligned(pa.array([None, "a"]), pa.nulls(2)) == 0
    assert first_misaligned(pa.nulls(2), pa.nulls(2), null_matches_null=True) is None
    assert first_misaligned(pa.chunked_array([], pa.string()), pa.chunked_array([], pa.string())) is None


@pytest.mark.parametrize("other", [pa.array([1]), pa.array([1.0]), pa.array([DAY]), pa.array([True])])
def test_types_that_cannot_be_compared_are_named(other):
    with pytest.raises(AlignmentError, match=rf"{re.escape(str(other.type))}.* string"):
        first_misaligned(other, pa.array(["1"]))


def test_decimals_of_another_number_of_places_cannot_be_compared():
    one, cents = (pa.array([decimal.Decimal(1)], pa.decimal128(9, scale)) for scale in (0, 2))
    assert first_misaligned(cents, cents.cast(pa.decimal256(40, 2))) is None
    with pytest.raises(AlignmentError, match=r"decimal128\(9, 0\) cannot be compared with .* decimal128\(9, 2\)"):
        first_misaligned(one, cents)


def test_keys_that_are_no_utf8_are_named_by_their_bytes():
    keys = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\xfe", b"ok"]).buffers())
    with pytest.raises(AlignmentError, match=r"row 0 of 2: 'key' is b'\\xff\\xfe' in the main table and 'ok' in"):
        assert_alignment(pa.table({"key": keys}), pa.table({"key": keys.take(pa.array([1, 0]))}), "key")


def table(*keys, name="key"):
    return pa.table({name: pa.array(list(keys), pa.string())})


def test_assert_alignment_names_the_first_row_and_both_values():
    assert_alignment(table("a", "b"), table("a", "b"), "key")
    with pytest.raises(AlignmentError, match="row 1 of 3: 'key' is 'b' in the main table and 'x' in the sidecar"):
        assert_alignment(table("a", "b", "c"), table("a", "x", "y"), "key")
    with pytest.raises(AlignmentError, match="row 0 of 1: 'key' is None in the main table and None in the sidecar"):
        assert_alignment(table(None), table(None), "key")
    with pytest.raises(AlignmentError, match="2 rows in the main table, 1 in the sidecar"):
        assert_alignment(table("a", "b"), table("a"), "key")
    with pytest.raises(AlignmentError, match="2,000 rows in the main table, 1,500 in the sidecar"):
        assert_alignment(pa.table({"key": range(2000)}), pa.table({"key": range(1500)}), "key")
    with pytest.raises(AlignmentError, match="the sidecar table has no key column 'key'"):
        assert_alignment(table("a"), table("a", name="id"), "key")
    with pytest.raises(AlignmentError, match=r"… \(5002 characters\)"):
        assert_alignment(table("x" * 5000), table("y"), "key")


@given(
    groups=st.lists(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=9), max_size=5), cut=st.integers(1, 4)
)
def test_digests_of_row_groups_and_of_the_whole_are_those_of_their_keys(groups, cut):
    digest = GroupedKeyDigest()
    for keys in groups:
        array = pa.array(keys, pa.string())
        for start in range(0, len(keys), cut):
            digest.update(array.slice(start, cut))
        digest.end_group()
    assert digest.groups == [key_digest(pa.array(keys, pa.string())) for keys in groups]
    whole = pa.array([key for keys in groups for key in keys], pa.string())
    assert (digest.rows, digest.hexdigest()) == (len(whole), key_digest(whole))


def nan_with_bits(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def test_nan_equals_nan_in_rows_and_digests_and_nothing_else():
    keys = pa.array([1.0, math.nan, None])
    others = pa.array([1.0, nan_with_bits(0xFFF8_0000_0000_0001), None])
    assert first_misaligned(keys, others, null_matches_null=True) is None
    assert first_misaligned(keys.cast(pa.float32()), keys, null_matches_null=True) is None
    assert key_digest(keys) == key_digest(others) == key_digest(keys.cast(pa.float32()))
    assert key_digest(keys) == digest_by_row([struct.pack("<d", 1.0), bytes.fromhex("000000000000f87f"), None])
    assert_alignment(pa.table({"k": keys[:2]}), pa.table({"k": others[:2]}), "k")
    assert first_misaligned(keys, pa.array([1.0, 2.0, None])) == 1
    assert first_misaligned(keys, pa.array([1.0, None, None]), null_matches_null=True) == 1
    assert first_misaligned(keys, pa.nulls(3), null_matches_null=True) == 0
