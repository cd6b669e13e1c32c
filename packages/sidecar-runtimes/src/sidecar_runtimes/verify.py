"""Proof that an output is aligned with its main dataset, and what its columns hold."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.errors import AlignmentError, ShardError, StorageError
from sidecar_core.problems import counted
from sidecar_core.proof import choose_shards, compare_listings, null_count, proven_shard, write_receipt
from sidecar_core.types import null_rows

from sidecar_runtimes.content_checks import ContentChecks
from sidecar_runtimes.not_finite import rows_not_finite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sidecar_core.output_checks import OutputCheck
    from sidecar_core.proof import Listings
    from sidecar_core.storage import Storage

_PARALLEL_SHARDS = 50
_READ_ROWS = 16_384
_CONTENT_ROWS = 2000
_READ_BINARY_ROWS = 64  # of a column that may hold pictures, in each of the parallel shards


@dataclass(frozen=True)
class ShardProblem:
    """Something wrong with one shard.

    Attributes:
        rel_path: the shard.
        kind: `missing`, `surplus`, `misaligned`, `unreadable`, `schema`, `nan` or `content`.
        message: one sentence of fact.
    """

    rel_path: str
    kind: str
    message: str


@dataclass
class ColumnStats:
    """What a column holds over the checked shards.

    Attributes:
        rows: rows looked at.
        null: rows that are null; of a struct, rows whose leaves are all null.
        nan: rows with a NaN or an infinity in any leaf.
    """

    rows: int = 0
    null: int = 0
    nan: int = 0

    def add(self, other: ColumnStats) -> None:
        """Adds the counts of another part of the column."""
        self.rows += other.rows
        self.null += other.null
        self.nan += other.nan

    @property
    def populated_fraction(self) -> float:
        """Share of rows that are not null, 0-1; 0 for no rows."""
        return (self.rows - self.null) / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found.

    Attributes:
        main_prefix: the main dataset.
        output_prefix: the output.
        main_shards: shards of the main dataset, and `main_bytes` their size.
        output_shards: shards of the output, and `output_bytes` their size.
        checked_shards: shards whose keys were proven.
        all_shards: whether these are all of them.
        rows: rows of the checked shards.
        columns: what each column of the output holds.
        problems: what is wrong, in the order of shards.
        seed: the seed of the sample.
        content: by what was checked in the values of columns, the rows that were looked at.
    """

    main_prefix: str
    output_prefix: str
    main_shards: int
    main_bytes: int
    output_shards: int
    output_bytes: int
    checked_shards: int
    all_shards: bool
    rows: int
    columns: dict[str, ColumnStats] = field(default_factory=dict)
    problems: tuple[ShardProblem, ...] = ()
    seed: int = 0
    content: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def checked_rows(self) -> int:
        """Rows whose content was looked at: all those of the checked shards."""
        return self.rows


@dataclass(frozen=True)
class _ShardFindings:
    rows: int = 0
    columns: dict[str, ColumnStats] = field(default_factory=dict)
    problems: tuple[ShardProblem, ...] = ()
    schema: pa.Schema | None = None
    content: dict[str, int] = field(default_factory=dict)


