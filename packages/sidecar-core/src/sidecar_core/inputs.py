"""Which version of each file an output is made from, and whether that is still what is there."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from sidecar_core.errors import ShardError, StorageNotFoundError
from sidecar_core.footer import InputVersion, parquet_footer_digest
from sidecar_core.storage import is_shard_path, open_storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sidecar_core.storage import ObjectInfo, Storage
    from sidecar_core.storage.base import ConnectionOptions

ABSENT_BYTES = -1
"""`InputVersion.size_bytes` of a sibling's shard that was not there."""

_PARALLEL_READS = 32


def find_file(location: str, options: ConnectionOptions | None = None) -> tuple[Storage, ObjectInfo] | None:
    """Returns the storage of a file's folder, and the file, when a location names one; None for a prefix.

    Args:
        location: a prefix, or the path or URI of one Parquet file; relative to the working directory.
        options: how to reach an object store, as `StorageOptions` says it.

    Raises:
        StorageError: the store failed.
    """
    storage = open_storage(location, options)
    folder, _, name = storage.prefix.rstrip("/").rpartition("/")
    if location.endswith("/") or not is_shard_path(name):  # a folder may have such a name too
        return None
    beside = open_storage(f"{folder}/", options)
    info = beside.stat(name)
    return (beside, info) if info is not None else None


def file_version(storage: Storage, info: ObjectInfo, *, kind: str) -> InputVersion:
    """Returns which version of a Parquet file this is; reads its footer's bytes.

    Raises:
        ShardError: it is no complete Parquet file.
    """
    listed = _listed_file(storage, info, kind)
    return replace(listed, parquet_footer_digest=parquet_footer_digest(storage, info.rel_path))


def sibling_version(storage: Storage, rel_path: str) -> InputVersion:
    """Returns which version of a sibling's shard is there; `ABSENT_BYTES` for none."""
    info = storage.stat(rel_path)
    if info is None:
        return InputVersion(kind="sibling", uri=storage.uri(rel_path), size_bytes=ABSENT_BYTES)
    return file_version(storage, info, kind="sibling")


def source_version(location: str, options: ConnectionOptions | None = None) -> InputVersion:
    """Returns which version of a side input's source is there; reads the footer of each of its files.

    Of a prefix the ETag is a digest of its shards' listing, and `parquet_footer_digest` one of their paths, sizes
    and footers.

    Raises:
        StorageNotFoundError: there is no such file, and no shard below such a prefix.
        ShardError: files are no complete Parquet files; names all of them.
        StorageError: it could not be read or listed.
    """
    found = find_file(location, options)
    if found is not None:
        return file_version(*found, kind="side_input")
    storage = open_storage(location, options)
    shards = _shards_of(storage)
    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="sidecar-source") as readers:
        found_footers = list(readers.map(lambda info: _footer_or_error(storage, info.rel_path), shards))
    footers = [footer for footer in found_footers if isinstance(footer, str)]
    if errors := [error for error in found_footers if isinstance(error, ShardError)]:
        raise ShardError("\n".join(error.message for error in errors), errors[0].expected, errors[0].fix) from errors[0]
    content = [(info.rel_path, info.size_bytes, footer) for info, footer in zip(shards, footers, strict=True)]
    return replace(_listed(storage, shards), parquet_footer_digest=_digest(content))


def _footer_or_error(storage: Storage, rel_path: str) -> str | ShardError:
    try:
        return parquet_footer_digest(storage, rel_path)
    except ShardError as error:
        return error


def is_as_planned(planned: InputVersion, options: ConnectionOptions | None = None) -> bool:
    """Returns whether a source is still the version that `source_version` returned.

    Footers are read only where the listing differs.

    Raises:
        StorageError: as `source_version`.
        ShardError: likewise.
    """
    found = find_file(planned.uri, options)
    if found is not None:
        return not why_changed(planned, *found)
    storage = open_storage(planned.uri, options)
    if same_version(planned, _listed(storage, _shards_of(storage))):
        return True
    return same_version(planned, source_version(planned.uri, options))


def same_version(made_from: InputVersion, now: InputVersion) -> bool:
    """Returns whether two versions are of the same content, wherever each of them is.

    At one place, equal size, ETag and time are enough. Else the digest of the Parquet footer decides.
    """
    if made_from.size_bytes != now.size_bytes:
        return False
    if made_from.size_bytes == ABSENT_BYTES:
        return True
    if (made_from.uri, made_from.etag, made_from.mtime_ns) == (now.uri, now.etag, now.mtime_ns):
        return True
    digest = now.parquet_footer_digest
    return digest is not None and digest == made_from.parquet_footer_digest


def why_changed(made_from: InputVersion, storage: Storage, info: ObjectInfo | None) -> str:
    """Returns how a file differs from the version that an output was made from, or an empty string.

    As `same_version`, but reads the file's footer only where that decides.

    Args:
        made_from: what the output's footer says.
        storage: where the file is.
        info: the file as a listing tells it, None when it is not there.
    """
    if info is None:
        return "" if made_from.size_bytes == ABSENT_BYTES else "is gone"
    if made_from.size_bytes == ABSENT_BYTES:
        return "was not there then"
    now = _listed_file(storage, info, made_from.kind)
    if same_version(made_from, now):
        return ""
    changed = "changed" if now.uri == made_from.uri else f"is another one than {made_from.uri}"
    if made_from.size_bytes != now.size_bytes:
        return changed
    try:
        return "" if same_version(made_from, file_version(storage, info, kind=made_from.kind)) else changed
    except ShardError:
        return changed


def _listed_file(storage: Storage, info: ObjectInfo, kind: str) -> InputVersion:
    """Returns what a listing tells of a file's version."""
    return InputVersion(kind, storage.uri(info.rel_path), info.size_bytes, info.etag, info.mtime_ns)


def _shards_of(storage: Storage) -> list[ObjectInfo]:
    shards = storage.list_shards()
    if not shards:
        raise StorageNotFoundError(
            f"no shards at {storage.prefix}", "a Parquet file, or a prefix with *.parquet files below", None
        )
    return shards


def _listed(storage: Storage, shards: Sequence[ObjectInfo]) -> InputVersion:
    """Returns what a listing tells of a prefix's version."""
    listing = [(info.rel_path, info.size_bytes, info.etag, info.mtime_ns) for info in shards]
    total = sum(info.size_bytes for info in shards)
    return InputVersion(kind="side_input", uri=storage.prefix, size_bytes=total, etag=_digest(listing))


def _digest(parts: Iterable[object]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(repr(part).encode())
    return digest.hexdigest()
