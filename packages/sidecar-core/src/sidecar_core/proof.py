"""What every verifier does: compare listings, prove keys, and leave a receipt."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.align import KeyDigest, assert_alignment
from sidecar_core.errors import AlignmentError, ShardError, StorageError
from sidecar_core.footer import read_footer
from sidecar_core.shard_reader import open_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sidecar_core.storage import ObjectInfo, Storage

RUN_FOLDER = "_sidecar"


@dataclass(frozen=True)
class Listings:
    """The shards of a main dataset and of an output, and how they differ.

    Attributes:
        main: the main shards, sorted by path.
        output: the output's shards, sorted by path.
        missing: paths that only the main dataset has.
        surplus: paths that only the output has.
        shared: paths that both have.
    """

    main: tuple[ObjectInfo, ...]
    output: tuple[ObjectInfo, ...]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    shared: tuple[str, ...]

    @property
    def main_bytes(self) -> int:
        """Total size of the main shards."""
        return sum(info.size_bytes for info in self.main)

    @property
    def output_bytes(self) -> int:
        """Total size of the output's shards."""
        return sum(info.size_bytes for info in self.output)


def compare_listings(main: Storage, output: Storage, *, subprefix: str = "") -> Listings:
    """Lists both datasets below `subprefix` and returns what each lacks."""
    main_shards = tuple(main.list_shards(subprefix))
    output_shards = tuple(output.list_shards(subprefix, missing_ok=True))
    main_paths = {info.rel_path for info in main_shards}
    output_paths = {info.rel_path for info in output_shards}
    return Listings(
        main=main_shards,
        output=output_shards,
        missing=tuple(sorted(main_paths - output_paths)),
        surplus=tuple(sorted(output_paths - main_paths)),
        shared=tuple(sorted(main_paths & output_paths)),
    )


def choose_shards(rel_paths: Sequence[str], sample: int | None, *, seed: int) -> list[str]:
    """Returns `sample` of the paths, or all for None, in order; the same ones for the same seed."""
    if sample is None or sample >= len(rel_paths):
        return list(rel_paths)
    return sorted(random.Random(seed).sample(list(rel_paths), sample))


def prove_keys(main: Storage, output: Storage, rel_path: str, key_column: str) -> int:
    """Proves that a shard of the output has the main shard's keys, row by row; returns its rows.

    Reads both key columns, and holds the footer's digest against both when sidecar wrote the file.

    Raises:
        AlignmentError: other row count, another key in some row, or a footer that does not match.
        ShardError: one of the files is unreadable or lacks the key column.
    """
    main_keys = read_key_column(main, rel_path, key_column)
    output_keys = read_key_column(output, rel_path, key_column)
    try:
        assert_alignment(main_keys, output_keys, key_column)
    except AlignmentError as error:
        raise AlignmentError(f"{rel_path}: {error.message}") from error
    footer = read_footer(output, rel_path)
    if footer is not None:
        digest = KeyDigest()
        digest.update(main_keys.column(key_column))
        if footer.key_digest != digest.hexdigest() or footer.rows != main_keys.num_rows:
            raise AlignmentError(f"{rel_path}: the footer's key digest is not that of the keys")
    return main_keys.num_rows


def read_key_column(storage: Storage, rel_path: str, key_column: str) -> pa.Table:
    """Returns the key column of a shard as a table of one column.

    Raises:
        ShardError: the file is unreadable or has no such column.
    """
    file = open_parquet(storage, rel_path)
    if key_column not in file.schema_arrow.names:
        message = f"{storage.prefix}{rel_path}: no key column {key_column!r}"
        raise ShardError(message, "columns " + ", ".join(file.schema_arrow.names))
    schema = pa.schema([file.schema_arrow.field(key_column)])
    try:
        return pa.Table.from_batches(file.iter_batches(columns=[key_column]), schema=schema)
    except StorageError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise ShardError(f"{storage.prefix}{rel_path}: unreadable key column: {str(error).strip()}") from error


@dataclass(frozen=True)
class Receipt:
    """What a verifier checked of an output, for its content at that moment.

    Attributes:
        verifier: `verify` or `verify-resized`.
        passed: whether nothing was wrong.
        output_prefix: the dataset that was checked.
        main_prefix: the main dataset that it was checked against.
        shards: shards in the main dataset.
        checked_shards: shards whose rows were looked at.
        all_shards: whether these are all of them.
        rows: rows of the checked shards.
        checked_rows: rows whose content was looked at.
        seed: the seed of the sample.
        listing_digest: of the output's paths, sizes and versions.
        problems: the first of what was wrong.
        sidecar_version: version of sidecar-core.
        written: time in UTC, ISO 8601.
    """

    verifier: str
    passed: bool
    output_prefix: str
    main_prefix: str
    shards: int
    checked_shards: int
    all_shards: bool
    rows: int
    checked_rows: int
    seed: int
    listing_digest: str
    problems: tuple[str, ...]
    sidecar_version: str
    written: str

    def covers(self, shards: Iterable[ObjectInfo]) -> bool:
        """Returns whether the output is still what was checked."""
        return self.listing_digest == listing_digest(shards)


def listing_digest(shards: Iterable[ObjectInfo]) -> str:
    """Returns a digest of paths, sizes and versions: it changes whenever a shard is added, removed or rewritten."""
    digest = hashlib.blake2b(digest_size=16)
    for info in sorted(shards, key=lambda info: info.rel_path):
        digest.update(json.dumps([info.rel_path, info.size_bytes, info.etag, info.mtime_ns]).encode())
    return digest.hexdigest()


def write_receipt(output: Storage, receipt: Receipt) -> str:
    """Writes the receipt into the run folder; returns its path below the output prefix."""
    rel_path = f"{RUN_FOLDER}/{receipt.verifier}.json"
    output.write_bytes(rel_path, json.dumps(asdict(receipt), indent=2, ensure_ascii=False).encode())
    return rel_path


def read_receipt(output: Storage, verifier: str) -> Receipt | None:
    """Returns the last receipt of a verifier, or None when there is none that can be read."""
    rel_path = f"{RUN_FOLDER}/{verifier}.json"
    if output.stat(rel_path) is None:
        return None
    try:
        content: dict[str, Any] = json.loads(output.read_bytes(rel_path))
        content["problems"] = tuple(content["problems"])
        return Receipt(**content)
    except (ValueError, TypeError, KeyError):
        return None
