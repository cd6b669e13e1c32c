"""What other people's code raised, in words: what it was, where in their files, and the traceback for who debugs."""

from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path

_OWN = ("sidecar_core", "sidecar_filters", "sidecar_resize", "sidecar_runtimes", "sidecar_cli")
_INSTALLED = ("site-packages", "dist-packages")
_STDLIB = Path(os.__file__).parent
_logger = logging.getLogger("sidecar")


def words_of(error: BaseException, *, of: str = "") -> str:
    """Returns what was raised and where: `ZeroDivisionError: division by zero, at /work/my_team/ops.py:9`.

    Args:
        error: what was raised.
        of: the module whose code was called; it may be one of an installed package. Of other installed packages,
            Python and sidecar no line is named.
    """
    try:
        what = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - it is other people's code
        what = f"{type(error).__name__}, whose text cannot be had"
    if isinstance(error, SystemExit):
        what = f"SystemExit: it called sys.exit({'' if error.code is None else repr(error.code)})"
    place = _place_of(error, of.partition(".")[0])
    return f"{what}, at {place}" if place else what


def traceback_text(error: BaseException) -> str:
    """Returns the traceback of an error and of what caused it, without a line end."""
    return "".join(traceback.format_exception(error)).rstrip()


def log_traceback(error: BaseException) -> None:
    """Logs the traceback of an error whose words are said elsewhere; `--debug` shows it."""
    _logger.debug("%s", traceback_text(error))


def ends_worker(error: SystemExit) -> bool:
    """Returns whether Ray ends this process with it, as when a node is taken away: no op asked for that."""
    return hasattr(error, "ray_terminate_msg")


def _place_of(error: BaseException, package: str) -> str:
    """Returns the innermost line of code that is neither sidecar's nor installed, else of `package`, or nothing."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f"{error.filename}:{error.lineno}"
    found = ""
    is_outside = False
    for frame, line in traceback.walk_tb(error.__traceback__):
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        file = Path(frame.f_code.co_filename)
        if top in _OWN or not file.is_file():  # compiled code names files that are not there
            continue
        is_installed = any(part in _INSTALLED for part in file.parts)
        if not is_installed and not file.is_relative_to(_STDLIB):
            found, is_outside = f"{file}:{line}", True
        elif top == package and not is_outside:
            found = f"{file}:{line}"
    return found
