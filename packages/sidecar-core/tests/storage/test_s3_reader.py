from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.storage.s3_reader import TAIL_BYTES, ObjectReader

KIB, MIB = 2**10, 2**20


def reader_of(content):
    fetched = []

    def fetch(start, end):
        assert 0 <= start < end <= len(content)
        fetched.append((start, end))
        return bytes(content[start:end])

    return ObjectReader(len(content), bytes(content[-TAIL_BYTES:]), fetch), fetched


CONTENT = bytes(range(251)) * 4000


@given(st.lists(st.tuples(st.integers(0, len(CONTENT) + 10), st.integers(-1, 300_000)), max_size=20))
def test_every_read_is_right(reads):
    reader, _ = reader_of(CONTENT)
    for start, length in reads:
        reader.seek(start)
        assert reader.read(length) == (CONTENT[start:] if length < 0 else CONTENT[start : start + length])
        assert reader.tell() == start + (
            max(0, len(CONTENT) - start) if length < 0 else min(length, max(0, len(CONTENT) - start))
        )


def test_seeking():
    reader, _ = reader_of(b"0123456789")
    assert reader.seek(-3, io.SEEK_END) == 7
    assert reader.read() == b"789"
    assert reader.seek(2) == 2
    assert reader.seek(3, io.SEEK_CUR) == 5
    buffer = bytearray(3)
    assert reader.readinto(buffer) == 3
    assert buffer == b"567"
    with pytest.raises(ValueError, match="-1"):
        reader.seek(-1)
    assert reader.readable()
    assert reader.seekable()


def test_a_small_object_costs_no_further_read():
    reader, fetched = reader_of(bytes(TAIL_BYTES))
    assert len(reader.read()) == TAIL_BYTES
    assert fetched == []


def test_sequential_reading_costs_few_requests():
    size = 64 * MIB
    reader, fetched = reader_of(bytes(size))
    while reader.read(64 * KIB):
        pass
    assert len(fetched) <= 16
    assert max(end - start for start, end in fetched) <= 8 * MIB + 64 * KIB
    assert sum(end - start for start, end in fetched) <= size


def test_a_part_that_is_read_costs_about_twice_its_bytes_at_most():
    reader, fetched = reader_of(bytes(64 * MIB))
    for start in range(0, 60 * MIB, 10 * MIB):
        reader.seek(start)
        for _ in range(10):
            reader.read(64 * KIB)
    assert sum(end - start for start, end in fetched) <= 6 * (2 * 10 * 64 * KIB + 64 * KIB)


def test_interleaved_streams_each_grow_and_memory_is_bounded():
    size = 256 * MIB
    reader, fetched = reader_of(bytearray(size))
    places = [0, 64 * MIB, 128 * MIB]
    for step in range(256):
        for place in places:
            reader.seek(place + step * 64 * KIB)
            assert len(reader.read(64 * KIB)) == 64 * KIB
    assert len(fetched) <= 30
    for place in range(0, 250 * MIB, 5 * MIB):
        reader.seek(place)
        reader.read(4 * MIB)
        assert sum(len(window.data) for window in reader._windows) <= 48 * MIB
