"""Stdout is for results: what ops, plugins and libraries print while a command works goes to stderr."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sidecar_runtimes.program import discard_stdout

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TextIO

_STDOUT, _STDERR = 1, 2


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Points file descriptor 1 to where 2 points, for native code and child processes that write to it."""
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    try:
        os.dup2(_STDERR, _STDOUT)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


@contextmanager
def prints_to_stderr() -> Generator[None]:
    """Has whatever is printed go to stderr, but for what `results_to_stdout` surrounds; for the main thread."""
    stdout = _PutAwayStdout()
    stdout.put_away()
    _put_away.append(stdout)
    try:
        yield
    finally:
        _put_away.pop()
        stdout.bring_back()


@contextmanager
def results_to_stdout() -> Generator[None]:
    """Has stdout in its place again, for the time of the context."""
    if not _put_away:
        yield
        return
    _put_away[-1].bring_back()
    try:
        yield
    finally:
        _put_away[-1].put_away()


class _PutAwayStdout:
    """The stream and the file descriptor of stdout while stderr's are in their place."""

    def __init__(self) -> None:
        self._stream: TextIO = sys.stdout
        self._kept: int | None = None

    def put_away(self) -> None:
        self._stream = sys.stdout
        _flush()
        if _descriptor_of(self._stream) == _STDOUT:  # a caller may have put something else there
            self._kept = os.dup(_STDOUT)
            os.dup2(_STDERR, _STDOUT)
        sys.stdout = sys.stderr

    def bring_back(self) -> None:
        sys.stdout = self._stream
        _flush()  # somebody may have kept the stream
        if self._kept is not None:
            _flush_native()
            os.dup2(self._kept, _STDOUT)
            os.close(self._kept)
            self._kept = None


_put_away: list[_PutAwayStdout] = []


def _flush() -> None:
    """Flushes stdout; what a full disk or a reader that has gone does not take is dropped."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()
        sys.stdout.flush()
    except (ValueError, AttributeError):  # somebody closed it, or it is none
        return


def _flush_native() -> None:
    """Flushes what native code has printed, which the C library else writes when the process ends."""
    import ctypes

    ctypes.CDLL(None).fflush(None)


def _descriptor_of(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
