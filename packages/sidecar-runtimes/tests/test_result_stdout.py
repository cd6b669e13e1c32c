"""Stdout holds the result alone, whatever prints while a program works, and whatever takes the result."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sidecar_runtimes.result_stdout import prints_to_stderr, results_to_stdout

NOISY = """
import ctypes, os, subprocess, sys
from sidecar_runtimes.program import exit_status, prepare_process, write_stdout
from sidecar_runtimes.result_stdout import prints_to_stderr, results_to_stdout

def noise():
    print("noise of print")
    kept.write("noise of a stream that was kept\\n")
    os.write(1, b"noise of a descriptor\\n")
    ctypes.CDLL(None).puts(b"noise of C")
    subprocess.run(["echo", "noise of a child"], check=True)

def work():
    with prints_to_stderr():
        noise()
        with results_to_stdout():
            write_stdout("result\\n")
        noise()
    write_stdout("end\\n")

prepare_process()
kept = sys.stdout
sys.exit(exit_status(work, []))
"""
NOISE = [f"noise of {what}" for what in ("C", "a child", "a descriptor", "a stream that was kept", "print")]


def noisy(**streams):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run([sys.executable, "-c", NOISY], text=True, env=environment, check=False, **streams)


def test_only_results_reach_stdout():
    done = noisy(capture_output=True)
    assert (done.returncode, done.stdout) == (0, "result\nend\n"), done.stderr
    assert sorted(done.stderr.splitlines()) == sorted(NOISE * 2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_result_that_a_full_disk_does_not_take_is_a_failure_and_appears_nowhere_else():
    with Path("/dev/full").open("w") as full:
        done = noisy(stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert "output: No space left on device\n" in done.stderr
    assert "result" not in done.stderr


def test_a_reader_that_has_gone_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = noisy(stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, sorted(done.stderr.splitlines())) == (0, sorted(NOISE * 2))


def test_closed_streams_are_no_error():
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, NOISY], capture_output=True, check=False
        )
        assert done.returncode == 0, (closed, done.stderr)
        assert done.stdout == (b"" if closed.startswith(">") else b"result\nend\n")


def test_a_stream_that_somebody_put_in_place_of_stdout_gets_the_result(monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with prints_to_stderr():
        print("noise")
        with results_to_stdout():
            print("result")
    assert sys.stdout is out
    assert (out.getvalue(), err.getvalue()) == ("result\n", "noise\n")
