"""What a worker process leaves behind about its own end: the fatal signal, and the memory measured last.

A cluster says that a worker ended, and no more. So each worker keeps a folder on its node with one mark for
every shard under way, its peak memory, and what Python's fault handler writes on a fatal signal.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import resource
import shutil
import sys
import tempfile
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar_core.storage.staging import ProcessIdentity, staging_folder

if TYPE_CHECKING:
    from collections.abc import Generator

_MEASURE_S = 0.5
_MIB = 2**20
_SIGNALS = {
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating-point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
    "Segmentation fault": "SIGSEGV",
}


class FlightRecorder:
    """Keeps the folder of this process for one run, until the recorder is garbage or the process ends well.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        remove_old_flights(run_id)
        self._folder = staging_folder(_flights(), run_id)
        self._fault = (self._folder / "fault").open("w")
        faulthandler.enable(self._fault, all_threads=False)
        ended = threading.Event()
        _write_peak(self._folder / "memory")
        measuring = threading.Thread(
            target=_keep_measuring, args=(self._folder / "memory", ended), name="sidecar-flight", daemon=True
        )
        measuring.start()
        weakref.finalize(self, _close, ended, self._folder)

    @contextmanager
    def shard(self, rel_path: str) -> Generator[None]:
        """Marks the shard as under way."""
        mark = self._folder / _mark(rel_path)
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)


def read_flights(run_id: str, rel_path: str) -> str:
    """Returns how workers on this node ended that had the shard under way, or an empty text."""
    return "; ".join(
        dict.fromkeys(_ending(folder) for folder in _dead_flights(run_id) if (folder / _mark(rel_path)).exists())
    )


def remove_old_flights(run_id: str) -> None:
    """Removes what dead processes of other runs left."""
    for folder in _dead_flights():
        owner = ProcessIdentity.parse(folder.name)
        if owner is not None and owner[1] != run_id:
            shutil.rmtree(folder, ignore_errors=True)


def _ending(folder: Path) -> str:
    fatal = _text(folder / "fault").partition("\n")[0].removeprefix("Fatal Python error: ")
    memory = _text(folder / "memory")
    ended = f"ended by {_SIGNALS.get(fatal, fatal)}" if fatal else "no signal that can be caught"
    return f"{ended}, process memory at most {memory} MiB" if memory else ended


def _dead_flights(run_id: str | None = None) -> list[Path]:
    if not _flights().is_dir():
        return []
    found: list[Path] = []
    for folder in sorted(_flights().iterdir()):
        owner = ProcessIdentity.parse(folder.name)
        if owner is not None and owner[0].is_dead() and run_id in (None, owner[1]):
            found.append(folder)
    return found


def _flights() -> Path:
    return Path(tempfile.gettempdir(), f"sidecar-flights-{os.getuid()}")


def _mark(rel_path: str) -> str:
    return "shard-" + hashlib.blake2b(rel_path.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _write_peak(file: Path) -> None:
    """Writes this process's peak memory in MiB, so that whenever it ends the file is whole."""
    whole = file.with_suffix(".new")
    whole.write_text(str(_peak_bytes() // _MIB))
    whole.replace(file)


def _peak_bytes() -> int:
    """Returns this process's peak memory; on Linux `ru_maxrss` would include that of the process that started it."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def _keep_measuring(file: Path, ended: threading.Event) -> None:
    while not ended.wait(_MEASURE_S):
        try:
            _write_peak(file)
        except OSError:  # the disk is full, or the folder is gone: a shard's end is then told without it
            return


def _close(ended: threading.Event, folder: Path) -> None:
    ended.set()
    faulthandler.enable()
    shutil.rmtree(folder, ignore_errors=True)
