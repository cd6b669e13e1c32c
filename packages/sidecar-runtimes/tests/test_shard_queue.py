from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from sidecar_core.outcome import ShardReport
from sidecar_core.plan import PlannedShard
from sidecar_core.storage import ObjectInfo
from sidecar_runtimes.attempts import ShardAttempt
from sidecar_runtimes.shard_queue import ShardQueue, ShardTry, WorkerDeath

CRASH = WorkerDeath("it ended without an answer", "WorkerCrashedError")
LOSS = WorkerDeath("the node is gone", "NodeDiedError", blameless=True)


def shard(name):
    return PlannedShard(ObjectInfo(name, 10, None, 1), (None,))


def done(shard_try):
    return ShardAttempt(ShardReport(shard_try.shard.rel_path, "done", rows=1, attempts=shard_try.number))


def failed(shard_try, *, may_pass=True):
    report = ShardReport(shard_try.shard.rel_path, "failed", attempts=shard_try.number, error="busy")
    return ShardAttempt(report, may_pass=may_pass)


@pytest.fixture
def clock():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def make_queue(clock):
    def make(*names, retries=2, explain=None):
        return ShardQueue([shard(name) for name in names], retries=retries, explain=explain, clock=clock)

    return make


def test_shards_come_in_order_once(make_queue):
    queue = make_queue("a", "b")
    assert [queue.take().shard.rel_path for _ in range(2)] == ["a", "b"]
    assert queue.take() is None
    assert len(queue) == 0


def test_a_failure_pauses_before_it_is_tried_again_elsewhere(make_queue, clock):
    queue = make_queue("a", "b")
    first = queue.take()
    assert queue.ended(first, failed(first), place="node-1") is None
    assert queue.take().shard.rel_path == "b"
    assert queue.take() is None
    assert len(queue) == 1
    assert 0 < queue.pause_s() < 5
    clock.now += queue.pause_s()
    again = queue.take()
    assert again == ShardTry(first.shard, number=2, avoid=frozenset({"node-1"}))
    report = queue.ended(again, done(again))
    assert (report.status, report.attempts) == ("done", 2)
    assert queue.pause_s() is None


def test_retries_have_an_end_and_some_errors_none(make_queue, clock):
    queue = make_queue("a", "b", retries=1)
    first, other = queue.take(), queue.take()
    assert queue.ended(other, failed(other, may_pass=False)).attempts == 1
    assert queue.ended(first, failed(first)) is None
    clock.now += 60
    again = queue.take()
    assert queue.ended(again, failed(again)).attempts == 2
    assert len(queue) == 0


@pytest.mark.parametrize("retries", [2, 5])
def test_three_kills_make_a_shard_poisonous_whatever_the_retries(make_queue, retries):
    queue = make_queue("a", retries=retries, explain=lambda rel_path: f"left by {rel_path}")
    for _ in range(2):
        assert queue.worker_died(queue.take(), CRASH, place="n") is None
    report = queue.worker_died(queue.take(), CRASH, place="n")
    assert report.status == "failed"
    assert report.attempts == 3
    assert report.error_type == "WorkerCrashedError"
    assert report.error.startswith("a: its worker process ended 3 times; it ended without an answer; left by a")
    assert "poisonous" in report.error


def test_without_retries_the_first_kill_is_the_last(make_queue):
    queue = make_queue("a", retries=0)
    report = queue.worker_died(queue.take(), CRASH)
    assert "once" in report.error
    assert "poisonous" not in report.error


def test_a_neighbour_of_a_killer_is_tried_alone_and_not_blamed(make_queue):
    queue = make_queue("guilty", "innocent", retries=0)
    guilty, innocent = queue.take(), queue.take()
    assert queue.worker_died(guilty, CRASH, others=1) is None
    assert queue.worker_died(innocent, CRASH, others=1) is None
    assert queue.take(idle=False) is None
    again = queue.take(idle=True)
    assert (again.shard.rel_path, again.alone) == ("guilty", True)
    assert queue.worker_died(again, CRASH).status == "failed"
    again = queue.take(idle=True)
    assert queue.ended(again, done(again)).status == "done"


def test_the_shared_death_counts_among_the_three(make_queue):
    queue = make_queue("a", retries=9)
    assert queue.worker_died(queue.take(), CRASH, others=3) is None
    assert queue.worker_died(queue.take(), CRASH) is None
    assert "3 times" in queue.worker_died(queue.take(), CRASH).error


def test_a_lost_node_is_not_the_shards_fault_but_has_an_end(make_queue):
    queue = make_queue("a", retries=0)
    losses = 0
    while (report := queue.worker_died(queue.take(), LOSS, others=1)) is None:
        losses += 1
    assert losses == 9
    assert "poisonous" not in report.error
    assert "the node is gone" in report.error
    assert queue.deaths == 10


def test_what_never_began_comes_back_first(make_queue):
    queue = make_queue("a", "b")
    first = queue.take()
    queue.give_back(first)
    assert queue.take() is first


def test_the_traceback_of_each_failed_attempt_is_there_for_who_debugs(make_queue, caplog):
    queue = make_queue("a")
    first = queue.take()
    attempt = replace(failed(first, may_pass=True), traceback="Traceback: one\nOSError: x")
    with caplog.at_level(logging.DEBUG, "sidecar"):
        assert queue.ended(first, attempt) is None
    assert caplog.messages == ["a, attempt 1: Traceback: one\nOSError: x"]
