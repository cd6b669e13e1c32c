"""The thread that starts Ray and ends it, while the main thread minds the signals."""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar_runtimes.interrupts import DeferredInterrupts

_LOOK_S = 0.002  # for so long at most is a handler of Ray's native code, or none, in the place of ours
_MAY_GO_ON_S = 60.0
_logger = logging.getLogger("sidecar")


_stuck: list[RayThread] = []


def any_stuck() -> bool:
    """Returns whether Ray is still starting or ending in a thread that nobody waits for any more.

    The process must then be left by `os._exit`: at its regular end Python takes itself apart under native code
    that runs on.
    """
    return any(thread.stuck for thread in _stuck)


class RayThread:
    """Runs what starts and ends Ray, one call after the other.

    In the main thread `ray.init` sets a handler for SIGTERM that raises SystemExit wherever Ray happens to be;
    in another one it leaves Python's handlers alone. The thread must live as long as Ray does: the kernel ends
    Ray's processes when the thread ends that began them.

    Attributes:
        interrupts: open; what it notes is acted on by the caller, or here when a call does not end.
    """

    def __init__(self, interrupts: DeferredInterrupts) -> None:
        self.interrupts = interrupts
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="sidecar-ray", daemon=True)
        self._last: _Call | None = None
        self._thread.start()

    @property
    def stuck(self) -> bool:
        """Whether a call has not ended."""
        return self._last is not None and not self._last.ended.is_set()

    def call(self, function: Callable[[], object]) -> None:
        """Runs a function in the thread and waits for it, though no longer than a minute once a signal was noted.

        Raises:
            KeyboardInterrupt: a second signal, or it did not end in those seconds; it is stuck in the thread.
            Exception: what the function raised.
        """
        call = _Call(function)
        alarm = _ForeignAlarm()
        deadline_s: float | None = None
        self._last = call
        self._calls.put(call)
        while not call.ended.wait(_LOOK_S):
            self.interrupts.keep()
            if not self.interrupts.noted:
                continue
            alarm.cancel()
            if deadline_s is None:
                deadline_s = time.monotonic() + _MAY_GO_ON_S
                _logger.warning("interrupted: waiting until Ray can be ended; once more does not wait for it")
            elif time.monotonic() > deadline_s:
                self.interrupts.act()
        self.interrupts.keep()
        if self.interrupts.noted:
            alarm.cancel()
        if call.error is not None:
            raise call.error

    def end(self) -> None:
        """Ends the thread, unless a call is stuck in it."""
        self._calls.put(None)
        if self.stuck:
            _stuck.append(self)
        else:
            self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()


class _Call:
    """A function that another thread runs."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - raised where the function was handed in
            self.error = error
        self.ended.set()


class _ForeignAlarm:
    """The alarm that Ray's native handler for SIGTERM sets: it aborts the process 3 s later, in any case."""

    def __init__(self) -> None:
        self._none_before = signal.getitimer(signal.ITIMER_REAL)[0] == 0

    def cancel(self) -> None:
        """Cancels what was set since; an alarm that was set before stays."""
        if self._none_before and signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0)
