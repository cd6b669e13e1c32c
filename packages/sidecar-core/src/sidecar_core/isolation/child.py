"""The loop of an isolated child: receive a row, call the function, send the result.

Nothing heavy is imported here; what a function needs is imported when the function is loaded.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from sidecar_core.isolation import steps, wire

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_SINK_BYTES: Final = 1 << 20
_LARGEST_STDERR_BYTES: Final = 64 << 10
_LARGEST_TEXT: Final = 2000
_PR_SET_PDEATHSIG: Final = 1
_M_TRIM_THRESHOLD: Final = -1  # of glibc's <malloc.h>
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 64 << 20
_LARGEST_KEPT_BLOCK_BYTES: Final = 32 << 20  # the most that glibc takes
_EXIT_BROKEN: Final = 70
_CV2_NO_MEMORY: Final = -4  # cv::Error::StsNoMem


class _Sink:
    """The nameless file that takes the child's stdout and stderr; the parent reads it after a crash."""

    def __init__(self) -> None:
        self._fd = os.dup(2)  # stays when a function closes or redirects fd 2
        self.row_start = 0

    def text(self) -> str:
        size = os.fstat(self._fd).st_size
        row_start = self.row_start if self.row_start <= size else 0  # the parent has emptied it since
        start = max(row_start, size - _LARGEST_STDERR_BYTES)
        return os.pread(self._fd, max(0, size - start), start).decode(errors="replace")

    def end_row(self) -> int:
        """Starts the next row's text and returns where in the file it begins."""
        with contextlib.suppress(Exception):  # a function may have put anything there
            sys.stdout.flush()
        size = os.fstat(self._fd).st_size
        if size > _LARGEST_SINK_BYTES:
            os.ftruncate(self._fd, 0)
            size = 0
        self.row_start = size
        return size


_sink: _Sink | None = None


def native_stderr() -> str:
    """Returns what was written to fd 2 or fd 1 since this child's row began; the last 64 KiB of it.

    Codecs report there what they do not return (`Premature end of JPEG file`). Outside of an isolated
    child it is an empty string.
    """
    return "" if _sink is None else _sink.text()


def main(fd: int, page_fd: int, parent_pid: int, memory_cap_bytes: int) -> NoReturn:
    """Serves the parent at the other end of socket `fd` until it closes or dies; notes its steps in `page_fd`."""
    global _sink  # noqa: PLW0603 - one process, one sink
    os.set_inheritable(fd, False)
    _die_with_parent(parent_pid)
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its children
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(memory_cap_bytes)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    _sink = _Sink()
    try:
        _Loop(fd, memory_cap_bytes, _sink, steps.attach(page_fd)).serve()
    except BaseException as error:  # noqa: BLE001 - the function may have closed our files; the parent reads this
        sys.excepthook(type(error), error, error.__traceback__)
    os._exit(_EXIT_BROKEN)  # an ordinary exit would wait for threads that the function left


