"""A folder of finished things that are dear to make, shared by all processes of a machine.

Each thing is a folder below the cache folder, named after what it is made of. It is made in a folder of its own and
renamed when it is complete. Two kinds of locks, both held by open files, so that they end with their process:

- `<name>.lock`, exclusive: who makes or removes the thing. Others that want it wait.
- `<name>/in-use`, shared: everyone who has it open. It is removed only when nobody does.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import logging
import os
import re
import shutil
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar_core.errors import StorageError, UsageError
from sidecar_core.storage.staging import free_bytes_at, remove_dead_folders, staging_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

DIR_VARIABLE = "SIDECAR_CACHE_DIR"
MAX_VARIABLE = "SIDECAR_CACHE_MAX_GIB"
DEFAULT_MAX_GIB = 100.0

_GIB = 2**30
_IN_USE = "in-use"
_UNFINISHED = "tmp"
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_numbers = itertools.count()
_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class CacheOptions:
    """Where the cache is and how large it may get.

    Attributes:
        folder: default `SIDECAR_CACHE_DIR`, else `sidecar` in the user's cache folder.
        max_bytes: default `SIDECAR_CACHE_MAX_GIB`, else 100 GiB. What is in use stays, whatever its size.
    """

    folder: Path
    max_bytes: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> CacheOptions:
        """Returns the options that environment variables give.

        Raises:
            UsageError: `SIDECAR_CACHE_MAX_GIB` is no number of at least 0.
        """
        folder = environment.get(DIR_VARIABLE)
        text = environment.get(MAX_VARIABLE) or str(DEFAULT_MAX_GIB)
        try:
            max_gib = float(text)
            if not 0 <= max_gib < float("inf"):
                raise ValueError
        except ValueError:
            raise UsageError(f"{MAX_VARIABLE} is {text!r}", "a number of GiB, 0 or more") from None
        return cls(Path(folder).absolute() if folder else _user_cache(environment), int(max_gib * _GIB))


class InUse:
    """Says to other processes that a thing is in use, until it is closed or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Gives the thing free; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class Cache:
    """The things of one kind.

    Args:
        options: where the cache is.
        kind: name of the folder below it.
    """

    def __init__(self, options: CacheOptions, kind: str) -> None:
        self.folder = options.folder / kind
        self._max_bytes = options.max_bytes

    def get(
        self, name: str, *, make: Callable[[Path], None], is_whole: Callable[[Path], bool], size: Callable[[], int]
    ) -> tuple[Path, InUse]:
        """Returns the folder of a thing, made when it is not there or damaged; it stays while the second is open.

        One process makes it; those that ask meanwhile wait. When it fails or is killed, the next one begins anew.

        Args:
            name: what the thing is made of, as `<16 hex digits>-<16 hex digits>`: what it is, and which version.
                When a version is made, those of other versions that nobody uses are removed.
            make: makes it in an empty folder.
            is_whole: whether a folder holds the complete thing.
            size: about how many bytes are needed to make it.

        Raises:
            StorageError: the cache folder cannot be written, has no locks, or no room.
        """
        final = self.folder / name
        try:
            held = self._use_whole(name, is_whole)
            if held is not None:
                return final, held
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._making(name):
                held = self._use_whole(name, is_whole)
                if held is None:
                    self._discard(final)
                    self._make(name, make, size)
                    held = self._use_whole(name, is_whole)
        except StorageError:
            raise
        except OSError as error:
            raise self._storage_error(error) from error
        if held is None:
            raise StorageError(f"{final} is damaged as soon as it is made", None, f"check that disk, or {_ELSEWHERE}")
        self.remove_unused(besides=name)
        return final, held

    def remove_unused(self, *, besides: str = "", need_bytes: int = 0) -> None:
        """Removes things that nobody uses: older versions of `besides`, and the ones used longest ago beyond the cap.

        Args:
            besides: a name that stays.
            need_bytes: remove more, until the disk has that much room.
        """
        remove_dead_folders(self.folder / _UNFINISHED)
        found = sorted(self._things())
        total = sum(size for _, _, size in found)
        for _, name, size in found:
            if name == besides:
                continue
            old = besides != "" and name.partition("-")[0] == besides.partition("-")[0]
            full = total > self._max_bytes or (need_bytes and free_bytes_at(self.folder) < need_bytes)
            if (old or full) and self._remove(name):
                total -= size
        if total > self._max_bytes:
            message = "%s holds %.1f GiB that are in use, more than the %.1f GiB of %s"
            _logger.info(message, self.folder, total / _GIB, self._max_bytes / _GIB, MAX_VARIABLE)

    def _make(self, name: str, make: Callable[[Path], None], size: Callable[[], int]) -> None:
        need_bytes = size()
        if free_bytes_at(self.folder) < need_bytes:
            self.remove_unused(need_bytes=need_bytes)
        free_bytes = free_bytes_at(self.folder)
        if free_bytes < need_bytes:
            needs = f"about {need_bytes / _GIB:.2f} GiB are needed, and {free_bytes / _GIB:.2f} GiB are free"
            raise StorageError(f"{self.folder}: {needs}", None, f"free space on that disk, or {_ELSEWHERE}")
        unfinished = self._temporary(name)
        try:
            unfinished.mkdir()
            make(unfinished)
            (unfinished / _IN_USE).touch()
            unfinished.rename(self.folder / name)
            _sync_folder(self.folder)
        finally:
            shutil.rmtree(unfinished.parent, ignore_errors=True)

    def _use_whole(self, name: str, is_whole: Callable[[Path], bool]) -> InUse | None:
        """Takes the thing into use when it is there and complete."""
        held = self._use(name)
        if held is not None and not is_whole(self.folder / name):
            held.close()
            return None
        return held

    def _use(self, name: str) -> InUse | None:
        descriptor = _locked(self.folder / name / _IN_USE, os.O_RDWR, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if descriptor is None:
            return None
        os.utime(descriptor)  # so that the ones used longest ago are known
        return InUse(descriptor)

    @contextmanager
    def _making(self, name: str, *, wait: bool = True) -> Generator[bool]:
        """Holds the lock for making or removing a thing; gives False when it does not wait and another has it."""
        path = self.folder / f"{name}.lock"
        descriptor = _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX | fcntl.LOCK_NB)
        while descriptor is None and wait:
            _logger.info("waiting for another process that makes %s", self.folder / name)
            descriptor = _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _remove(self, name: str) -> bool:
        """Removes a thing unless somebody uses or makes it."""
        with self._making(name, wait=False) as ours:
            if not ours:
                return False
            in_use = self.folder / name / _IN_USE
            descriptor = _locked(in_use, os.O_RDWR, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if descriptor is None and in_use.exists():
                return False
            try:
                self._discard(self.folder / name)
                (self.folder / f"{name}.lock").unlink(missing_ok=True)
            finally:
                if descriptor is not None:
                    os.close(descriptor)
            _logger.info("removed %s, which was not in use", self.folder / name)
        return True

    def _discard(self, path: Path) -> None:
        """Removes a folder at once under its name, then its files; whoever has them mapped keeps them."""
        if not path.exists():
            return
        aside = self._temporary(path.name)
        with suppress(FileNotFoundError):
            path.rename(aside)
        shutil.rmtree(aside.parent, ignore_errors=True)

    def _temporary(self, name: str) -> Path:
        """Returns a path below a folder of this process, which others remove when it has ended."""
        return staging_folder(self.folder / _UNFINISHED, f"{next(_numbers)}") / name

    def _things(self) -> list[tuple[int, str, int]]:
        """Returns when each thing was used last, its name and its size; its files may go away meanwhile."""
        things: list[tuple[int, str, int]] = []
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if not _NAME.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
                    continue
                used = size = 0
                with suppress(FileNotFoundError):
                    for path in Path(entry.path).iterdir():
                        found = path.stat()
                        size += found.st_size
                        used = found.st_mtime_ns if path.name == _IN_USE else used
                things.append((used, entry.name, size))
        return things

    def _storage_error(self, error: OSError) -> StorageError:
        reason = error.strerror or str(error)
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            fix = f"free space on that disk, or {_ELSEWHERE}"
        elif error.errno == errno.EFBIG:
            fix = f"raise the limit on the size of files (ulimit -f), or {_ELSEWHERE}"
        elif error.errno in {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}:
            fix = f"its file system has no locks: {_ELSEWHERE}"
        else:
            fix = _ELSEWHERE
        return StorageError(f"{self.folder}: cannot make or open what is kept there: {reason}", None, fix)


_ELSEWHERE = f"set {DIR_VARIABLE} to a folder on a local disk that can be written"


def _locked(path: Path, flags: int, operation: int) -> int | None:
    """Opens and locks a file; None when another has the lock and this does not wait, or the file is not there."""
    while True:
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, operation)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except (BlockingIOError, FileNotFoundError) as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            continue
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was replaced before the lock was ours: that lock protects nothing


def _user_cache(environment: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sidecar"
    given = environment.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "sidecar"


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)
