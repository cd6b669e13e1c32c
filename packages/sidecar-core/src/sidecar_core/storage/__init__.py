"""Where datasets lie: local folders and object stores behind one contract."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from sidecar_core.storage.base import RUN_FOLDER, ObjectInfo, Storage, is_shard_path
from sidecar_core.storage.local import LocalStorage
from sidecar_core.storage.staging import ProcessIdentity
from sidecar_core.storage.uris import check_subprefix, join, normalise_prefix, prefixes_overlap, scheme_of

if TYPE_CHECKING:
    from sidecar_core.storage.base import ConnectionOptions

__all__ = [
    "RUN_FOLDER",
    "LocalStorage",
    "ObjectInfo",
    "ProcessIdentity",
    "Storage",
    "check_subprefix",
    "is_shard_path",
    "join",
    "normalise_prefix",
    "open_storage",
    "prefixes_overlap",
    "shared_storage",
]

_SHARED_STORAGES = 64


def open_storage(prefix: str, options: ConnectionOptions | None = None) -> Storage:
    """Returns the storage of a prefix, without touching it.

    Args:
        prefix: a local path, `file://…`, `s3://bucket/…` or `gs://bucket/…`; a relative path starts from the working
            directory, and `~` stands for the home folder.
        options: how to reach an object store, as `StorageOptions` says it.

    Raises:
        UsageError: the prefix is not one.
        StorageError: the packages for that kind of storage are not installed.
    """
    prefix = normalise_prefix(prefix)
    scheme = scheme_of(prefix)
    if scheme == "s3":
        from sidecar_core.storage.s3 import S3Storage

        return S3Storage(prefix, options)
    if scheme == "gs":
        from sidecar_core.storage.gs import GcsStorage

        return GcsStorage(prefix)
    return LocalStorage(prefix)


def shared_storage(prefix: str, options: ConnectionOptions | None = None) -> Storage:
    """Returns the same storage as the last call for that prefix in this process, so that connections are kept.

    Args:
        prefix: as for `open_storage`, which it raises the errors of.
        options: how to reach an object store; hashable, as `sidecar_core.dataset.StorageOptions` is.
    """
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    return _shared_storage(prefix, options, environment)


@lru_cache(maxsize=_SHARED_STORAGES)
def _shared_storage(prefix: str, options: ConnectionOptions | None, environment: object) -> Storage:
    del environment  # another one may mean another store
    return open_storage(prefix, options)
