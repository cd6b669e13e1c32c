"""Signals that ask a run to end, noted while an exception would tear native code apart."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_ONE_REQUEST_S = 0.5


class DeferredInterrupts:
    """While open, notes SIGINT and SIGTERM; `act` then does what their handlers would have done.

    Python runs handlers between any two of its instructions. An exception that a handler raises inside a
    library's start or callbacks can be lost there, or leave native threads that abort the process later.
    A second signal is acted on at once, wherever the program is, since the first may never be; one that comes
    within half a second is taken for the first's echo, as terminals and process managers make them.

    Only handlers that were set from Python are deferred, and only in the main thread, where Python runs them;
    what is left to the system, or is ignored, stays so.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._noted: int | None = None
        self._noted_s = 0.0
        self._acted = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _NUMBERS}
        self.keep()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        before, self._before = self._before, {}
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        if self._noted is not None and not (kind is not None and issubclass(kind, KeyboardInterrupt)):
            self._act_by(before)

    @property
    def noted(self) -> bool:
        """Whether a signal waits to be acted on."""
        return self._noted is not None

    def act(self) -> None:
        """Does what the handler of a noted signal does: raises KeyboardInterrupt, in most programs."""
        if self._noted is not None:
            self._act_by(self._before)

    def keep(self) -> None:
        """Sets the handlers again, where native code may have put its own below Python's."""
        for number, handler in self._before.items():
            if handler is not None:  # None: set by native code, and nothing that Python could set
                signal.signal(number, self._note if callable(handler) else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted is not None and time.monotonic() - self._noted_s < _ONE_REQUEST_S:
            return
        if self._noted is not None or self._acted:
            self._noted = number
            self._act_by(self._before, frame)
            return
        self._noted = number
        self._noted_s = time.monotonic()

    def _act_by(self, handlers: dict[int, Any], frame: FrameType | None = None) -> None:
        number, self._noted, self._acted = self._noted, None, True
        handler: Callable[[int | None, FrameType | None], object] = handlers[number or 0]
        handler(number, frame)
