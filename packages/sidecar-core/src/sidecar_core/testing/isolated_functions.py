"""Functions for isolated children that do what broken native code does: abort, hang, eat memory.

Each is called in a child only. They take and ignore further arguments, so that each serves both
`IsolationPool.call` and `map_rows`.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class OwnError(Exception):
    """An exception that can be pickled."""


class UnpicklableError(Exception):
    """An exception whose pickle cannot be loaded."""

    def __init__(self, *, what: str) -> None:
        super().__init__(f"unpicklable {what}")


def double(row: int, *_: object) -> int:
    """Returns twice the row."""
    return 2 * row


def double_slowly(row: int, common: float) -> int:
    """Returns twice the row, after `common` seconds."""
    time.sleep(common)
    return 2 * row


def echo(row: object, *_: object) -> object:
    """Returns the row."""
    return row


def kind_and_size(row: bytes, *_: object) -> tuple[str, int, bytes]:
    """Returns the type's name, the length and the last bytes of a row of bytes."""
    return type(row).__name__, len(row), bytes(row[-4:])


def blob(row: int, *_: object) -> bytes:
    """Returns `row` bytes."""
    return bytes([row % 251]) * row


def echo_blob(row: bytes, common: int) -> bytes:
    """Returns the row `common` times over."""
    return bytes(row) * common


def pid(*_: object) -> int:
    """Returns the child's process id."""
    return os.getpid()


def pid_slowly(*_: object) -> int:
    """Returns the child's process id after long enough for others to start."""
    time.sleep(0.05)
    return os.getpid()


def abort(*_: object) -> NoReturn:
    """Ends on SIGABRT after a message of the kind that native libraries write."""
    os.write(2, b"libpng error: assertion failed\n")
    os.abort()


def segfault(*_: object) -> None:
    """Ends on SIGSEGV."""
    ctypes.string_at(0)


def kill_self(*_: object) -> None:
    """Ends on a SIGKILL that the pool did not send."""
    os.kill(os.getpid(), signal.SIGKILL)


def hang(*_: object) -> NoReturn:
    """Sleeps for ever."""
    while True:
        time.sleep(3600)


def spin_natively(*_: object) -> object:
    """Keeps the processor and the GIL in C code for longer than anyone waits."""
    return re.match(r"(a+)+$", "a" * 60 + "b")


def allocate_20_gb(*_: object) -> int:
    """Asks for more memory than a child may have."""
    return len(bytearray(20_000_000_000))


def allocate(size_bytes: int, *_: object) -> int:
    """Asks for `size_bytes` and returns them as a number."""
    return len(bytearray(size_bytes))


def faults_of_allocating(size_bytes: int, blocks: int) -> int:
    """Fills so many blocks and frees them; returns the pages that the system had to give for that."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [bytes(1) * size_bytes for _ in range(blocks)]
    del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def fill_and_kill_self(size_bytes: int, *_: object) -> None:
    """Has `size_bytes` in memory, then ends on SIGKILL, as at the hand of the kernel."""
    filled = b"x" * size_bytes
    kill_self(filled)


def raise_error(*_: object) -> NoReturn:
    """Raises an exception of its own."""
    raise OwnError("bad row", 7)


def raise_lone_surrogate(*_: object) -> NoReturn:
    """Raises an exception whose text no UTF-8 can hold, as the name of a file may be."""
    raise ValueError("bad name \udce9")


def raise_unpicklable(*_: object) -> NoReturn:
    """Raises an exception that cannot be loaded elsewhere."""
    raise UnpicklableError(what="error")


def raise_of_unimported_module(*_: object) -> NoReturn:
    """Raises an exception whose class lives in a module that the parent has no reason to import."""
    from wsgiref.validate import WSGIWarning

    raise WSGIWarning("rare")


def return_unpicklable(*_: object) -> object:
    """Returns what no pickle can hold."""
    return lambda: None


def leave(*_: object) -> NoReturn:
    """Calls sys.exit(0)."""
    sys.exit(0)


def exit_3(*_: object) -> NoReturn:
    """Ends the process with status 3, without a word."""
    os._exit(3)


def exit_0(*_: object) -> NoReturn:
    """Ends the process as if all were well."""
    os._exit(0)


def close_files(*_: object) -> str:
    """Closes every file of the process, the pool's socket among them."""
    os.closerange(0, 256)
    return "closed"


def close_files_and_hang(*_: object) -> NoReturn:
    """Closes the pool's socket and stays."""
    os.closerange(3, 256)
    hang()


