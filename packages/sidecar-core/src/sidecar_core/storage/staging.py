"""Folders for unfinished files, and whose they are, so that the leftovers of the dead can be removed."""

from __future__ import annotations

import calendar
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_UNSAFE = re.compile(r"[^A-Za-z0-9.]+")
_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that cannot be mistaken for another one with the same number.

    Attributes:
        host: name of the machine, its other characters than letters, digits and dots replaced by `_`.
        pid: process number.
        birth: on Linux `<boot>.<pid namespace>.<start in clock ticks>`, elsewhere the start in seconds since 1970.
    """

    host: str
    pid: int
    birth: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Returns the identity of this process."""
        pid = os.getpid()  # asked each time: a forked child is another process
        return cls(_host(), pid, _birth_of(pid) or "0")

    @classmethod
    def parse(cls, text: str) -> tuple[ProcessIdentity, str] | None:
        """Splits `<host>-<pid>-<birth>-<rest>` into its owner and the rest; None when it is something else."""
        parts = text.split("-", 3)
        if len(parts) < 4 or not parts[1].isdigit() or not parts[0] or not parts[2]:
            return None
        return cls(parts[0], int(parts[1]), parts[2]), parts[3]

    @property
    def token(self) -> str:
        """The identity as the beginning of a file name."""
        return f"{self.host}-{self.pid}-{self.birth}"

    def is_dead(self) -> bool:
        """Returns whether this process is known to have ended; False for what cannot be seen from here."""
        if self.host != _host():
            return False
        if _LINUX and self.birth.count(".") == 2:
            boot, namespace, _ = self.birth.split(".")
            if boot != _boot_id():
                return True
            if namespace != _pid_namespace():
                return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
        birth = _birth_of(self.pid)
        return birth is not None and birth != self.birth


def staging_folder(parent: Path, run_id: str) -> Path:
    """Returns this process's folder for a run below `parent`, made when absent."""
    folder = parent / f"{ProcessIdentity.current().token}-{_UNSAFE.sub('-', run_id)}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_dead_folders(parent: Path) -> int:
    """Removes the staging folders below `parent` whose process has ended; returns how many."""
    removed = 0
    try:
        folders = list(parent.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return 0
    for folder in folders:
        owner = ProcessIdentity.parse(folder.name)
        if owner is not None and owner[0].is_dead():
            shutil.rmtree(folder, ignore_errors=True)  # another process may be removing it too
            removed += not folder.exists()
    return removed


def temporary_folder(run_id: str) -> Path:
    """Returns this process's folder for a run on this machine's disk for temporary files."""
    return staging_folder(_temporary_parent(), run_id)


def clean_temporary_folder() -> int:
    """Removes what dead processes left there; returns how many folders."""
    return remove_dead_folders(_temporary_parent())


def free_bytes_at(folder: Path) -> int:
    """Returns the free bytes of the disk that holds a folder, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _temporary_parent() -> Path:
    return Path(tempfile.gettempdir(), f"sidecar-{os.getuid()}")


@lru_cache(maxsize=1)
def _host() -> str:
    return _UNSAFE.sub("_", socket.gethostname()) or "localhost"


@lru_cache(maxsize=1)
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]


def _pid_namespace() -> str:
    try:
        return re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        return "0"


def _birth_of(pid: int) -> str | None:
    """Returns the birth of a living process, or None when it cannot be told."""
    if not _LINUX:
        return _birth_from_ps(pid)
    try:
        # the command's name may hold spaces and brackets; the fields after it are fixed
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return f"{_boot_id()}.{_pid_namespace()}.{'ended' if fields[0] in 'ZX' else fields[19]}"
    except (OSError, IndexError):
        return None


def _birth_from_ps(pid: int) -> str | None:
    try:
        answer = subprocess.run(
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=True,
            env={"LC_ALL": "C", "TZ": "UTC"},
        ).stdout.strip()
        return str(int(calendar.timegm(time.strptime(answer, "%a %b %d %H:%M:%S %Y"))))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
