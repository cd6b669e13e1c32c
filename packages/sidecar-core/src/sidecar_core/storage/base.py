"""What every storage offers: a flat set of objects below one prefix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sidecar_core.errors import UsageError
from sidecar_core.storage.uris import check_subprefix, join

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

RUN_FOLDER = "_sidecar"
STAGING_FOLDER = RUN_FOLDER + "/tmp"  # noqa: S108 - below the prefix


class ConnectionOptions(Protocol):
    """How to reach an object store; each None means the usual AWS_* environment and its chain."""

    @property
    def region(self) -> str | None:
        """Region of the bucket."""

    @property
    def profile(self) -> str | None:
        """Name of a profile in the shared AWS config."""

    @property
    def endpoint_url(self) -> str | None:
        """URL of an S3-compatible server."""


@dataclass(frozen=True)
class ObjectInfo:
    """One version of an object, as a listing or `Storage.stat` tells it; both tell the same.

    Attributes:
        rel_path: path below the storage's prefix.
        size_bytes: its size in bytes.
        etag: what the object store calls this version, without quotes; None for local files.
        mtime_ns: time of the last change in ns since 1970, None where it is not known; whole seconds on S3.
    """

    rel_path: str
    size_bytes: int
    etag: str | None
    mtime_ns: int | None


def is_shard_path(rel_path: str) -> bool:
    """Returns whether a path below a dataset's prefix is that of a shard.

    A shard ends with `.parquet`, and no segment of its path begins with `_` or `.`.
    """
    return rel_path.endswith(".parquet") and not any(segment[:1] in {"_", "."} for segment in rel_path.split("/"))


class Storage(ABC):
    """The objects below one prefix. Safe to use from several threads.

    Args:
        prefix: a normalised prefix, ending with one slash.

    Every method raises StorageError, naming the URI and what to check, when the store fails.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def uri(self, rel_path: str) -> str:
        """Returns the full URI or path of an object, as messages show it."""
        return join(self.prefix, rel_path)

    @abstractmethod
    def list_objects(self, subprefix: str = "", *, missing_ok: bool = False) -> list[ObjectInfo]:
        """Lists every object whose URI begins with `prefix + subprefix`, at any depth, sorted by path.

        Args:
            subprefix: compared as text, as object stores do: `2024-1` finds `2024-11/a.parquet` too.
            missing_ok: return an empty list when there is nothing, rather than raise.

        Raises:
            StorageNotFoundError: the prefix does not exist (in an object store: holds no object).
        """

    def list_shards(self, subprefix: str = "", *, missing_ok: bool = False) -> list[ObjectInfo]:
        """Lists the shards of the dataset below this prefix, sorted by path.

        Shards end with `.parquet`, and no segment of their paths begins with `_` or `.`. Empty and damaged files are
        listed too: whoever opens them reports them by name.

        Raises:
            UsageError: no path can begin with `subprefix`, such as an absolute one.
            StorageNotFoundError: the prefix does not exist, unless `missing_ok`.
        """
        check_subprefix(subprefix, self.prefix)
        return [info for info in self.list_objects(subprefix, missing_ok=missing_ok) if is_shard_path(info.rel_path)]

    @abstractmethod
    def stat(self, rel_path: str) -> ObjectInfo | None:
        """Returns the object's present version, or None when there is no such object."""

    @abstractmethod
    def open_input(self, rel_path: str) -> pa.NativeFile:
        """Opens an object for random access; the caller closes it.

        Raises:
            StorageNotFoundError: there is no such object.
        """

    @abstractmethod
    def read_bytes(self, rel_path: str) -> bytes:
        """Returns the whole object. Raises StorageNotFoundError when there is none."""

    @abstractmethod
    def write_bytes(
        self, rel_path: str, data: bytes, *, if_absent: bool = False, if_match: ObjectInfo | None = None
    ) -> ObjectInfo:
        """Writes a small object at once: a reader sees the old content or the new, never a part.

        Args:
            rel_path: path below the prefix.
            data: the content.
            if_absent: only when there is no such object yet.
            if_match: only when the object is still this version.

        Raises:
            ConflictError: the condition does not hold; nothing was written.
        """

    @abstractmethod
    def commit_file(self, local: Path, rel_path: str, *, replace: ObjectInfo | None = None) -> ObjectInfo:
        """Publishes a finished local file under its final name, complete or not at all; the local file is gone then.

        Args:
            local: a complete file, best in `staging_dir`.
            rel_path: path below the prefix.
            replace: the version to replace; None when there must be no such object yet.

        Raises:
            ConflictError: the object is not in that state; nothing was written.
        """

    @abstractmethod
    def delete(self, rel_path: str) -> None:
        """Removes an object; one that is gone already is fine."""

    @abstractmethod
    def staging_dir(self, run_id: str) -> Path:
        """Returns a local folder of this process and run, made when absent, in which shards are written."""

    @abstractmethod
    def clean_staging(self) -> int:
        """Removes what processes of this host left that are no longer alive; returns how many folders and files."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Returns the free bytes of the disk that shards are written to first, or None when that is not known."""

    @abstractmethod
    def honours_conditions(self) -> bool:
        """Returns whether `if_absent`, `if_match` and `replace` hold against other writers, not only by looking first.

        An object store is asked by writing and removing one small object.
        """


def check_condition(if_absent: bool, if_match: ObjectInfo | None) -> None:  # noqa: FBT001 - the caller's own names
    """Raises UsageError for two conditions that cannot both hold."""
    if if_absent and if_match is not None:
        raise UsageError("if_absent and if_match exclude each other")
