"""Files that are there whole or not at all, alone or several at once."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from sidecar_core.errors import RefusedError, StorageError


def refuse_existing_file(path: Path, *, fix: str = "choose another name, or move it away") -> None:
    """Raises RefusedError when there is such a file already."""
    if path.exists() or path.is_symlink():
        raise RefusedError(f"{str(path)!r} exists", "a file that does not exist yet", fix)


def write_whole_files(files: Mapping[Path, Iterable[str]], *, replace: bool, fix: str | None = None) -> int:
    """Writes files under hidden names beside their own, then gives all of them their names.

    Args:
        files: the pieces of their text; folders are made when absent.
        replace: replace files that are there. Each is replaced in one step; when one of several cannot be, those before
            it are the new ones.
        fix: what to do when one cannot be written.

    Returns:
        Their size in bytes.

    Raises:
        RefusedError: a file exists, and `replace` does not say to replace it.
        StorageError: a file cannot be written; then none is there that was not there before.
    """
    size_bytes = 0
    with ExitStack() as undo:
        partials: dict[Path, Path] = {}
        for path, pieces in files.items():
            try:
                partial = _hidden_name(path)
                undo.callback(partial.unlink, missing_ok=True)
                size_bytes += _write(path, partial, pieces)
            except OSError as error:
                raise _unwritable(path, error, fix) from error
            partials[path] = partial
        if not replace:
            for path in partials:
                refuse_existing_file(path)
        made: list[Path] = []
        for path, partial in partials.items():
            is_new = not path.exists()
            try:
                _publish(partial, _real(path), replace=replace)
            except OSError as error:
                for each in made:
                    each.unlink(missing_ok=True)
                if isinstance(error, FileExistsError):  # made by somebody else since
                    refuse_existing_file(path)
                raise _unwritable(path, error, fix) from error
            if is_new:
                made.append(path)
    return size_bytes


def _hidden_name(path: Path) -> Path:
    """Returns a short name in the folder of the file, or of what it is a link to; makes the folder."""
    real = _real(path)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    return real.with_name(f".sidecar-{secrets.token_hex(8)}")


def _write(path: Path, partial: Path, pieces: Iterable[str]) -> int:
    if path.is_dir():  # found out before another of the files has got its name
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with partial.open("x", encoding="utf-8") as file:
        file.writelines(pieces)
    if path.exists():
        shutil.copymode(path, partial)
    return partial.stat().st_size


def _publish(partial: Path, path: Path, *, replace: bool) -> None:
    if not replace:
        try:
            path.hardlink_to(partial)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            refuse_existing_file(path)
        else:
            return
    partial.replace(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _unwritable(path: Path, error: OSError, fix: str | None) -> StorageError:
    return StorageError(f"{str(path)!r} cannot be written: {error.strerror}", None, fix)