def garble_socket(*_: object) -> NoReturn:
    """Writes to every file it has, the pool's socket among them, and stays."""
    for fd in range(3, 64):
        try:
            os.write(fd, b"not a message of ours, and long enough for a header")
        except OSError:
            continue
    hang()


def fork_and_die(*_: object) -> None:
    """Leaves a process that holds the socket, and ends on SIGKILL."""
    if os.fork() == 0:
        hang()
    kill_self()


def crash_once(path: str, *_: object) -> str:
    """Ends on SIGABRT when the file is not there yet, which it makes; later returns `survived`."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "survived"
    os.abort()


def note_and_hang(path: str, *_: object) -> NoReturn:
    """Writes the child's pid to a file, and keeps the processor in C code."""
    with open(path, "a") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n")
    spin_natively()
    hang()


def count_call(row: int, path: str) -> int:
    """Appends the row to a file, aborts for multiples of 10, and returns the row."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, f"{row}\n".encode())
    os.close(fd)
    if row % 10 == 0:
        os.abort()
    return row


def write_stderr(row: str, *_: object) -> str:
    """Writes the row to fd 2, prints `out <row>`, and returns what the child captured of this row."""
    from sidecar_core.isolation import native_stderr

    os.write(2, row.encode())
    print(f"out {row}")  # noqa: T201
    return native_stderr()


def write_much(row: int, *_: object) -> int:
    """Writes `row` bytes to fd 2 and returns the size of the file behind it afterwards."""
    block = b"x" * 65536
    for _block in range(row // len(block)):
        os.write(2, block)
    return os.fstat(2).st_size


def write_without_end(row: str, *_: object) -> NoReturn:
    """Writes the row to fd 2, again and again."""
    block = row.encode() * 1000
    while True:
        os.write(2, block)


def write_and_wait(row: int, *_: object) -> tuple[int, str]:
    """Writes `row` bytes to fd 2, waits until the file behind it is emptied, writes `late`.

    Returns the size of the file then, and what the child captured of this row.
    """
    from sidecar_core.isolation import native_stderr

    write_much(row)
    while os.fstat(2).st_size:
        time.sleep(0.01)
    os.write(2, b"late")
    return os.fstat(2).st_size, native_stderr()


def write_wait_and_abort(row: int, *_: object) -> NoReturn:
    """Writes `row` bytes, then `last words`, waits until the file behind fd 2 is emptied, and ends on SIGABRT."""
    os.write(2, b"x" * row)
    os.write(2, b" last words ")
    while os.fstat(2).st_size:
        time.sleep(0.01)
    os.abort()


def note_and_do(row: tuple[str, str], *_: object) -> object:
    """Notes the first step, writes more to fd 2 than anyone keeps, notes the second step, and does a deed."""
    from sidecar_core.isolation import note_step

    step, deed = row
    note_step("writing")
    os.write(2, b"warning: bad tile\n" * 8000)
    note_step(step)
    return DEEDS[deed]() if deed else None


def write_as_much_as_goes(*_: object) -> int:
    """Writes to fd 2 until the system refuses; returns how much it took."""
    taken = 0
    try:
        while True:
            taken += os.write(2, b"x" * 100)
    except OSError:
        return taken


def note_step_and_abort(row: str, *_: object) -> NoReturn:
    """Notes the row as a step and ends on SIGABRT."""
    from sidecar_core.isolation import note_step

    note_step(row)
    os.abort()


def surroundings(*_: object) -> dict[str, object]:
    """Returns what a child has been given by its pool."""
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "path": list(sys.path),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "extra": os.environ.get("SIDECAR_TEST_VALUE"),
        "core_limit": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "sigint_ignored": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "main_file": getattr(sys.modules["__main__"], "__file__", None),
        "modules": sorted(name for name in sys.modules if "." not in name),
    }


DEEDS: dict[str, Callable[..., object]] = {
    function.__name__: function
    for function in (
        abort,
        allocate_20_gb,
        close_files,
        close_files_and_hang,
        exit_0,
        exit_3,
        garble_socket,
        fork_and_die,
        hang,
        kill_self,
        leave,
        raise_error,
        raise_unpicklable,
        return_unpicklable,
        segfault,
        spin_natively,
    )
}


def double_unless(row: int, deeds: Mapping[int, str]) -> object:
    """Returns twice the row, or does what `deeds` has for this row: a name of `DEEDS`."""
    return DEEDS[deeds[row]]() if row in deeds else 2 * row
