"""One child process as its parent holds it: the socket, the captured output, how it ended."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sidecar_core.isolation import wire
from sidecar_core.isolation.steps import StepPage, unnamed_file

if TYPE_CHECKING:
    from sidecar_core.isolation.options import IsolationOptions

_SOCKET_BUFFER_BYTES: Final = 4 << 20
_STDERR_TAIL_BYTES: Final = 2048
_LARGEST_OUTPUT_BYTES: Final = 1 << 20
_UNREAPABLE_AFTER_S: Final = 5.0  # killed, and still there: stuck in the kernel
_MAXRSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
_NO_SIGPIPE: Final = getattr(socket, "MSG_NOSIGNAL", 0)  # a program that restored SIGPIPE must not die of ours
_BOOT: Final = (
    "import sys; sys.path[:] = {path!r}; "
    "from sidecar_core.isolation.child import main; main({fd}, {page_fd}, {parent_pid}, {memory_cap_bytes})"
)
_ONE_THREAD: Final = (
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "VIPS_CONCURRENCY",
)


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    Attributes:
        signal: number of the signal that ended it, or None; not the one of this process.
        status: its exit status, or None.
        killed: this process ended it.
        peak_bytes: its largest resident set, or None when that is not known.
        peak_bound_bytes: where peak_bytes is None, what it was at most (its parent's peak hides it).
    """

    signal: int | None = None
    status: int | None = None
    killed: bool = False
    peak_bytes: int | None = None
    peak_bound_bytes: int | None = None

    @property
    def label(self) -> str:
        """A short name for counting: `SIGSEGV`, `exit 3`."""
        if self.killed:
            return "channel broken"
        if self.signal is not None:
            return signal_name(self.signal)
        return "unknown" if self.status is None else f"exit {self.status}"

    def __str__(self) -> str:
        if self.killed:
            return "closed or garbled its channel, and was killed"
        if self.signal is not None:
            return f"ended on signal {self.signal} ({signal_name(self.signal)})"
        if self.status is not None:
            return f"ended with exit status {self.status}"
        return "ended, and its exit status was taken by other code"

    def memory_text(self) -> str:
        """Returns the measured peak memory as a phrase, or an empty string."""
        if self.peak_bytes is not None:
            return f"child peak memory {self.peak_bytes >> 20} MiB"
        if self.peak_bound_bytes is not None:
            return f"child peak memory at most {self.peak_bound_bytes >> 20} MiB"
        return ""


