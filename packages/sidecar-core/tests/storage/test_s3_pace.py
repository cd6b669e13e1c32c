from __future__ import annotations

import pytest
from sidecar_core.storage.s3_pace import PacedFile, Pacer, SlowTransferError


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def transfer(pacer, clock, sizes, *, each_s):
    for size in sizes:
        clock.now_s += each_s
        pacer.moved(size)


def test_the_time_of_a_transfer_is_bounded_by_its_size(clock):
    with pytest.raises(SlowTransferError, match=r"60 bytes in 60\.0 s, less than 100 a second"):
        transfer(Pacer(100, 60, clock=clock), clock, [1] * 1000, each_s=1)
    assert clock.now_s == 160


def test_what_is_fast_enough_may_last(clock):
    transfer(Pacer(100, 60, clock=clock), clock, [100] * 10_000, each_s=1)


def test_a_pause_shorter_than_the_window_is_no_failure(clock):
    transfer(Pacer(100, 60, clock=clock), clock, [6000] * 5, each_s=59)


def test_what_was_fast_before_does_not_count(clock):
    pacer = Pacer(100, 60, clock=clock)
    transfer(pacer, clock, [10**9, 10**9], each_s=30)
    with pytest.raises(SlowTransferError):
        transfer(pacer, clock, [1, 1], each_s=30)


def test_a_small_body_has_a_window(clock):
    transfer(Pacer(100, 60, clock=clock), clock, [1, 1], each_s=29)


def test_a_file_that_is_sent_again_begins_anew(clock, tmp_path):
    path = tmp_path / "staged"
    path.write_bytes(b"x" * 10)
    with PacedFile(path, Pacer(100, 60, clock=clock)) as file:
        assert file.read(4) == b"xxxx"
        clock.now_s += 59
        file.seek(0)
        clock.now_s += 59
        assert file.read() == b"x" * 10
        clock.now_s += 59
        with pytest.raises(SlowTransferError):
            file.read()
