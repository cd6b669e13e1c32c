"""How both programs begin and end as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LATE = """
import os, sys
from sidecar_runtimes.program import prepare_process

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=int(sys.argv[1])):
        kill(pid, number)

prepare_process()
late = Late()  # goes when Python takes modules apart, after it has given signals back to the system
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_a_signal_after_all_is_done_changes_no_exit_status(sent):
    done = subprocess.run([sys.executable, "-c", LATE, str(int(sent))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


IN_FULL = """
import sys
from sidecar_runtimes.program import exit_status, prepare_process, say, write_stdout
prepare_process()
sys.exit(exit_status(lambda: sys.argv[1] == "remark" and say("a remark") or write_stdout("a result\\n"), []))
"""
needs_full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def in_full(what, **streams):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", IN_FULL, what]
    return subprocess.run(command, env=environment, text=True, check=False, **streams)


@needs_full_disk
def test_remarks_that_a_full_disk_does_not_take_change_no_exit_status():
    with Path("/dev/full").open("w") as full:
        done = in_full("remark", stdout=subprocess.PIPE, stderr=full)
    assert (done.returncode, done.stdout) == (0, "a result\n")


@needs_full_disk
def test_a_result_that_a_full_disk_does_not_take_is_a_failure_in_words():
    with Path("/dev/full").open("w") as full:
        done = in_full("result", stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (
        1,
        "output: No space left on device\n  fix: free space there, or write elsewhere\n",
    )


BEFORE_GONE = """
import sys
from sidecar_runtimes.program import exit_status, prepare_process
prepare_process()
prepare_process()
sys.stdin.read()
def run():
    print("x" * 100_000)
    print("y" * 100_000, file=sys.stderr)
    raise SystemExit(int(sys.argv[1]))
sys.exit(exit_status(run, []))
"""


@pytest.mark.parametrize("unbuffered", [[], ["-u"]], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("status", [0, 2])
def test_readers_that_have_gone_change_no_exit_status(status, unbuffered):
    command = [sys.executable, *unbuffered, "-c", BEFORE_GONE, str(status)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        process.stderr.close()
        process.stdin.close()  # now it goes on
        assert process.wait(timeout=60) == status
