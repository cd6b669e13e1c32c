from __future__ import annotations

import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sidecar_core.errors import IsolationError, UsageError, WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.testing import isolated_functions as functions


@pytest.fixture
def pool():
    with IsolationPool(IsolationOptions(workers=2)) as pool:
        yield pool


def failures(results):
    return {index: result for index, result in enumerate(results) if isinstance(result, WorkerCallFailed)}


def assert_others_doubled(results, failed):
    assert len(results) == 50
    assert all(result == 2 * index for index, result in enumerate(results) if index not in failed)


@pytest.mark.parametrize(
    ("deed", "cause", "number", "fact"),
    [
        ("abort", "crashed", signal.SIGABRT, "signal 6 (SIGABRT)"),
        ("segfault", "crashed", signal.SIGSEGV, "signal 11 (SIGSEGV)"),
        ("kill_self", "crashed", signal.SIGKILL, "signal 9 (SIGKILL)"),
        ("fork_and_die", "crashed", signal.SIGKILL, "signal 9 (SIGKILL)"),
        ("exit_3", "crashed", None, "exit status 3"),
        ("exit_0", "crashed", None, "exit status 0"),
        ("close_files", "crashed", None, "exit status"),
        ("close_files_and_hang", "crashed", None, "channel"),
        ("garble_socket", "crashed", None, "channel"),
        ("hang", "timeout", None, "no result after 6."),
        ("spin_natively", "timeout", None, "no result after 6."),
        ("allocate_20_gb", "out_of_memory", None, "memory cap of 4096 MiB"),
        ("raise_error", "error", None, "OwnError: ('bad row', 7)"),
        ("raise_unpicklable", "error", None, "UnpicklableError: unpicklable error"),
        ("return_unpicklable", "error", None, "returned what cannot be sent back: PicklingError"),
        ("leave", "error", None, "SystemExit: 0"),
    ],
)
def test_map_rows_loses_only_the_row_that_fails(pool, deed, cause, number, fact):
    results = pool.map_rows(functions.double_unless, range(50), common={23: deed}, timeout_s=6.0)

    failed = failures(results)
    assert list(failed) == [23]
    assert failed[23].cause == cause
    assert failed[23].signal == number
    assert fact in str(failed[23])
    assert "double_unless" in str(failed[23])
    assert_others_doubled(results, failed)
    assert pool.map_rows(functions.double, range(4)) == [0, 2, 4, 6]


def test_a_failure_can_be_pickled_with_its_facts(pool):
    (failed,) = pool.map_rows(functions.abort, [0])

    copy = pickle.loads(pickle.dumps(failed))
    assert isinstance(copy, WorkerCallFailed)
    assert (copy.cause, copy.signal, copy.detail) == ("crashed", 6, failed.detail)
    assert "libpng error: assertion failed" in copy.detail
    assert "child peak memory" in copy.detail
    assert pickle.loads(pickle.dumps(pool.map_rows(functions.raise_error, [0])[0])).cause == "error"


def test_the_detail_of_an_error_has_the_traceback(pool):
    (failed,) = pool.map_rows(functions.raise_error, [0])

    assert "isolated_functions.py" in failed.detail
    assert "OwnError" in failed.detail


def test_many_poison_rows(pool):
    deeds = {index: ("abort", "segfault", "exit_3", "kill_self")[index % 4] for index in range(0, 50, 3)}

    results = pool.map_rows(functions.double_unless, range(50), common=deeds)

    assert set(failures(results)) == set(deeds)
    assert_others_doubled(results, deeds)
    counters = pool.counters
    assert counters.crashed == counters.retried == len(deeds)
    assert sum(counters.deaths.values()) == 2 * len(deeds)
    assert counters.deaths["SIGABRT"] == 2 * sum(deed == "abort" for deed in deeds.values())
    assert counters.rows == 50


def test_every_row_crashes(pool):
    results = pool.map_rows(functions.abort, range(12))

    assert [result.cause for result in results] == ["crashed"] * 12


def test_a_row_that_crashed_once_is_tried_again(pool, tmp_path):
    rows = [str(tmp_path / name) for name in "abc"]

    assert pool.map_rows(functions.crash_once, rows) == ["survived"] * 3
    assert pool.counters.retried == 3
    assert pool.counters.crashed == 0


def test_each_row_is_computed_once_and_a_crashing_one_twice(pool, tmp_path):
    log = tmp_path / "calls"

    results = pool.map_rows(functions.count_call, range(50), common=str(log))

    assert set(failures(results)) == {0, 10, 20, 30, 40}
    calls = sorted(map(int, log.read_text().split()))
    assert calls == sorted([*range(50), 0, 10, 20, 30, 40])


