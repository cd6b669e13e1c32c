"""Proof that a resized dataset is aligned with its main dataset and holds what its audit columns say."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.proof import choose_shards, compare_listings, write_receipt

from sidecar_resize.shard_checks import EXAMPLES, InvalidExample, ResizedProblem, Sample, ShardChecks, ShardFindings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.proof import Listings
    from sidecar_core.storage import Storage

    from sidecar_resize.row_checks import ResizeRules
    from sidecar_resize.shard_checks import ResizedColumns

VERIFIER = "verify-resized"

_PARALLEL_SHARDS = 8


@dataclass(frozen=True)
class VerifyResizedReport:
    """What `verify-resized` found.

    Attributes:
        main_prefix: the main dataset.
        output_prefix: the resized dataset.
        main_shards: shards of the main dataset, and `main_bytes` their size.
        output_shards: shards of the resized dataset, and `output_bytes` their size.
        checked_shards: shards whose keys were proven and whose audit columns were read whole.
        all_shards: whether these are all of them.
        rows: rows of the checked shards.
        checked_rows: rows whose picture was decoded, or that are invalid and were looked at as sampled.
        valid: valid rows of the checked shards.
        invalid: invalid rows of the checked shards, by reason.
        examples: a few invalid rows of each reason.
        problems: what is wrong, in the order of shards.
        seed: the seed of the sample.
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
    checked_rows: int
    valid: int
    invalid: dict[str, int]
    examples: dict[str, tuple[InvalidExample, ...]]
    problems: tuple[ResizedProblem, ...]
    seed: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. Invalid rows are not wrong: they are marked, as they should be."""
        return not self.problems


def verify_resized(
    main: Storage,
    output: Storage,
    *,
    columns: ResizedColumns,
    rules: ResizeRules,
    isolation: IsolationPool,
    sample: Sample | None = None,
    subprefix: str = "",
) -> VerifyResizedReport:
    """Verifies a resized dataset against its main dataset and, unless a run is writing, leaves a receipt there.

    Of each checked shard, the keys are proven, all audit columns are read, and the pictures of the sampled rows
    are decoded in child processes. Every row's scaling, crop and `upscaled` must be those that the sizes of source
    and result give, and valid, reason, nulls and image must agree. The pictures of the main dataset are not read:
    sizes, orientation and reasons are compared with each other, not with the sources.

    Args:
        main: the main dataset.
        output: the resized dataset.
        columns: where things stand in the resized dataset.
        rules: what its pictures must keep to.
        isolation: the child processes.
        sample: how much to look at; default 50 shards, 20 rows of each.
        subprefix: only shards below it.

    Raises:
        UsageError: the main dataset has no shards.
    """
    listings = compare_listings(main, output, subprefix=subprefix)
    sample = sample or Sample()
    chosen = choose_shards(listings.shared, sample.shards, seed=sample.seed)
    checks = ShardChecks(main, output, columns, rules, isolation, sample)
    with ThreadPoolExecutor(_PARALLEL_SHARDS, thread_name_prefix="sidecar-verify") as readers:
        findings = dict(zip(chosen, readers.map(checks.run, chosen), strict=True))
    report = _report(listings, findings, main=main, output=output, seed=sample.seed)
    write_receipt(output, VERIFIER, report, listings, problems=[problem.message for problem in report.problems])
    return report


def _listing_problems(listings: Listings) -> Iterator[ResizedProblem]:
    for rel_path in listings.missing:
        yield ResizedProblem(rel_path, None, "missing", f"{rel_path}: the resized dataset lacks this shard")
    for rel_path in listings.surplus:
        yield ResizedProblem(rel_path, None, "surplus", f"{rel_path}: the main dataset has no such shard")


def _report(
    listings: Listings, findings: dict[str, ShardFindings], *, main: Storage, output: Storage, seed: int
) -> VerifyResizedReport:
    problems = list(_listing_problems(listings))
    invalid: Counter[str] = Counter()
    examples: dict[str, list[InvalidExample]] = {}
    schema: pa.Schema | None = None
    for rel_path, found in findings.items():
        problems.extend(found.problems)
        invalid.update(found.invalid)
        for reason, rows in found.examples.items():
            kept = examples.setdefault(reason, [])
            kept.extend(rows[: EXAMPLES - len(kept)])
        schema = schema or found.schema
        if found.schema is not None and found.schema != schema:
            problems.append(
                ResizedProblem(rel_path, None, "schema", f"{rel_path}: its schema differs from the others'")
            )
    return VerifyResizedReport(
        main_prefix=main.prefix,
        output_prefix=output.prefix,
        main_shards=len(listings.main),
        main_bytes=listings.main_bytes,
        output_shards=len(listings.output),
        output_bytes=listings.output_bytes,
        checked_shards=len(findings),
        all_shards=len(findings) == len(listings.main),
        rows=sum(found.rows for found in findings.values()),
        checked_rows=sum(found.checked_rows for found in findings.values()),
        valid=sum(found.valid for found in findings.values()),
        invalid=dict(invalid.most_common()),
        examples={reason: tuple(rows) for reason, rows in examples.items()},
        problems=tuple(problems),
        seed=seed,
    )
