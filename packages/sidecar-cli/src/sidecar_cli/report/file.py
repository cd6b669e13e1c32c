"""Where a report goes, and how it gets there: one file, whole or not at all."""

from __future__ import annotations

import shlex
import webbrowser
from collections.abc import Iterable
from pathlib import Path

from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.storage import RUN_FOLDER
from sidecar_core.storage.uris import scheme_of

from sidecar_cli.report.page import MARK
from sidecar_cli.whole_files import write_whole_files

_ENDINGS = (".html", ".htm")


def default_file(output_prefix: str, *, made_by_sidecar: bool, protected: Iterable[str | None]) -> Path:
    """Returns the file that a report is written to when the command line names none.

    It is `_sidecar/report.html` in a local output that sidecar made; a main dataset is never written, and an object
    store cannot be opened by a browser, so for those it lies in the working directory.

    Args:
        output_prefix: what is reported on, normalised.
        made_by_sidecar: whether it is an output, and no main dataset.
        protected: as for `given_file`, which it raises the errors of.
    """
    if made_by_sidecar and scheme_of(output_prefix) == "file":
        return Path(output_prefix) / RUN_FOLDER / "report.html"
    name = output_prefix.rstrip("/").rsplit("/", 1)[-1] or "dataset"
    return _checked(Path.cwd() / f"sidecar-report-{name}.html", protected)


def given_file(given: str, *, protected: Iterable[str | None]) -> Path:
    """Returns the file that the command line names.

    Args:
        given: what it says.
        protected: prefixes of datasets in which no file may appear; None is skipped.

    Raises:
        UsageError: it is a folder, not local, or does not end with `.html`.
        RefusedError: it lies in a protected dataset, or is a file that no report wrote.
    """
    if "://" in given:
        raise UsageError(f"-o {given!r}: must be a local file", fix="-o report.html")
    path = Path(given).absolute()
    if path.is_dir():
        inside = f"{given.rstrip('/')}/report.html"
        raise UsageError(f"-o {given!r} is a folder", fix=f"-o {shlex.quote(inside)}")
    if path.suffix.lower() not in _ENDINGS:
        raise UsageError(f"-o {given!r} does not end with .html", fix=f"-o {shlex.quote(f'{given}.html')}")
    return _checked(path, protected)


def write_file(path: Path, pieces: Iterable[str]) -> int:
    """Writes a page; returns its size in bytes. A file that is there is replaced in one step.

    Raises:
        StorageError: it cannot be written.
    """
    return write_whole_files({path: pieces}, replace=True, fix="-o FILE elsewhere")


def open_in_browser(path: Path) -> bool:
    """Opens a page in the browser of this machine; returns whether there is one."""
    return webbrowser.open(path.resolve().as_uri())


def _checked(path: Path, protected: Iterable[str | None]) -> Path:
    for prefix in protected:
        if prefix is None or scheme_of(prefix) != "file":
            continue
        if path.resolve().is_relative_to(Path(prefix).resolve()):
            raise RefusedError(
                f"{str(path)!r} lies in the dataset at {prefix}", "a file outside of it", "-o report.html elsewhere"
            )
    if path.exists() and not _is_report(path):
        raise RefusedError(f"{str(path)!r} is there, and no report wrote it", None, "-o ANOTHER.html")
    return path


def _is_report(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return MARK in file.read(200)
    except OSError:
        return False
