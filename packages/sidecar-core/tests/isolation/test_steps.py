"""What a child noted last is known of a row that did not return, whatever it wrote, and with no disk at all."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap

import pytest
from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool, note_step
from sidecar_core.isolation.steps import StepNotes, StepPage
from sidecar_core.testing import isolated_functions as functions


@pytest.fixture(params=["as here", "without files in memory"])
def pool(request, monkeypatch):
    if request.param != "as here":
        monkeypatch.delattr(os, "memfd_create", raising=False)  # as on macOS
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        yield pool


@pytest.mark.parametrize("deed", ["abort", "kill_self", "exit_3", "close_files", "leave", "raise_error"])
def test_the_last_step_of_a_row_that_did_not_return_is_told(pool, deed):
    step = f"{deed}, über {'x' * 100}"
    rows = pool.map_rows(functions.note_and_do, [("before", ""), (step, deed), ("after", "")])

    assert [row.step for row in rows if isinstance(row, WorkerCallFailed)] == [step]


def test_a_row_that_takes_too_long_or_too_much_memory_tells_its_step(pool):
    rows = [("slow", "hang"), ("large", "allocate_20_gb")]
    failures = pool.map_rows(functions.note_and_do, rows, timeout_s=3)

    assert [(failure.cause, failure.step) for failure in failures] == [("timeout", "slow"), ("out_of_memory", "large")]


def test_a_row_that_noted_nothing_has_no_step_though_the_one_before_had(pool):
    pool.call(functions.note_and_do, ("before", ""))
    (crashed,) = pool.map_rows(functions.double_unless, [0], common={0: "abort"})
    pool.call(functions.note_and_do, ("before", ""))
    (raised,) = pool.map_rows(functions.raise_error, [0])

    assert (crashed.cause, crashed.step) == ("crashed", None)
    assert (raised.cause, raised.step) == ("error", None)


def test_a_step_is_of_its_row_only_and_is_cut():
    page = StepPage()
    notes = StepNotes(os.dup(page.fileno()))
    notes.begin_row(7)
    assert page.step(7) is None
    notes.note("ü" * 200)
    assert page.step(7) == notes.last() == "ü" * 125 + "�"
    notes.note("short")
    assert page.step(7) == "short"
    assert page.step(8) is None
    notes.begin_row(8)
    assert page.step(8) is notes.last() is None
    page.close()


def test_outside_of_a_child_a_note_does_nothing():
    note_step("here")


def test_the_step_survives_a_pickle():
    failure = WorkerCallFailed("f: gone", "crashed", "facts", 6, "decode")
    assert pickle.loads(pickle.dumps(failure)).step == "decode"


FULL = """
    import os, resource, sys
    if sys.argv[1] == "disk":
        del os.memfd_create
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    from sidecar_core.isolation import IsolationOptions, IsolationPool
    from sidecar_core.testing import isolated_functions as functions
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        pool.map_rows(functions.write_as_much_as_goes, [0])
        print(pool.map_rows(functions.double, range(3)))
        print([row.step for row in pool.map_rows(functions.note_step_and_abort, ["here"])])
"""


def run_with_full_files(where, limit):
    return subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(FULL), where, str(limit)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_steps_are_noted_where_no_file_takes_another_byte(where):
    """A limit on the size of files does what a full disk does: it fails the write."""
    if where == "memory" and not hasattr(os, "memfd_create"):
        pytest.skip("no files in memory here")
    done = run_with_full_files(where, 2000)

    assert done.stdout.splitlines() == ["[0, 2, 4]", "['here']"], done.stderr


def test_a_disk_that_is_full_from_the_start_is_an_error_and_not_a_fault_of_rows():
    done = run_with_full_files("disk", 10)

    assert done.returncode == 1
    assert "IsolationError: no isolated child could be started in 3 attempts: OSError: " in done.stderr


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory here")
def test_what_a_child_writes_needs_no_disk():
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        target = pool.call(os.readlink, "/proc/self/fd/2")
    assert target.startswith("/memfd:")
