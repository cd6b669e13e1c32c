from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from sidecar_runtimes.flight_recorder import read_flights, remove_old_flights

WORKER = """
import os, sys
from sidecar_runtimes.flight_recorder import FlightRecorder
recorder = FlightRecorder(sys.argv[1])
with recorder.shard("done.parquet"):
    pass
with recorder.shard("a/b.parquet"):
    if int(sys.argv[2]):
        os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def flights(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def end_worker(run_id, signal_number):
    return subprocess.run([sys.executable, "-c", WORKER, run_id, str(int(signal_number))], check=False).returncode


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
def test_a_fatal_signal_is_told_with_the_measured_memory(number):
    assert end_worker("run", number) == -number
    told = read_flights("run", "a/b.parquet")
    assert told.startswith(f"ended by {number.name}, process memory at most ")
    assert 10 < int(told.split()[-2]) < 1000


def test_the_memory_is_not_that_of_the_process_that_started_the_worker():
    starter = (
        "import subprocess, sys\n"
        "held = b'1' * (1500 * 2**20)\n"
        "subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=False)\n"
    )
    subprocess.run([sys.executable, "-c", starter, WORKER, "run", str(int(signal.SIGKILL))], check=True)
    assert 10 < int(read_flights("run", "a/b.parquet").split()[-2]) < 1000


def test_a_signal_that_cannot_be_caught_is_not_guessed():
    assert end_worker("run", signal.SIGKILL) == -signal.SIGKILL
    assert read_flights("run", "a/b.parquet").startswith("no signal that can be caught, process memory at most ")


def test_only_shards_under_way_are_blamed():
    end_worker("run", signal.SIGKILL)
    assert read_flights("run", "done.parquet") == ""
    assert read_flights("other-run", "a/b.parquet") == ""


def test_a_worker_that_ends_well_leaves_nothing(flights):
    assert end_worker("run", 0) == 0
    assert not [path for path in flights.rglob("*") if path.is_file()]


def test_old_flights_are_removed_and_those_of_this_run_kept():
    end_worker("old", signal.SIGKILL)
    end_worker("new", signal.SIGKILL)
    remove_old_flights("new")
    assert read_flights("old", "a/b.parquet") == ""
    assert read_flights("new", "a/b.parquet") != ""
