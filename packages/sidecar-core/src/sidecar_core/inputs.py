"""Which version of each file an output is made from, and whether that is still what is there."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sidecar_core.errors import ShardError, StorageNotFoundError
from sidecar_core.footer import InputVersion, parquet_footer_digest
from sidecar_core.storage import is_shard_path, open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.storage import ObjectInfo, Storage
    from sidecar_core.storage.base import ConnectionOptions

ABSENT_BYTES = -1
"""`InputVersion.size_bytes` of a sibling's shard that was not there."""


def find_file(location: str, options: ConnectionOptions | None = None) -> tuple[Storage, ObjectInfo] | None:
    """Returns the storage of a file's folder, and the file, when a location names one; None for a prefix.

    Args:
        location: a prefix, or the path or URI of one Parquet file; relative to the working directory.
        options: how to reach an object store.

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
    return InputVersion(
        kind=kind,
        uri=storage.uri(info.rel_path),
        size_bytes=info.size_bytes,
        etag=info.etag,
        mtime_ns=info.mtime_ns,
        parquet_footer_digest=parquet_footer_digest(storage, info.rel_path),
    )


def sibling_version(storage: Storage, rel_path: str) -> InputVersion:
    """Returns which version of a sibling's shard is there; `ABSENT_BYTES` for none."""
    info = storage.stat(rel_path)
    if info is None:
        return InputVersion(kind="sibling", uri=storage.uri(rel_path), size_bytes=ABSENT_BYTES)
    return file_version(storage, info, kind="sibling")


def source_version(location: str, options: ConnectionOptions | None = None) -> InputVersion:
    """Returns which version of a side input's source is there; of a prefix, a digest of its shards' listing.

    Raises:
        StorageNotFoundError: there is no such file, and no shard below such a prefix.
        ShardError: the file is no complete Parquet file.
        StorageError: it could not be read or listed.
    """
    found = find_file(location, options)
    if found is not None:
        return file_version(*found, kind="side_input")
    storage = open_storage(location, options)
    shards = storage.list_shards()
    if not shards:
        raise StorageNotFoundError(
            f"no shards at {storage.prefix}", "a Parquet file, or a prefix with *.parquet files below", None
        )
    listing = hashlib.blake2b(digest_size=16)
    for info in shards:
        listing.update(repr((info.rel_path, info.size_bytes, info.etag, info.mtime_ns)).encode())
    total = sum(info.size_bytes for info in shards)
    return InputVersion(kind="side_input", uri=storage.prefix, size_bytes=total, etag=listing.hexdigest())


def why_changed(made_from: InputVersion, storage: Storage, info: ObjectInfo | None) -> str:
    """Returns how a file differs from the version that an output was made from, or an empty string.

    Where only its ETag or time differs, the digest of its Parquet footer decides.

    Args:
        made_from: what the output's footer says.
        storage: where the file is.
        info: the file as a listing tells it, None when it is not there.
    """
    if info is None:
        return "" if made_from.size_bytes == ABSENT_BYTES else "is gone"
    if made_from.size_bytes == ABSENT_BYTES:
        return "was not there then"
    if made_from.size_bytes != info.size_bytes:
        return "changed"
    if (made_from.etag, made_from.mtime_ns) == (info.etag, info.mtime_ns):
        return ""
    try:
        same = made_from.parquet_footer_digest == parquet_footer_digest(storage, info.rel_path)
    except ShardError:
        return "changed"
    return "" if same else "changed"


def changed_source(made_from: Mapping[str, InputVersion], now: InputVersion) -> bool:
    """Returns whether a side input's source is another version than the one of its URI in `made_from`."""
    before = made_from.get(now.uri)
    if before is None or before.size_bytes != now.size_bytes:
        return True
    if (before.etag, before.mtime_ns) == (now.etag, now.mtime_ns):
        return False
    return now.parquet_footer_digest is None or before.parquet_footer_digest != now.parquet_footer_digest
