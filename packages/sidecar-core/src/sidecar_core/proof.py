"""What every verifier does: compare listings, prove keys, and leave a receipt."""

from __future__ import annotations

import hashlib
import json
import logging
import random
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core import __version__
from sidecar_core.align import assert_alignment, key_digest
from sidecar_core.errors import AlignmentError, ShardError, StorageError, UsageError
from sidecar_core.footer import FooterInfo
from sidecar_core.lease import live_lease
from sidecar_core.problems import counted
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import RUN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import Protocol

    import pyarrow.parquet as pq

    from sidecar_core.storage import ObjectInfo, Storage

    class VerifierReport(Protocol):
        """What every verifier finds out, and its receipt says."""

        @property
        def ok(self) -> bool: ...
        @property
        def main_prefix(self) -> str: ...
        @property
        def output_prefix(self) -> str: ...
        @property
        def main_shards(self) -> int: ...
        @property
        def checked_shards(self) -> int: ...
        @property
        def all_shards(self) -> bool: ...
        @property
        def rows(self) -> int: ...
        @property
        def checked_rows(self) -> int: ...
        @property
        def seed(self) -> int: ...


_PROBLEMS_KEPT = 20
_logger = logging.getLogger("sidecar")


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
    """Lists the shards of both datasets whose paths begin with `subprefix` and returns what each lacks.

    Raises:
        UsageError: the main dataset has no such shards.
    """
    main_shards = tuple(main.list_shards(subprefix, missing_ok=True))
    if not main_shards:
        raise UsageError(
            f"no shards at {main.prefix}{subprefix}",
            fix="check --input-subprefix" if subprefix else "check main_prefix",
        )
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


@contextmanager
def proven_shard(main: Storage, output: Storage, rel_path: str, key_column: str) -> Generator[pq.ParquetFile]:
    """Proves that a shard of the output has the main shard's keys, row by row, and opens it for a `with` block.

    Reads both key columns, and holds the footer's digest against both when sidecar wrote the file.

    Raises:
        AlignmentError: other row count, another key in some row, or a footer that does not match.
        ShardError: one of the files is unreadable or lacks the key column.
    """
    with open_parquet(main, rel_path) as file:
        main_keys = _key_column(file, main.uri(rel_path), key_column)
    with open_parquet(output, rel_path) as file:
        output_keys = _key_column(file, output.uri(rel_path), key_column)
        try:
            assert_alignment(main_keys, output_keys, key_column)
        except AlignmentError as error:
            raise AlignmentError(f"{rel_path}: {error.message}") from error
        try:
            footer = FooterInfo.from_metadata(file.metadata.metadata)
        except ValueError as error:
            raise ShardError(f"{output.uri(rel_path)}: {error}", "a footer as sidecar writes it") from error
        keys = main_keys.column(key_column)
        if footer is not None and (footer.rows, footer.key_digest) != (len(keys), key_digest(keys)):
            raise AlignmentError(
                f"{rel_path}: the keys of {output.uri(rel_path)} are not those that its footer tells",
                f"{counted(footer.rows, 'row')} with the digest {footer.key_digest}",
                "make the shard again",
            )
        yield file


def _key_column(file: pq.ParquetFile, uri: str, key_column: str) -> pa.Table:
    """Returns the key column as a table of one column."""
    names = file.schema_arrow.names
    if key_column not in names:
        raise ShardError(f"{uri}: no key column {key_column!r}", "columns " + ", ".join(names))
    schema = pa.schema([file.schema_arrow.field(key_column)])
    try:
        return pa.Table.from_batches(file.iter_batches(columns=[key_column]), schema=schema)
    except StorageError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise ShardError(f"{uri}: unreadable key column: {str(error).strip()}") from error


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


def null_count(metadata: pq.FileMetaData, column: str, row_groups: Iterable[int] | None = None) -> int | None:
    """Returns how many values of a flat column are null by its statistics, or None where they do not say.

    Args:
        metadata: of the Parquet file.
        column: a column without fields or items.
        row_groups: the row groups that count; default all.
    """
    total = 0
    for number in range(metadata.num_row_groups) if row_groups is None else row_groups:
        group = metadata.row_group(number)
        columns = (group.column(index) for index in range(group.num_columns))
        statistics = next((each.statistics for each in columns if each.path_in_schema == column), None)
        if statistics is None or statistics.null_count is None:
            return None
        total += statistics.null_count
    return total


def listing_digest(shards: Iterable[ObjectInfo]) -> str:
    """Returns a digest of paths, sizes and versions: it changes whenever a shard is added, removed or rewritten."""
    digest = hashlib.blake2b(digest_size=16)
    for info in sorted(shards, key=lambda info: info.rel_path):
        digest.update(json.dumps([info.rel_path, info.size_bytes, info.etag, info.mtime_ns]).encode())
    return digest.hexdigest()


def write_receipt(
    output: Storage, verifier: str, report: VerifierReport, listings: Listings, *, problems: Sequence[str]
) -> Receipt | None:
    """Writes what a verifier found into the run folder of the dataset that it looked at; returns the receipt.

    None is written while a run holds the dataset's lease, nor for a dataset without shards. That one cannot be written
    is a warning: what was found is worth more than its receipt.

    Args:
        output: that dataset.
        verifier: `verify` or `verify-resized`.
        report: what was found.
        listings: as they were when the verifier began.
        problems: what is wrong, one sentence each; the receipt keeps the first.
    """
    if not listings.output:
        return None
    try:
        writer = live_lease(output)
        if writer is not None:
            _logger.warning("%s: no receipt is left while this run is writing: %s", output.prefix, writer.holder())
            return None
        receipt = _receipt(verifier, report, listings, problems)
        text = json.dumps(asdict(receipt), indent=2, ensure_ascii=False)
        output.write_bytes(f"{RUN_FOLDER}/{verifier}.json", text.encode(errors="backslashreplace"))
    except StorageError as error:
        stands = (
            "" if report.ok else "\n  an earlier receipt may still say that all is well: do not trust it, or remove it"
        )
        _logger.warning("no receipt is left: %s%s", error, stands)
        return None
    return receipt


def _receipt(verifier: str, report: VerifierReport, listings: Listings, problems: Sequence[str]) -> Receipt:
    return Receipt(
        verifier=verifier,
        passed=report.ok,
        output_prefix=report.output_prefix,
        main_prefix=report.main_prefix,
        shards=report.main_shards,
        checked_shards=report.checked_shards,
        all_shards=report.all_shards,
        rows=report.rows,
        checked_rows=report.checked_rows,
        seed=report.seed,
        listing_digest=listing_digest(listings.output),
        problems=tuple(problems[:_PROBLEMS_KEPT]),
        sidecar_version=__version__,
        written=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def read_receipt(output: Storage, verifier: str) -> Receipt | None:
    """Returns the last receipt of a verifier, or None when there is none that can be read."""
    rel_path = f"{RUN_FOLDER}/{verifier}.json"
    if output.stat(rel_path) is None:
        return None
    try:
        content: dict[str, Any] = json.loads(output.read_bytes(rel_path))
        content["problems"] = tuple(content["problems"])
        receipt = Receipt(**content)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return receipt if receipt.passed in (True, False) and receipt.all_shards in (True, False) else None
