"""Starts real drivers, kills them, and finds every process that they left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "SIDECAR_TORTURE"
_LOOK_EVERY_S = 0.1
_ISOLATED = "sidecar_core.isolation"
_SHOWN = 600


class TooSlowError(Exception):
    """A driver did not end, or did not get so far, within the time that was left."""


@dataclass(frozen=True)
class Ended:
    """How a driver ended.

    Attributes:
        status: exit status, negative for a signal.
        said: the end of what it wrote to stderr.
    """

    status: int
    said: str


class Drivers:
    """Runs `sidecar run` in processes of their own, all of which carry a mark in their environment.

    Args:
        folder: where they write their logs.
        token: the mark's value.
        time_limit_s: how long a step may take, from `start_clock` on.
        environment: variables for them beside those of this process.
    """

    def __init__(self, folder: Path, token: str, time_limit_s: float, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._token = token
        self._time_limit_s = time_limit_s
        self.start_clock()
        kept = {
            name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "FORCE_COLOR", "PY_COLORS")
        }
        self._environment = {**kept, **environment, MARK: token}
        self._number = 0

    def start_clock(self) -> None:
        """Gives the next step the whole time."""
        self._deadline = time.monotonic() + self._time_limit_s

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._deadline

    def run(self, arguments: Sequence[str]) -> Ended:
        """Runs a driver to its end.

        Raises:
            TooSlowError: it did not end in time; it was killed.
        """
        process, log = self._start(arguments)
        try:
            status = process.wait(timeout=max(0.1, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TooSlowError(
                f"sidecar {' '.join(arguments[:1])} had not ended when time was up: {_tail(log)}"
            ) from None
        return Ended(status, _tail(log))

    def run_and_kill(self, arguments: Sequence[str], *, when: Callable[[], bool]) -> Ended:
        """Runs a driver, and sends it SIGKILL as soon as `when` says so; it may end before that.

        Raises:
            TooSlowError: it did not get so far in time; it was killed.
        """
        process, log = self._start(arguments)
        while process.poll() is None and not when():
            if self.late:
                process.kill()
                process.wait()
                raise TooSlowError(f"no shard was there when time was up: {_tail(log)}")
            time.sleep(_LOOK_EVERY_S)
        process.send_signal(signal.SIGKILL)
        return Ended(process.wait(), _tail(log))

    def left(self, *, isolated_only: bool = False) -> dict[int, str]:
        """Returns the processes that carry the mark, with their command lines; this one does not.

        Args:
            isolated_only: only the children in which rows are computed, not what belongs to Ray.
        """
        found = marked(f"{MARK}={self._token}")
        return {pid: line for pid, line in found.items() if not isolated_only or _ISOLATED in line}

    def wait_until_gone(self, seconds: float, *, isolated_only: bool = False) -> dict[int, str]:
        """Waits until no process with the mark is left; returns those that are then."""
        end = time.monotonic() + seconds
        while (left := self.left(isolated_only=isolated_only)) and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
        return left

    def end_left(self) -> int:
        """Ends every process with the mark; returns how many there were."""
        ended: set[int] = set()
        for _ in range(20):
            left = self.left()
            if not left:
                break
            for pid in left:
                ended.add(pid)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_LOOK_EVERY_S)
        return len(ended)

    def _start(self, arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes], Path]:
        self._number += 1
        log = self._folder / f"driver-{self._number}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "sidecar_cli.main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for this program, which ends them
            )
        return process, log


def _tail(log: Path) -> str:
    """Returns the end of what a driver said, without its progress."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith("Shard progress:"))[-_SHOWN:]


def marked(mark: str) -> dict[int, str]:
    """Returns this user's processes with a variable in their environment, `NAME=value`, and their command lines."""
    return _marked_in_proc(mark) if Path("/proc/self/environ").exists() else _marked_by_ps(mark)


def _marked_in_proc(mark: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (OSError, IndexError):  # it ended, or is not ours
            continue
        if state not in ("Z", "X"):
            found[int(folder.name)] = line
    return found


def _marked_by_ps(mark: str) -> dict[int, str]:
    """Where there is no /proc: `ps` shows the environment of this user's own processes."""
    done = subprocess.run(["/bin/ps", "eww", "-axo", "pid=,command="], capture_output=True, text=True, check=False)
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        pid, _, rest = line.strip().partition(" ")
        if mark in rest.split() and pid.isdigit() and int(pid) != os.getpid():
            found[int(pid)] = rest.partition(f"{MARK}=")[0].strip()
    return found