def test_timeouts_and_exhausted_memory_are_not_tried_again(pool):
    results = pool.map_rows(functions.double_unless, range(4), common={1: "hang", 2: "allocate_20_gb"}, timeout_s=6.0)

    assert [failures(results)[index].cause for index in (1, 2)] == ["timeout", "out_of_memory"]
    counters = pool.counters
    assert (counters.timeouts, counters.out_of_memory, counters.retried, counters.rows) == (1, 1, 0, 4)
    assert counters.deaths == {}


def test_the_timeout_counts_from_the_row_s_start_not_from_the_call():
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        assert pool.map_rows(functions.double_slowly, range(12), common=0.4, timeout_s=4.0) == list(range(0, 24, 2))


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="macOS does not enforce RLIMIT_AS")
def test_the_memory_cap_is_the_one_asked_for():
    with IsolationPool(IsolationOptions(workers=1, memory_cap_bytes=256 << 20)) as pool:
        results = pool.map_rows(functions.allocate, [100 << 20, 400 << 20, 100 << 20])

    assert [results[0], results[2]] == [100 << 20, 100 << 20]
    assert results[1].cause == "out_of_memory"
    assert "256 MiB" in str(results[1])


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="macOS does not enforce RLIMIT_AS")
def test_a_row_too_large_for_the_child_is_out_of_memory_and_its_neighbours_live():
    rows = [b"a" * 1000, bytes(200 << 20), b"b" * 1000]
    with IsolationPool(IsolationOptions(workers=1, memory_cap_bytes=128 << 20)) as pool:
        results = pool.map_rows(functions.kind_and_size, rows)

    assert [results[0], results[2]] == [("bytes", 1000, b"aaaa"), ("bytes", 1000, b"bbbb")]
    assert results[1].cause == "out_of_memory"


@pytest.mark.parametrize("wrap", [bytes, memoryview, bytearray, pickle.PickleBuffer, lambda row: memoryview(row)[::1]])
@pytest.mark.parametrize("size", [0, 10, 70_000, 3_000_000])
def test_buffers_arrive_whole(pool, wrap, size):
    row = bytes(size) + b"tail"

    ((kind, length, end),) = pool.map_rows(functions.kind_and_size, [wrap(row)])

    assert kind == ("bytearray" if wrap is bytearray else "bytes")
    assert (length, end) == (size + 4, b"tail")


def test_strided_memoryviews_arrive_as_what_they_show(pool):
    assert pool.call(functions.echo, memoryview(b"a1b2c3")[::2]) == b"abc"


def test_large_results_do_not_block_large_rows(pool):
    results = pool.map_rows(functions.echo_blob, [bytes([index]) * 5_000_000 for index in range(12)], common=4)

    assert [(len(result), result[:1]) for result in results] == [(20_000_000, bytes([index])) for index in range(12)]


def test_rows_of_many_sizes(pool):
    sizes = [0, 1, 65_535, 65_536, 20_000_000, 3, 212_992, 1_000_000] * 3

    assert [len(result) for result in pool.map_rows(functions.blob, sizes)] == sizes


def test_no_rows(pool):
    assert pool.map_rows(functions.double, []) == []
    assert pool.counters.started == 0


def test_no_more_children_than_there_is_work_for():
    with IsolationPool(IsolationOptions(workers=4)) as pool:
        assert pool.call(functions.double, 4) == 8
        assert pool.call(functions.double, 5) == 10
        assert pool.counters.started == 1
        assert len(set(pool.map_rows(functions.pid_slowly, range(80)))) == 4
        assert pool.counters.started == 4


def test_children_are_recycled():
    with IsolationPool(IsolationOptions(workers=1, recycle_rows=5)) as pool:
        pids = pool.map_rows(functions.pid, range(17))
        assert pool.map_rows(functions.double, range(6)) == [0, 2, 4, 6, 8, 10]

        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [5, 5, 5, 2]
        assert pool.counters.recycled >= 3


def test_a_child_killed_while_idle_is_replaced():
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        os.kill(pool.call(functions.pid), signal.SIGTERM)
        assert pool.map_rows(functions.double, range(5)) == [0, 2, 4, 6, 8]


def test_a_child_killed_from_outside_costs_no_row():
    rows = range(40)
    with IsolationPool(IsolationOptions(workers=1)) as pool, ThreadPoolExecutor(1) as threads:
        child = pool.call(functions.pid)
        answer = threads.submit(pool.map_rows, functions.double_slowly, rows, common=0.02)
        os.kill(child, signal.SIGKILL)
        assert answer.result() == [2 * row for row in rows]