class _Loop:
    def __init__(self, fd: int, memory_cap_bytes: int, sink: _Sink, notes: steps.StepNotes) -> None:
        self._receiver = wire.Receiver(fd)
        self._sender = wire.Sender(lambda parts: os.writev(fd, parts))
        self._cap = memory_cap_bytes
        self._sink = sink
        self._notes = notes
        self._jobs: dict[int, tuple[bool, Callable[..., object], object] | None] = {}

    def serve(self) -> NoReturn:
        # The peak that this process inherited from its parent (exec keeps it): a later value above it is its own.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._reply(0, wire.HELLO, wire.encode(peak))
        while True:
            try:
                message = self._receiver.receive()
            except (EOFError, OSError):
                os._exit(0)
            except MemoryError:
                self._reply(self._receiver.number, wire.NO_MEMORY, flags=wire.RETIRING)
                os._exit(0)
            if message is None:  # pragma: no cover - this end of the socket blocks
                continue
            if message.kind == wire.ROW:
                self._run(message)
            elif message.kind == wire.JOB:
                self._load(message)
            else:
                self._jobs.pop(message.extra, None)
            del message  # a large row's bytes

    def _reply(self, number: int, kind: int, body: list[bytes | memoryview] | None = None, *, flags: int = 0) -> None:
        self._sender.push(wire.Outgoing(kind, number, body or (), flags=flags, extra=self._sink.end_row()))
        try:
            self._sender.flush()
        except OSError:  # the parent has gone
            os._exit(0)

    def _load(self, message: wire.Message) -> None:
        try:
            self._jobs[message.extra] = pickle.loads(message.body)  # noqa: S301 - from our own parent
        except BaseException as error:  # noqa: BLE001 - an import may raise anything
            self._jobs[message.extra] = None
            self._reply(message.number, wire.LOAD_FAILED, wire.encode(_description(error)))
        else:
            _limit_memory(self._cap)  # what the function's imports mapped does not count
            self._reply(message.number, wire.LOADED)

    def _run(self, message: wire.Message) -> None:
        job = self._jobs[message.extra]
        if job is None:
            self._reply(message.number, wire.VALUE, wire.encode(None))
            return
        spread, fn, common = job
        returned = False
        self._notes.begin_row(message.number)
        try:
            row = pickle.loads(message.body)  # noqa: S301 - from our own parent
            value = fn(*row) if spread else fn(row, common)
            returned = True
            kind, body = wire.VALUE, wire.encode(value)
        except MemoryError:
            kind, body = wire.NO_MEMORY, wire.encode(self._notes.last())
        except BaseException as error:  # noqa: BLE001 - also SystemExit: this row's failure, not the child's end
            kind, body = wire.NO_MEMORY, wire.encode(self._notes.last())
            if getattr(error, "code", None) != _CV2_NO_MEMORY or type(error).__module__ != "cv2":
                again = _pickled(error) if spread and not returned else None
                kind, body = wire.RAISED, wire.encode((returned, *_description(error), again, self._notes.last()))
        # Memory that was short may still be in pieces, so the next row gets a fresh child.
        self._reply(message.number, kind, body, flags=wire.RETIRING if kind == wire.NO_MEMORY else 0)


def _description(error: BaseException) -> tuple[str, str, str]:
    """Returns the class, the text, and the traceback with this row's native stderr, each cut to a bounded length.

    What UTF-8 cannot hold is escaped: a text may have been made of a file's name or metadata.
    """
    import traceback

    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        text = "its text cannot be had"
    lines = "".join(traceback.format_exception(error)) + native_stderr()
    return type(error).__name__, _escaped(text[:_LARGEST_TEXT]), _escaped(lines[-_LARGEST_TEXT:])


def _escaped(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _pickled(error: BaseException) -> bytes | None:
    """Returns the exception's pickle, or None when it has none."""
    try:
        return b"".join(wire.encode(error))
    except Exception:  # noqa: BLE001
        return None


def _limit_memory(cap_bytes: int) -> None:
    """Limits the address space to what is mapped now and `cap_bytes` more."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib would slow the start
            mapped = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        mapped = 0  # macOS
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = mapped + cap_bytes
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _die_with_parent(parent_pid: int) -> None:
    """Makes this process end when the thread that started it does, whatever it is doing."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        _watch_parent(parent_pid)
    if os.getppid() != parent_pid:  # it ended before this was asked for
        os._exit(0)


def keep_freed_memory() -> None:
    """Lets glibc keep up to 64 MiB that a row has freed for the next one.

    It comes to that by itself once a block of 32 MiB was freed. Until then it returns the pixels of each row to the
    system and faults them in again, page by page: 5 to 20 % of the CPU time of resizing 1 MP.
    """
    if sys.platform == "linux":
        import ctypes

        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BLOCK_BYTES)
            mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _watch_parent(parent_pid: int, *, period_s: float = 1.0) -> None:
    """Does it with a thread where the kernel does not; native code that keeps the GIL delays it."""
    import threading
    import time

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(period_s)
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
