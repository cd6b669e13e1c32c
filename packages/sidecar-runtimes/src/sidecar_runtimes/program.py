"""What `sidecar` and `sidecar-run` have in common as programs: streams, signals, and the words of their end."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import json
import logging
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from sidecar_core.errors import SidecarError

from sidecar_runtimes.exit_codes import ExitCode, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_GARBAGE_AFTER = 10_000  # objects; at Python's 700 it looks for garbage during 5 % of the start, and finds none


def exit_status(run: Callable[[], object], arguments: Sequence[str]) -> int:
    """Runs a program's work and returns its exit status, whatever ends it; errors are said on stderr.

    Args:
        run: the work; returns False when it went on to its end and something failed.
        arguments: the command line without the program's name.
    """
    debug, logger = _asks_for_traceback(arguments), logging.getLogger("sidecar")
    level = logger.level
    if debug:
        logger.setLevel(logging.DEBUG)  # tracebacks of what becomes a result are there
    try:
        well = run() is not False
    except SystemExit as ended:
        return _status_of(ended)
    except BrokenPipeError:
        discard_stdout()
        return ExitCode.FOUND_FAILURES
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place that can word it
        return report_error(error, debug=debug)
    finally:
        logger.setLevel(level)
        # Ctrl-C in code that an import made from text leaves a mark by which `python -m` would end on SIGINT
        exec("")  # noqa: S102
    return ExitCode.DONE if well else ExitCode.FOUND_FAILURES


def _asks_for_traceback(arguments: Sequence[str]) -> bool:
    """Returns whether `--debug` is among the options."""
    before_end_of_options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--debug" in before_end_of_options


def _status_of(ended: SystemExit) -> int:
    """Returns the exit status that an argument parser ended with."""
    if ended.code is None:
        return ExitCode.DONE
    return ended.code if isinstance(ended.code, int) else ExitCode.FOUND_FAILURES


def report_error(error: BaseException, *, debug: bool) -> int:
    """Says on stderr what ended the program, in its own words or as a traceback; returns the exit status."""
    if debug:
        traceback.print_exception(error)
    elif isinstance(error, SidecarError):
        say(str(error))
    elif isinstance(error, PermissionError) and error.filename is not None:
        say(f"{error.filename}: {error.strerror}\n  fix: give this user access, or choose another place")
    elif isinstance(error, OSError) and error.errno in _NO_SPACE:
        say(f"{error.filename or 'output'}: {error.strerror}\n  fix: free space there, or write elsewhere")
    elif isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG and error.filename is not None:
        say(f"{error.filename}: {error.strerror}\n  fix: choose a shorter name")
    elif not isinstance(error, KeyboardInterrupt):
        say(f"unexpected {type(error).__name__}: {error}\n  fix: the same command with --debug shows where")
    _give_up_unwritten(sys.stdout)
    status = exit_code_of(error)
    _leave_stuck_ray(status)
    return status


def _leave_stuck_ray(status: int) -> None:
    """Ends the process here when Ray is stuck in a thread, where a regular end might abort; its processes end too."""
    ray_thread = sys.modules.get("sidecar_runtimes.ray_thread")  # loading it would slow down help
    if ray_thread is not None and ray_thread.any_stuck():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)


def say(text: str) -> None:
    """Writes a line to stderr; when nobody reads it, the exit status still tells."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        return


def prepare_process() -> None:
    """Makes streams that no file name can break, sends logs to stderr, and lets SIGTERM end as Ctrl-C does."""
    gc.set_threshold(_GARBAGE_AFTER)
    _fill_closed_streams()
    for name in ("stdout", "stderr"):
        setattr(sys, name, _bearing_gone_reader(getattr(sys, name)))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a test may have put something else there
            stream.reconfigure(errors="backslashreplace")
    logger = logging.getLogger("sidecar")
    if not logger.handlers:
        logger.addHandler(_StderrHandler())
        logger.propagate = False
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        atexit.unregister(_end_undisturbed)
        atexit.register(_end_undisturbed)  # before anything else does: it runs after all the others
    if os.environ.get("NO_COLOR"):  # an old way to force colour must not win over it
        for name in ("FORCE_COLOR", "PY_COLORS"):
            os.environ.pop(name, None)


def _end_undisturbed() -> None:
    """Ignores signals from here on, and what stderr cannot take: the rest has nothing to lose.

    A signal that came then would make a process that was killed of a program that had done its work and said so.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _give_up_unwritten(sys.stderr)


def _fill_closed_streams() -> None:
    """Opens nothing in place of standard streams that are closed: else a shard could get their numbers, and prints."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


class _StandardFile(io.FileIO):
    """A standard stream that is thrown away, from its next byte on, when nobody reads it any more."""

    def write(self, content: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        try:
            return super().write(content)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(content).nbytes


def _bearing_gone_reader(stream: TextIO) -> TextIO:
    """Returns a stream like this one, whose reader may go: argument parsers print help and usage with no such care."""
    if type(stream) is not io.TextIOWrapper:
        return stream  # somebody has put something else there
    buffer: Any = stream.buffer
    if isinstance(getattr(buffer, "raw", buffer), _StandardFile):
        return stream
    with suppress(OSError):
        stream.flush()
    file = _StandardFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(file) if hasattr(buffer, "raw") else cast("Any", file),  # `python -u` has no buffer
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _StderrHandler(logging.Handler):
    """Writes to what stderr is at that moment, so that a progress bar keeps its place."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def json_text(data: object) -> str:
    """Returns one JSON document, in the characters that stdout can write."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return json.dumps(data, indent=2, ensure_ascii=ascii_only, default=str) + "\n"


def write_stdout(text: str) -> None:
    """Writes to stdout; when nobody reads it any more, the rest is thrown away in silence."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Points stdout to nowhere, so that neither later writes nor the flush at exit can fail."""
    _point_to_nowhere(sys.stdout)


def _give_up_unwritten(stream: TextIO) -> None:
    """Drops what a full disk does not take: Python would try once more at its end, and make the exit status 120."""
    try:
        stream.flush()
    except OSError:
        _point_to_nowhere(stream)
    except ValueError:  # somebody closed it
        return


def _point_to_nowhere(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
