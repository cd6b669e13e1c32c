"""How both programs begin and end as processes."""

from __future__ import annotations

import signal
import subprocess
import sys

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
