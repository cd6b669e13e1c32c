"""Datasets on a local or mounted file system."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError
from sidecar_core.storage.base import STAGING_FOLDER, ObjectInfo, Storage, check_condition
from sidecar_core.storage.staging import ProcessIdentity, free_bytes_at, remove_dead_folders, staging_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_TEMPORARY = ".sidecar-tmp-"
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_FIXES = {
    errno.ENOSPC: "free space on that disk, or choose another prefix",
    errno.EDQUOT: "free space within the quota, or choose another prefix",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or choose another prefix",
    errno.EROFS: "choose a prefix on a disk that can be written",
    errno.EACCES: "give this user access, or choose another prefix",
    errno.EPERM: "give this user access, or choose another prefix",
    errno.ENAMETOOLONG: "choose a prefix with shorter names",
}
_temporary_numbers = itertools.count()


class LocalStorage(Storage):
    """A folder. A file's version is its size and the time of its last change in ns.

    Files appear under their final name by a hard link (which fails when the name is taken) or by a
    rename, and are on the disk before they do. Conditions on the present version hold among all
    processes that use this class: they take a lock on the folder. Where a file system has neither
    hard links nor locks, the check and the rename are two steps.
    """

    def list_objects(self, subprefix: str = "", *, missing_ok: bool = False) -> list[ObjectInfo]:
        folder, _, start = subprefix.rpartition("/")
        root = Path(self.prefix, folder)
        try:
            is_folder, is_there = root.is_dir(), root.exists()
        except OSError as error:
            raise _storage_error(root, "list", error) from error
        if not is_folder:
            if is_there:
                raise StorageError(f"{root}: a file where a folder of shards should be", None, "give its folder")
            if missing_ok:
                return []
            raise StorageNotFoundError(f"{root}: no such folder", None, "check the prefix")
        top = f"{folder}/" if folder else ""
        found = self._walk(str(root), top, ())
        return sorted((info for info in found if info.rel_path.startswith(top + start)), key=lambda info: info.rel_path)

    def stat(self, rel_path: str) -> ObjectInfo | None:
        path = self._path(rel_path)
        try:
            if not path.is_file():
                return None
            return _info(rel_path, path.stat())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _storage_error(path, "look at", error) from error

    def open_input(self, rel_path: str) -> pa.NativeFile:
        path = self._path(rel_path)
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            return pa.OSFile(str(path), "rb")
        except OSError as error:
            raise _storage_error(path, "read", error) from error

    def read_bytes(self, rel_path: str) -> bytes:
        path = self._path(rel_path)
        try:
            return path.read_bytes()
        except OSError as error:
            raise _storage_error(path, "read", error) from error

    def write_bytes(
        self, rel_path: str, data: bytes, *, if_absent: bool = False, if_match: ObjectInfo | None = None
    ) -> ObjectInfo:
        check_condition(if_absent, if_match)
        path = self._path(rel_path)
        try:
            _make_folder(path.parent)
            with _temporary_beside(path) as temporary:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if if_absent:
                    _publish_new(temporary, path)
                else:
                    _publish_over(temporary, path, if_match)
                return _info(rel_path, path.stat())
        except StorageError:
            raise
        except OSError as error:
            raise _storage_error(path, "write", error) from error

    def commit_file(self, local: Path, rel_path: str, *, replace: ObjectInfo | None = None) -> ObjectInfo:
        path = self._path(rel_path)
        try:
            _make_folder(path.parent)
            _sync(local)
            if local.stat().st_dev == path.parent.stat().st_dev:
                return self._publish(local, path, rel_path, replace)
            with _temporary_beside(path) as temporary:
                shutil.copyfile(local, temporary)
                _sync(temporary)
                info = self._publish(temporary, path, rel_path, replace)
            local.unlink()
            return info
        except StorageError:
            raise
        except OSError as error:
            raise _storage_error(path, "write", error) from error

    def delete(self, rel_path: str) -> None:
        path = self._path(rel_path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _storage_error(path, "remove", error) from error

    def staging_dir(self, run_id: str) -> Path:
        parent = Path(self.prefix, STAGING_FOLDER)
        try:
            return staging_folder(parent, run_id)
        except OSError as error:
            raise _storage_error(parent, "make a folder in", error) from error

    def clean_staging(self) -> int:
        removed = remove_dead_folders(Path(self.prefix, STAGING_FOLDER))
        for folder, _, names in os.walk(self.prefix):
            for name in names:
                owner = ProcessIdentity.parse(name.removeprefix(_TEMPORARY)) if name.startswith(_TEMPORARY) else None
                if owner is not None and owner[0].is_dead():
                    Path(folder, name).unlink(missing_ok=True)
                    removed += 1
        return removed

    def free_bytes(self) -> int | None:
        try:
            return free_bytes_at(Path(self.prefix))
        except OSError as error:
            raise _storage_error(Path(self.prefix), "ask for free space at", error) from error

    def honours_conditions(self) -> bool:
        return True

    def _path(self, rel_path: str) -> Path:
        segments = rel_path.split("/")
        if "\0" in rel_path or any(segment in {"", ".", ".."} for segment in segments):
            message = f"{self.prefix}: {rel_path!r} cannot be the path of a local file"
            raise StorageError(message, "segments that are not empty, '.' or '..', joined by '/'")
        return Path(self.prefix, rel_path)

    def _publish(self, source: Path, path: Path, rel_path: str, replace: ObjectInfo | None) -> ObjectInfo:
        if replace is None:
            _publish_new(source, path)
        else:
            _publish_over(source, path, replace)
        return _info(rel_path, path.stat())

    def _walk(self, folder: str, rel_folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[ObjectInfo]:
        """Yields all files below a folder; a symlink to a folder above it is not followed again."""
        try:
            here = os.stat(folder)  # noqa: PTH116 - a hundred thousand paths in a second
            if (here.st_dev, here.st_ino) in above:
                return
            with os.scandir(folder) as entries:
                found = list(entries)
        except FileNotFoundError:
            return  # removed since its parent was listed
        except OSError as error:
            raise _storage_error(Path(folder), "list", error) from error
        for entry in found:
            rel_path = rel_folder + entry.name
            if _is(entry.is_dir):
                yield from self._walk(entry.path, f"{rel_path}/", (*above, (here.st_dev, here.st_ino)))
            elif not _is_utf8(rel_path):
                if entry.name.endswith(".parquet"):
                    raise _unnameable(entry.path)
            elif (is_file := _is(entry.is_file)) or entry.is_symlink():
                with suppress(FileNotFoundError):
                    # a dangling link is listed, so that whoever opens it reports it
                    yield _info(rel_path, entry.stat(follow_symlinks=is_file))


def _info(rel_path: str, found: os.stat_result) -> ObjectInfo:
    return ObjectInfo(rel_path, found.st_size, None, found.st_mtime_ns)


def _is(question: Callable[[], bool]) -> bool:
    """Asks what a directory entry is; a link that leads back to itself is nothing."""
    try:
        return question()
    except OSError:
        return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unnameable(path: str) -> StorageError:
    """Returns what is wrong with the path of a shard: its bytes, or the encoding in which this process reads it."""
    name = os.fsencode(path)
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return StorageError(f"{name!r}: a shard whose name is not UTF-8", None, "rename it")
    encoding = sys.getfilesystemencoding()
    message = f"{text!r}: a shard whose name cannot be read: the encoding of this locale is {encoding}, not UTF-8"
    return StorageError(message, None, "PYTHONUTF8=1 in the environment, or a locale of UTF-8")


@contextmanager
def _temporary_beside(path: Path) -> Generator[Path]:
    """Gives a hidden name in the folder of `path`, and removes the file of that name at the end."""
    name = f"{_TEMPORARY}{ProcessIdentity.current().token}-{next(_temporary_numbers)}"
    temporary = path.with_name(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _publish_new(source: Path, path: Path) -> None:
    """Gives the file its final name, which must be free."""
    try:
        os.link(source, path)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        with _folder_lock(path.parent):
            if os.path.lexists(path):
                raise _exists(path) from error
            source.rename(path)
    else:
        source.unlink()
    _sync(path.parent)


def _publish_over(source: Path, path: Path, expected: ObjectInfo | None) -> None:
    """Gives the file its final name, in the place of the version that is expected there, or of any."""
    with _folder_lock(path.parent):
        try:
            present = path.stat()
        except FileNotFoundError:
            present = None
        if expected is not None:
            _check_version(path, present, expected)
        changed_ns = source.stat().st_mtime_ns
        if present is not None and changed_ns <= present.st_mtime_ns:
            # clocks tick in milliseconds: two versions must never look the same
            os.utime(source, ns=(changed_ns, present.st_mtime_ns + 1000))
        source.replace(path)
    _sync(path.parent)


def _check_version(path: Path, present: os.stat_result | None, expected: ObjectInfo) -> None:
    if present is None:
        raise ConflictError(f"{path}: gone since it was looked at", None, "plan the run again")
    if (present.st_size, present.st_mtime_ns) != (expected.size_bytes, expected.mtime_ns):
        message = (
            f"{path}: changed since it was looked at: {expected.size_bytes} bytes of {expected.mtime_ns} ns then, "
            f"{present.st_size} bytes of {present.st_mtime_ns} ns now"
        )
        raise ConflictError(message, None, "another writer is at work: see lease.json, then plan the run again")


def _exists(path: Path) -> ConflictError:
    message = f"{path}: exists already, though it was not there when it was looked at"
    return ConflictError(message, None, "another writer is at work: see lease.json, then plan the run again")


@contextmanager
def _folder_lock(folder: Path) -> Generator[None]:
    """Holds a lock on the folder against other threads and processes, where the file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _make_folder(folder: Path) -> None:
    """Makes a folder and those above it, and has each on the disk before what is put into it."""
    missing = list(itertools.takewhile(lambda above: not above.exists(), (folder, *folder.parents)))
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync(made.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not path.is_dir() or error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOSYS}:
            raise  # some file systems cannot sync a folder; a file's content they must
    finally:
        os.close(handle)


def _storage_error(path: Path, action: str, error: OSError) -> StorageError:
    """Returns what to tell: the path, what failed, and what to check."""
    # Arrow's errors have a text that names the path once more
    reason = os.strerror(error.errno) if error.errno else error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return StorageNotFoundError(f"{path}: cannot {action} it: {reason}", None, "check the prefix")
    return StorageError(f"{path}: cannot {action} it: {reason}", None, _FIXES.get(error.errno or 0))
