from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from sidecar_core.errors import IsolationError
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.isolation.process import Ending
from sidecar_core.testing import isolated_functions as functions

LINUX = sys.platform == "linux"


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")  # ended, and its new parent has not looked yet


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def start(script, *args):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), *args])


@pytest.mark.skipif(not LINUX, reason="only Linux ends a child that keeps the GIL in native code")
def test_children_that_hang_die_with_a_killed_parent(tmp_path):
    pids_file = tmp_path / "pids"
    parent = start(
        """
        import sys
        from sidecar_core.isolation import IsolationOptions, IsolationPool
        from sidecar_core.testing.isolated_functions import note_and_hang
        IsolationPool(IsolationOptions(workers=2)).map_rows(note_and_hang, [sys.argv[1]] * 4)
        """,
        str(pids_file),
    )
    wait_until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 2)
    pids = [int(pid) for pid in pids_file.read_text().split()]
    assert all(map(alive, pids))

    parent.kill()
    parent.wait()

    wait_until(lambda: not any(map(alive, pids)))


def test_the_watcher_ends_a_process_whose_parent_has_gone(tmp_path):
    """The way of systems without PDEATHSIG, which works on Linux as well."""
    pid_file = tmp_path / "pid"
    watched = """
        import os, sys, time
        from sidecar_core.isolation.child import _watch_parent
        _watch_parent(os.getppid(), period_s=0.05)
        with open(sys.argv[1], "w") as file:
            file.write(f"{os.getpid()} ")
        time.sleep(3600)
    """
    parent = start(
        f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", {textwrap.dedent(watched)!r}, sys.argv[1]])
        """,
        str(pid_file),
    )
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith(" "))
    pid = int(pid_file.read_text())
    assert alive(pid)

    parent.kill()
    parent.wait()

    wait_until(lambda: not alive(pid))


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "import os; os._exit(0)"])
def test_children_end_with_a_parent_that_ends(tmp_path, end):
    script = f"""
        from sidecar_core.isolation import submit_call
        from sidecar_core.testing.isolated_functions import pid
        print(submit_call(pid), flush=True)
        {end}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    wait_until(lambda: not alive(int(done.stdout)))


def test_a_parent_that_raises_ends_with_its_own_traceback_only():
    script = """
        from sidecar_core.isolation import submit_call
        from sidecar_core.testing.isolated_functions import pid
        submit_call(pid)
        raise LookupError("mine")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.strip().endswith("LookupError: mine")


def test_interrupting_a_call_leaves_the_pool_usable(tmp_path):
    pids_file = tmp_path / "pids"
    script = """
        import sys
        from sidecar_core.isolation import IsolationOptions, IsolationPool
        from sidecar_core.testing import isolated_functions as functions
        with IsolationPool(IsolationOptions(workers=2)) as pool:
            try:
                pool.map_rows(functions.note_and_hang, [sys.argv[1]] * 8)
            except KeyboardInterrupt:
                print(pool.map_rows(functions.double, range(5), timeout_s=30), pool.counters.timeouts)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(pids_file)], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 2)
    parent.send_signal(signal.SIGINT)

    assert parent.communicate(timeout=60)[0].strip() == "[0, 2, 4, 6, 8] 0"
    assert parent.returncode == 0


def start_up(tmp_path, code, start_timeout_s=1.0):
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(code))
    return IsolationOptions(workers=2, start_timeout_s=start_timeout_s, env=(("PYTHONPATH", str(tmp_path)),))


def test_children_that_cannot_start_are_an_error_with_their_words(tmp_path):
    options = start_up(tmp_path, "import os; os.write(2, b'no library'); os._exit(5)")
    with IsolationPool(options) as pool:
        with pytest.raises(
            IsolationError, match=r"3 attempts: the child ended with exit status 5; it wrote: no library"
        ):
            pool.map_rows(functions.double, range(10))
        assert pool.counters.started == 0


def test_children_that_hang_while_they_start_are_given_up(tmp_path):
    with IsolationPool(start_up(tmp_path, "import time; time.sleep(3600)")) as pool:
        with pytest.raises(IsolationError, match=r"did not answer within 1\."):
            pool.map_rows(functions.double, range(10))
        assert pool.counters.stalled >= 3  # and the one that was starting beside the third


def test_a_child_that_hangs_once_while_it_starts_costs_nothing(tmp_path):
    options = start_up(
        tmp_path,
        f"""
        import os, time
        try:
            os.close(os.open({str(tmp_path / "mark")!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            time.sleep(3600)
        """,
        start_timeout_s=4.0,
    )
    with IsolationPool(options) as pool:
        assert pool.map_rows(functions.double, range(10)) == list(range(0, 20, 2))
        assert pool.call(functions.double, 3) == 6


def test_a_module_that_kills_the_child_when_loaded_fails_the_call(tmp_path, monkeypatch):
    (tmp_path / "deadly_module.py").write_text("import os\nif os.getenv('DEADLY'): os.abort()\ndef f(row, c): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import deadly_module

    with IsolationPool(IsolationOptions(workers=2, env=(("DEADLY", "1"),))) as pool:
        with pytest.raises(IsolationError, match=r"f cannot be loaded in an isolated child: .*SIGABRT"):
            pool.map_rows(deadly_module.f, range(10))
        assert pool.map_rows(functions.double, [1]) == [2]


def test_no_file_descriptor_or_process_is_left():
    def count():
        return len(list(Path("/dev/fd").iterdir()))

    with IsolationPool(IsolationOptions(workers=1)) as pool:
        pool.map_rows(functions.abort, range(2))
    before = count()
    for _ in range(3):
        with IsolationPool(IsolationOptions(workers=1)) as pool:
            child = pool.call(functions.pid)
            pool.map_rows(functions.double_unless, range(8), common={2: "abort", 5: "exit_3"})
    assert count() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


def test_an_ending_states_only_what_was_measured():
    assert Ending(signal=6, peak_bytes=212 << 20).memory_text() == "child peak memory 212 MiB"
    assert Ending(signal=6, peak_bound_bytes=900 << 20).memory_text() == "child peak memory at most 900 MiB"
    assert str(Ending()) == "ended, and its exit status was taken by other code"
