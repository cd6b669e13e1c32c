# ruff: noqa: PT012 - what comes after the signal is what is tested
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from sidecar_runtimes import interrupts
from sidecar_runtimes.interrupts import DeferredInterrupts
from sidecar_runtimes.ray_thread import RayThread


@pytest.fixture(autouse=True)
def as_the_program_has_them():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
class TestDeferredInterrupts:
    def test_a_signal_waits_until_it_is_acted_on(self, number):
        with pytest.raises(KeyboardInterrupt), DeferredInterrupts() as deferred:
            deferred.act()
            send(number)
            assert deferred.noted
            deferred.act()
            pytest.fail("goes on")
        assert signal.getsignal(number) is signal.default_int_handler

    def test_a_signal_is_acted_on_at_the_end_at_the_latest(self, number):
        reached = []
        with pytest.raises(KeyboardInterrupt), DeferredInterrupts():
            send(number)
            reached.append(1)
        assert reached

    def test_a_signal_wins_over_an_error_of_what_it_disturbed(self, number):
        with pytest.raises(KeyboardInterrupt) as raised, DeferredInterrupts():
            send(number)
            raise OSError("x")
        assert isinstance(raised.value.__context__, OSError)

    def test_a_second_one_is_acted_on_at_once(self, number, monkeypatch):
        monkeypatch.setattr(interrupts, "_ONE_REQUEST_S", 0.0)
        reached = []
        with pytest.raises(KeyboardInterrupt), DeferredInterrupts():
            send(number)
            reached.append(1)
            send(number)
            reached.append(2)
        assert reached == [1]

    def test_an_echo_is_no_second_one(self, number, monkeypatch):
        monkeypatch.setattr(interrupts, "_ONE_REQUEST_S", 1000.0)
        reached = []
        with pytest.raises(KeyboardInterrupt), DeferredInterrupts():
            send(number)
            send(number)
            reached.append(1)
        assert reached

    def test_while_cleaning_up_after_one_the_next_is_acted_on_at_once(self, number):
        cleaned = []
        with DeferredInterrupts() as deferred:
            with pytest.raises(KeyboardInterrupt):
                send(number)
                deferred.act()
            with pytest.raises(KeyboardInterrupt):
                send(number)
                cleaned.append(1)
        assert not cleaned

    def test_what_is_left_to_the_system_stays_so(self, number):
        signal.signal(number, signal.SIG_IGN)
        with DeferredInterrupts() as deferred:
            send(number)
            assert not deferred.noted
        assert signal.getsignal(number) is signal.SIG_IGN

    def test_elsewhere_than_in_the_main_thread_nothing_changes(self, number):
        seen = []

        def look():
            with DeferredInterrupts():
                seen.append(signal.getsignal(number))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert seen == [signal.default_int_handler]


class TestRayThread:
    def test_calls_run_in_one_thread_and_their_errors_arrive(self):
        with DeferredInterrupts() as deferred:
            thread = RayThread(deferred)
            names = []
            thread.call(lambda: names.append(threading.current_thread()))
            with pytest.raises(ZeroDivisionError):
                thread.call(lambda: names.append(1 / 0))
            thread.call(lambda: names.append(threading.current_thread()))
            thread.end()
        assert names[0] is names[1] is not threading.main_thread()
        assert not names[0].is_alive()

    def test_a_call_is_not_torn_apart_by_a_signal(self):
        with pytest.raises(KeyboardInterrupt), DeferredInterrupts() as deferred:
            thread = RayThread(deferred)
            ended = []
            go_on = threading.Event()
            threading.Timer(0.2, go_on.set).start()

            def work():
                send(signal.SIGTERM)
                ended.append(go_on.wait(30))

            thread.call(work)
            assert ended == [True]
            assert deferred.noted
            thread.end()

    def test_a_call_that_does_not_end_is_left_at_the_second_signal(self, monkeypatch):
        monkeypatch.setattr(interrupts, "_ONE_REQUEST_S", 0.0)
        go_on = threading.Event()
        with DeferredInterrupts() as deferred:
            thread = RayThread(deferred)

            def work():
                send(signal.SIGTERM)
                while not deferred.noted:
                    pass
                send(signal.SIGTERM)
                go_on.wait(30)

            with pytest.raises(KeyboardInterrupt):
                thread.call(work)
            assert thread.stuck
            go_on.set()
            thread.end()

    def test_the_alarm_of_a_native_handler_is_cancelled_and_another_one_is_not(self):
        def work():
            signal.setitimer(signal.ITIMER_REAL, 50)
            send(signal.SIGTERM)

        for before, after in ((0, 0), (1000, 50)):
            signal.setitimer(signal.ITIMER_REAL, before)
            with pytest.raises(KeyboardInterrupt), DeferredInterrupts() as deferred:
                RayThread(deferred).call(work)
            left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
            assert (left_s > 0) == (after > 0)


@pytest.mark.ray
@pytest.mark.parametrize("left", ["signal.default_int_handler", "signal.SIG_DFL"])
def test_handlers_are_as_before_while_ray_runs_and_after_it(left):
    code = f"""
import ctypes, signal
from sidecar_runtimes.ray_cluster import RayCluster

def natively():
    action = (ctypes.c_void_p * 64)()
    ctypes.CDLL(None).sigaction(signal.SIGTERM, None, ctypes.byref(action))
    return action[0]

signal.signal(signal.SIGTERM, {left})
before = natively()
with RayCluster(cpus=1) as cluster:
    assert signal.getsignal(signal.SIGTERM) == {left}
    assert natively() == before, "while it runs"
    assert cluster.ray.get(cluster.ray.put(1)) == 1
assert signal.getsignal(signal.SIGTERM) == {left}
assert natively() == before, "afterwards"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_program_with_ray_stuck_in_a_thread_ends_with_its_status_at_once():
    code = """
import threading
from sidecar_runtimes.interrupts import DeferredInterrupts
from sidecar_runtimes.program import report_error
from sidecar_runtimes.ray_thread import RayThread

with DeferredInterrupts() as deferred:
    thread = RayThread(deferred)
    interrupts = iter([False, True])
    deferred.keep = lambda: next(interrupts) and (_ for _ in ()).throw(KeyboardInterrupt)
    try:
        thread.call(threading.Event().wait)
    except KeyboardInterrupt as error:
        thread.end()
        print("said", flush=True)
        report_error(error, debug=False)
        print("goes on")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (130, "said\n"), ran.stderr