def verify_dataset(
    main: Storage,
    output: Storage,
    *,
    key_column: str,
    expected_schema: pa.Schema | None = None,
    sample: int | None = 50,
    seed: int = 0,
    subprefix: str = "",
    checks: Sequence[OutputCheck] | None = None,
) -> VerifyReport:
    """Verifies an output against its main dataset and leaves a receipt in its run folder, unless a run is writing.

    Of each checked shard both key columns are read and held against each other and the footer's digest, and all
    columns of the output are read, except binary ones whose nulls the footer counts.

    Args:
        main: the main dataset.
        output: the dataset to verify.
        key_column: name of the key column in both.
        expected_schema: the schema of the plan; default that of the output's first readable shard.
        sample: how many shards to prove, or None for all.
        seed: of the sample.
        subprefix: only shards whose path begins with it.
        checks: what ops hold their columns to; default what installed ops recognise in the output's columns.
            Unless all shards are proven, 2,000 rows of each are looked at.

    Raises:
        UsageError: the main dataset has no shards.
        StorageError: a dataset could not be listed; a shard that cannot be read is a problem in the report.
    """
    listings = compare_listings(main, output, subprefix=subprefix)
    chosen = choose_shards(listings.shared, sample, seed=seed)
    content = ContentChecks(checks, rows=None if sample is None else _CONTENT_ROWS)
    check = partial(_check_shard, main, output, key_column, content)
    with ThreadPoolExecutor(_PARALLEL_SHARDS, thread_name_prefix="sidecar-verify") as readers:
        findings = dict(zip(chosen, readers.map(check, chosen), strict=True))
    problems = [*_listing_problems(listings)]
    columns: dict[str, ColumnStats] = {}
    looked_at: Counter[str] = Counter()
    schema = expected_schema
    for rel_path, found in findings.items():
        looked_at.update(found.content)
        problems.extend(found.problems)
        for name, stats in found.columns.items():
            columns.setdefault(name, ColumnStats()).add(stats)
        if found.schema is not None:
            schema = found.schema if schema is None else schema
            problems.extend(_schema_problems(rel_path, found.schema, schema))
    problems.extend(
        ShardProblem(
            "", "nan", f"column {name!r} holds NaN or infinity in {stats.nan:,} of {counted(stats.rows, 'row')}"
        )
        for name, stats in columns.items()
        if stats.nan
    )
    report = VerifyReport(
        main_prefix=main.prefix,
        output_prefix=output.prefix,
        main_shards=len(listings.main),
        main_bytes=listings.main_bytes,
        output_shards=len(listings.output),
        output_bytes=listings.output_bytes,
        checked_shards=len(chosen),
        all_shards=len(chosen) == len(listings.main),
        rows=sum(found.rows for found in findings.values()),
        columns=columns,
        problems=tuple(problems),
        seed=seed,
        content=dict(looked_at),
    )
    write_receipt(output, "verify", report, listings, problems=[problem.message for problem in report.problems])
    return report


def _check_shard(
    main: Storage, output: Storage, key_column: str, content: ContentChecks, rel_path: str
) -> _ShardFindings:
    try:
        with proven_shard(main, output, rel_path, key_column) as file:
            rows = file.metadata.num_rows
            schema = file.schema_arrow.remove_metadata()
            columns = {field.name: _column_stats(file, field) for field in schema if field.name != key_column}
            findings = content.run(file)
    except AlignmentError as error:
        return _ShardFindings(problems=(ShardProblem(rel_path, "misaligned", error.message),))
    except (ShardError, StorageError) as error:  # they name the file
        return _ShardFindings(problems=(ShardProblem(rel_path, "unreadable", str(error)),))
    except (OSError, pa.ArrowException) as error:
        return _ShardFindings(problems=(ShardProblem(rel_path, "unreadable", f"{rel_path}: {str(error).strip()}"),))
    problems = tuple(ShardProblem(rel_path, each.kind, f"{rel_path}{each.message}") for each in findings.problems)
    return _ShardFindings(rows, columns, problems, schema, findings.rows)


def _column_stats(file: pq.ParquetFile, column: pa.Field) -> ColumnStats:
    """Counts nulls and NaN of a column; bytes are not read when their nulls are in the footer."""
    is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    if is_binary:
        counted = null_count(file.metadata, column.name)
        if counted is not None:
            return ColumnStats(file.metadata.num_rows, counted, 0)
    stats = ColumnStats()
    for batch in file.iter_batches(_READ_BINARY_ROWS if is_binary else _READ_ROWS, columns=[column.name]):
        values = batch.column(0)
        nan = rows_not_finite(values)
        stats.add(ColumnStats(len(values), null_rows(values).true_count, 0 if nan is None else nan.true_count))
    return stats


def _listing_problems(listings: Listings) -> Iterator[ShardProblem]:
    for rel_path in listings.missing:
        yield ShardProblem(rel_path, "missing", f"{rel_path}: the output lacks this shard")
    for rel_path in listings.surplus:
        yield ShardProblem(rel_path, "surplus", f"{rel_path}: the main dataset has no such shard")


def _schema_problems(rel_path: str, found: pa.Schema, expected: pa.Schema) -> Iterator[ShardProblem]:
    if found.names != expected.names:
        message = f"{rel_path}: columns {', '.join(found.names)} where {', '.join(expected.names)} are expected"
        yield ShardProblem(rel_path, "schema", message)
        return
    for have, want in zip(found, expected, strict=True):
        if have.type != want.type:
            yield ShardProblem(rel_path, "schema", f"{rel_path}: column {have.name!r} is {have.type}, not {want.type}")
