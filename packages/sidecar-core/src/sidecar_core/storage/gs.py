"""Datasets in Google Cloud Storage, or in any other file system that Arrow knows: best effort."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError
from sidecar_core.storage.base import STAGING_FOLDER, ObjectInfo, Storage, check_condition
from sidecar_core.storage.staging import (
    ProcessIdentity,
    clean_temporary_folder,
    free_bytes_at,
    temporary_folder,
)
from sidecar_core.storage.uris import split_bucket

if TYPE_CHECKING:
    from collections.abc import Generator

_COPY_BYTES = 8 * 2**20


class ArrowStorage(Storage):
    """A prefix of a file system that Arrow knows.

    Objects appear complete or not at all: they are written under a hidden name and moved. Arrow has no
    conditional writes, so conditions are looked at just before the move and two writers at the same
    moment can miss each other: `honours_conditions` is False. A version is size and time of change.

    Args:
        prefix: a normalised prefix.
        filesystem: Arrow's file system.
        root: what the prefix is called there.
    """

    def __init__(self, prefix: str, filesystem: fs.FileSystem, root: str) -> None:
        super().__init__(prefix)
        self._fs = filesystem
        self._root = root.rstrip("/")

    def list_objects(self, subprefix: str = "", *, missing_ok: bool = False) -> list[ObjectInfo]:
        folder = subprefix.rpartition("/")[0]
        base = f"{self._root}/{folder}".rstrip("/")
        with self._errors(subprefix, "list"):
            kind = self._fs.get_file_info(base).type
            if kind == fs.FileType.File:
                raise StorageError(f"{self.prefix}{folder}: a file where a folder of shards should be")
            if kind == fs.FileType.NotFound:
                if missing_ok:
                    return []
                raise StorageNotFoundError(f"{self.prefix}{folder}: no such folder", None, "check the prefix")
            found = self._fs.get_file_info(fs.FileSelector(base, recursive=True))
        infos = [self._info(entry) for entry in found if entry.type == fs.FileType.File]
        return sorted((i for i in infos if i.rel_path.startswith(subprefix)), key=lambda info: info.rel_path)

    def stat(self, rel_path: str) -> ObjectInfo | None:
        with self._errors(rel_path, "look at"):
            entry = self._fs.get_file_info(self._path(rel_path))
        return self._info(entry) if entry.type == fs.FileType.File else None

    def open_input(self, rel_path: str) -> pa.NativeFile:
        with self._errors(rel_path, "read"):
            return self._fs.open_input_file(self._path(rel_path))

    def read_bytes(self, rel_path: str) -> bytes:
        with self._errors(rel_path, "read"), self._fs.open_input_stream(self._path(rel_path)) as file:
            return file.read()

    def write_bytes(
        self, rel_path: str, data: bytes, *, if_absent: bool = False, if_match: ObjectInfo | None = None
    ) -> ObjectInfo:
        check_condition(if_absent, if_match)
        return self._publish(pa.BufferReader(data), rel_path, if_absent, if_match)

    def commit_file(self, local: Path, rel_path: str, *, replace: ObjectInfo | None = None) -> ObjectInfo:
        with self._errors(rel_path, "write"), pa.OSFile(str(local), "rb") as source:
            info = self._publish(source, rel_path, replace is None, replace)
        local.unlink()
        return info

    def delete(self, rel_path: str) -> None:
        with self._errors(rel_path, "remove"), suppress(FileNotFoundError):
            self._fs.delete_file(self._path(rel_path))

    def staging_dir(self, run_id: str) -> Path:
        return temporary_folder(run_id)

    def clean_staging(self) -> int:
        removed = clean_temporary_folder()
        for info in self.list_objects(f"{STAGING_FOLDER}/", missing_ok=True):
            owner = ProcessIdentity.parse(info.rel_path.rpartition("/")[2])
            if owner is not None and owner[0].is_dead():
                self.delete(info.rel_path)
                removed += 1
        return removed

    def free_bytes(self) -> int | None:
        return free_bytes_at(Path(tempfile.gettempdir()))

    def honours_conditions(self) -> bool:
        return False

    def _publish(
        self,
        source: pa.NativeFile,
        rel_path: str,
        if_absent: bool,  # noqa: FBT001
        if_match: ObjectInfo | None,
    ) -> ObjectInfo:
        """Writes under a hidden name, looks at the condition, and moves."""
        name = f"{ProcessIdentity.current().token}-{secrets.token_hex(4)}"
        hidden, path = self._path(f"{STAGING_FOLDER}/{name}"), self._path(rel_path)
        with self._errors(rel_path, "write"):
            try:
                self._fs.create_dir(hidden.rpartition("/")[0], recursive=True)
                with self._fs.open_output_stream(hidden) as sink:
                    while chunk := source.read(_COPY_BYTES):
                        sink.write(chunk)
                present = self.stat(rel_path)
                if (if_absent and present is not None) or (if_match is not None and present != if_match):
                    raise ConflictError(f"{self.uri(rel_path)}: not as it was when it was looked at: {present}")
                self._fs.create_dir(path.rpartition("/")[0], recursive=True)
                self._fs.move(hidden, path)
            except BaseException:
                with suppress(OSError):
                    self._fs.delete_file(hidden)
                raise
        written = self.stat(rel_path)
        if written is None:
            raise ConflictError(f"{self.uri(rel_path)}: removed by another writer")
        return written

    def _path(self, rel_path: str) -> str:
        if any(segment in {"", ".", ".."} for segment in rel_path.split("/")):
            raise StorageError(f"{self.prefix}: {rel_path!r} cannot be the path of an object")
        return f"{self._root}/{rel_path}"

    def _info(self, entry: fs.FileInfo) -> ObjectInfo:
        return ObjectInfo(entry.path[len(self._root) + 1 :], entry.size, None, entry.mtime_ns)

    @contextmanager
    def _errors(self, rel_path: str, action: str) -> Generator[None]:
        """Turns Arrow's errors into ones that name the object and what to check."""
        try:
            yield
        except StorageError:
            raise
        except FileNotFoundError as error:
            message = f"{self.uri(rel_path)}: cannot {action} it: no such object"
            raise StorageNotFoundError(message, None, "check the prefix") from error
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition(". Detail:")[0].strip()
            fix = "check the prefix, and that these credentials may do so"
            raise StorageError(f"{self.uri(rel_path)}: cannot {action} it: {reason}", None, fix) from error


class GcsStorage(ArrowStorage):
    """A prefix of a Google Cloud Storage bucket; credentials are Google's application default ones."""

    def __init__(self, prefix: str) -> None:
        try:
            from pyarrow.fs import GcsFileSystem
        except ImportError as error:
            raise StorageError(f"{prefix}: this build of pyarrow has no support for gs://") from error
        bucket, key = split_bucket(prefix)
        filesystem: Any = GcsFileSystem()
        super().__init__(prefix, filesystem, f"{bucket}/{key}")
