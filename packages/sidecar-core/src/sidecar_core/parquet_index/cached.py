"""Indexes in this machine's cache: found by what they are made from, made when they are not there."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import weakref
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError
from sidecar_core.parquet_index.build import BuildOptions, build_index, estimated_bytes
from sidecar_core.parquet_index.cache import Cache, CacheOptions
from sidecar_core.parquet_index.description import FORMAT, DamagedIndexError
from sidecar_core.parquet_index.index import ParquetIndex
from sidecar_core.parquet_index.source import Source, find_source

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar_core.parquet_index.spec import IndexSpec
    from sidecar_core.storage.base import ConnectionOptions

KIND = "parquet_index"
_logger = logging.getLogger("sidecar")


def open_cached(
    spec: IndexSpec,
    *,
    options: ConnectionOptions | None = None,
    cache: CacheOptions | None = None,
    build: BuildOptions | None = None,
) -> ParquetIndex:
    """Returns the index of a source; makes it when this machine has none of the source's present version.

    Args:
        spec: what it is made of.
        options: how to reach an object store.
        cache: where it is kept; default as the environment says.
        build: how it is made.

    Raises:
        SidecarError: as `load_parquet_index`.
    """
    cache = cache or CacheOptions.from_environment()
    build = build or BuildOptions()
    source = find_source(spec.source, options)
    opened: list[ParquetIndex] = []

    def make(folder: Path) -> None:
        started = time.monotonic()
        build_index(source, spec, folder, build)
        if find_source(spec.source, options).version() != source.version():
            raise RefusedError(f"{spec.source} changed while it was read", None, "start the run again")
        _logger.info("made an index of %s in %.1f s: %s", spec.source, time.monotonic() - started, cache.folder)

    def is_whole(folder: Path) -> bool:
        try:
            opened[:] = [ParquetIndex(folder, name=spec.source, hash_keys=build.hash_keys)]
        except DamagedIndexError as error:
            _logger.warning("%s; it is made again", error)
            return False
        return True

    _, in_use = Cache(cache, KIND).get(
        _name(source, spec, options), make=make, is_whole=is_whole, size=lambda: estimated_bytes(source, spec)
    )
    (index,) = opened
    weakref.finalize(index, in_use.close)
    return index


def _name(source: Source, spec: IndexSpec, options: ConnectionOptions | None) -> str:
    """Returns what an index is made of as a name: what it is, then of which version of its source."""
    made_of = {
        **spec.model_dump(mode="json"),
        "files": source.storage.prefix,
        "endpoint_url": options.endpoint_url if options else None,
        "format": FORMAT,
    }
    digest = hashlib.blake2b(json.dumps(made_of, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f"{digest}-{source.version()}"