def test_calls_from_many_threads(pool):
    def work(start):
        rows = range(start, start + 50)
        return pool.map_rows(functions.double_unless, rows, common={start + 7: "abort", start + 9: "raise_error"})

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(work, range(0, 1200, 100)))

    for start, answer in zip(range(0, 1200, 100), answers, strict=True):
        assert set(failures(answer)) == {7, 9}
        assert all(answer[index] == 2 * (start + index) for index in range(50) if index not in (7, 9))


def test_a_short_call_does_not_wait_for_a_long_one():
    with IsolationPool(IsolationOptions(workers=1)) as pool, ThreadPoolExecutor(1) as threads:
        pool.call(functions.double, 1)
        long = threads.submit(pool.map_rows, functions.double_slowly, range(80), common=0.03)
        assert pool.map_rows(functions.double, range(5)) == [0, 2, 4, 6, 8]
        assert not long.done()
        assert long.result() == list(range(0, 160, 2))


def test_close_ends_calls_that_wait():
    pool = IsolationPool(IsolationOptions(workers=2))
    pids = set(pool.map_rows(functions.pid_slowly, range(8)))
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(pool.map_rows, functions.hang, range(5)) for _ in range(3)]
        threading.Event().wait(0.2)
        pool.close()
        for answer in answers:
            with pytest.raises(IsolationError, match="closed"):
                answer.result()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(IsolationError, match="closed"):
        pool.call(functions.double, 1)
    pool.close()


def test_a_pool_that_nobody_holds_ends_its_children():
    child = IsolationPool(IsolationOptions(workers=1)).call(functions.pid)

    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_call_returns_or_raises_what_the_function_does(pool):
    assert pool.call(functions.double, 21) == 42
    with pytest.raises(functions.OwnError) as caught:
        pool.call(functions.raise_error)
    assert caught.value.args == ("bad row", 7)
    assert "isolated_functions.py" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("function", [functions.raise_unpicklable, functions.return_unpicklable, functions.leave])
def test_call_says_error_where_there_is_nothing_to_raise(pool, function):
    with pytest.raises(WorkerCallFailed) as caught:
        pool.call(function)
    assert caught.value.cause == "error"


def test_an_exception_of_an_unimported_module_imports_nothing_here(pool):
    import sys

    assert "wsgiref.validate" not in sys.modules
    with pytest.raises(WorkerCallFailed, match="WSGIWarning: rare"):
        pool.call(functions.raise_of_unimported_module)
    assert "wsgiref.validate" not in sys.modules


@pytest.mark.parametrize(
    ("function", "cause"),
    [(functions.segfault, "crashed"), (functions.hang, "timeout"), (functions.allocate_20_gb, "out_of_memory")],
)
def test_call_raises_the_cause(pool, function, cause):
    with pytest.raises(WorkerCallFailed) as caught:
        pool.call(function, timeout_s=1.0 if cause == "timeout" else 60.0)
    assert caught.value.cause == cause


def top_level(row, common):
    return row


class Local:
    """A class that children cannot import: pytest loads this file under no importable name."""


def test_functions_that_children_cannot_import_are_refused_at_the_call(pool):
    def inner(row, common):
        return row

    for function in (inner, lambda row, common: row, partial(inner)):
        with pytest.raises(UsageError, match=r"(?s)can import.*fix: .*module"):
            pool.map_rows(function, [1])
    with pytest.raises(UsageError, match="cannot be called"):
        pool.map_rows(3, [1])
    with pytest.raises(UsageError, match="row 1 for double"):
        pool.map_rows(functions.double, [1, inner])
    with pytest.raises(UsageError, match="lock"):
        pool.call(functions.echo, threading.Lock())
    with pytest.raises(UsageError, match="timeout"):
        pool.call(functions.double, 1, timeout_s=0)
    assert pool.map_rows(partial(functions.double), [1]) == [2]


def test_a_function_that_fails_to_load_fails_the_call_not_every_row(pool):
    with pytest.raises(IsolationError, match="top_level cannot be loaded in an isolated child: ModuleNotFoundError"):
        pool.map_rows(top_level, range(100))
    assert pool.counters.rows == 0
    (failed,) = pool.map_rows(functions.echo, [Local()])
    assert failed.cause == "error"
    assert pool.map_rows(functions.double, range(3)) == [0, 2, 4]


def test_more_jobs_than_a_child_keeps(pool):
    functions_in_turn = [partial(functions.echo_blob, b"x" * index) for index in range(1, 25)]
    for _ in range(2):
        for index, function in enumerate(functions_in_turn, 1):
            assert pool.call(function, 2) == b"xx" * index
