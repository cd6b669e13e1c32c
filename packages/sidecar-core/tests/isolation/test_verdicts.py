from __future__ import annotations

import re
import subprocess
import sys

SCRIPT = """
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.testing.isolated_functions import fill_and_kill_self
{before}
with IsolationPool(IsolationOptions(workers=1, memory_cap_bytes=400 << 20)) as pool:
    for failed in pool.map_rows(fill_and_kill_self, [300 << 20, 398 << 20]):
        print(failed.cause, failed.signal, failed.detail)
"""


def failures(before=""):
    """A process of its own, because exec hands a parent's peak memory to its children."""
    script = SCRIPT.format(before=before)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_a_sigkill_at_the_memory_cap_is_out_of_memory_and_below_it_a_crash():
    below, at_cap = failures()

    assert below.startswith("crashed 9 ")
    assert 300 <= int(re.search(r"child peak memory (\d+) MiB", below)[1]) < 400
    assert at_cap.startswith("out_of_memory 9 ")
    assert re.search(r"child peak memory 4\d\d MiB, cap 400 MiB", at_cap)


def test_a_peak_hidden_by_the_parent_s_is_called_a_bound_and_proves_nothing():
    below, at_cap = failures("large = b'x' * (700 << 20)")

    assert below.startswith("crashed 9 ")
    assert at_cap.startswith("crashed 9 ")
    assert int(re.search(r"child peak memory at most (\d+) MiB", at_cap)[1]) >= 700