def signal_name(number: int) -> str:
    """Returns `SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ChildProcess:
    """A fresh interpreter that runs `child.main`; made, used and ended by one thread.

    Linux ends it when that thread ends, so the thread has to live as long as the child is wanted.

    Raises:
        OSError: the system could not start it.
    """

    def __init__(self, options: IsolationOptions) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            for end in (ours, theirs):
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    with suppress(OSError):
                        end.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
            with ExitStack() as made:
                made.callback(ours.close)
                self._sink = made.enter_context(unnamed_file())
                self._page = made.enter_context(closing(StepPage()))
                flags = fcntl.fcntl(self._sink, fcntl.F_GETFL)
                fcntl.fcntl(self._sink, fcntl.F_SETFL, flags | os.O_APPEND)  # so that truncating is enough
                self._process = _start(options, theirs.fileno(), self._page.fileno(), self._sink.fileno())
                made.pop_all()
        ours.setblocking(False)
        self._socket = ours
        self._poll = select.poll()
        self._events = 0
        self._killed = False
        self._ending: Ending | None = None
        self._row_start = 0  # where in the output the text of the row being computed begins
        self._cut_text = b""  # the end of what that row had written when its output was cut
        self._inherited_peak = 0  # what ru_maxrss was before the child did anything; see `note_inherited_peak`
        self.pid = self._process.pid
        self.receiver = wire.Receiver(ours.fileno())
        self.sender = wire.Sender(lambda parts: ours.sendmsg(parts, (), _NO_SIGPIPE))
        self.started_s = time.monotonic()

    def note_inherited_peak(self, maxrss: int) -> None:
        """Takes the child's first ru_maxrss: exec keeps the parent's, which is no fact about the child."""
        self._inherited_peak = maxrss * _MAXRSS_UNIT

    def wait(self, timeout_s: float, *, writing: bool) -> bool:
        """Waits for the socket; returns whether there is something to read, write, or that it was closed."""
        events = select.POLLIN | (select.POLLOUT if writing else 0)
        if events != self._events:
            self._poll.register(self._socket, events)
            self._events = events
        return bool(self._poll.poll(timeout_s * 1000))

    def exited(self) -> bool:
        """Returns whether the process has ended (its socket may be held open by a process that it left)."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return False
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def hang_up(self) -> None:
        """Makes the owning thread see the end of the socket; may be called from any thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Ends the process and what it has forked."""
        if self._ending is not None:  # its pid may be another's by now
            return
        self._killed = True
        self._kill_group()
        with suppress(ProcessLookupError, PermissionError):  # it may have left its group
            os.kill(self.pid, signal.SIGKILL)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def begin_output(self, start: int) -> None:
        """Takes note that the output of the row being computed begins at offset `start`."""
        self._row_start = start
        self._cut_text = b""

    def cut_output(self) -> None:
        """Empties the output when it has grown large while a row runs; between rows the child does."""
        if os.fstat(self._sink.fileno()).st_size > _LARGEST_OUTPUT_BYTES:
            self._cut_text = self._tail()
            os.ftruncate(self._sink.fileno(), 0)
            self._row_start = 0

    def stderr_tail(self) -> str:
        """Returns the end of what the child wrote since the row that it is computing began."""
        return self._tail().decode(errors="replace").strip()

    def _tail(self) -> bytes:
        size = os.fstat(self._sink.fileno()).st_size
        row_start = self._row_start if self._row_start <= size else 0  # cut after the child told where it begins
        start = max(row_start, size - _STDERR_TAIL_BYTES)
        return (self._cut_text + os.pread(self._sink.fileno(), size - start, start))[-_STDERR_TAIL_BYTES:]

    def step(self, number: int) -> str | None:
        """Returns what the child last noted while it computed the row of message `number`, or None."""
        return self._page.step(number)

    def end(self, *, grace_s: float = 0.0) -> Ending:
        """Waits up to `grace_s` for the process to end by itself, then kills it; returns how it ended."""
        if self._ending is None:
            self._ending = self._end(grace_s)
        return self._ending

    def _end(self, grace_s: float) -> Ending:
        ended = self._reaped(grace_s)
        alone = ended is not None
        if ended is None:
            self.kill()
            ended = self._reaped(_UNREAPABLE_AFTER_S)
        self._process.returncode = -signal.SIGKILL if ended is None else ended[0]
        if ended is None:
            return Ending(killed=True)
        code, maxrss = ended
        peak = maxrss * _MAXRSS_UNIT if maxrss else None
        hidden = peak is not None and peak <= self._inherited_peak
        killed = self._killed or not alone
        return Ending(
            signal=-code if code < 0 and not killed else None,
            status=code if 0 <= code < _UNKNOWN_CODE and not killed else None,
            killed=killed,
            peak_bytes=None if hidden else peak,
            peak_bound_bytes=peak if hidden else None,
        )

    def close(self) -> None:
        """Frees the socket, the captured output and the notes."""
        self._socket.close()
        self._sink.close()
        self._page.close()

    def _reaped(self, timeout_s: float) -> tuple[int, int] | None:
        """Returns the exit code (negative: signal) and ru_maxrss, or None when it has not ended in time."""
        deadline = time.monotonic() + timeout_s
        pause_s = 0.0005
        while True:
            if self.exited() and not self._killed:
                self._kill_group()  # what it forked must not stay; its pid is still taken
            try:
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:
                return _UNKNOWN_CODE, 0
            if pid:
                return os.waitstatus_to_exitcode(status), usage.ru_maxrss
            if time.monotonic() >= deadline:
                return None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)


_UNKNOWN_CODE: Final = 1 << 16


def _start(options: IsolationOptions, fd: int, page_fd: int, sink: int) -> subprocess.Popen[bytes]:
    boot = _BOOT.format(
        path=[os.getcwd() if entry == "" else entry for entry in sys.path],  # noqa: PTH109
        fd=fd,
        page_fd=page_fd,
        parent_pid=os.getpid(),
        memory_cap_bytes=options.memory_cap_bytes,
    )
    return subprocess.Popen(
        [sys.executable, "-P", "-c", boot],
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=sink,
        pass_fds=(fd, page_fd),
        env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), **dict(options.env)},
        start_new_session=True,  # Ctrl-C in a terminal is not for it, and killing it kills what it forked
    )
