"""What is checked in one shard of a resized dataset."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sidecar_core.errors import AlignmentError, ShardError, StorageError, WorkerCallFailed
from sidecar_core.problems import counted
from sidecar_core.proof import null_count, proven_shard

from sidecar_resize.audit_columns import AUDIT_NAMES, audit_fields
from sidecar_resize.picture_facts import PictureFacts, picture_facts
from sidecar_resize.row_checks import check_audit, check_picture, check_presence, check_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.storage import Storage

    from sidecar_resize.row_checks import ResizeRules

EXAMPLES = 3
_ROW_PROBLEMS = 100  # that are kept of a shard
_ROWS_AT_ONCE = 64  # encoded pictures that are held at a time, per shard


@dataclass(frozen=True)
class ResizedProblem:
    """Something wrong with a resized dataset.

    Attributes:
        rel_path: the shard.
        row: position in the shard, or None for the shard as a whole.
        kind: `missing`, `surplus`, `misaligned`, `unreadable`, `schema` or `row`.
        message: one sentence of fact.
    """

    rel_path: str
    row: int | None
    kind: str
    message: str


@dataclass(frozen=True)
class InvalidExample:
    """One invalid row.

    Attributes:
        rel_path: the shard.
        row: position in the shard.
        key: the row's key as text.
        detail: the detail beside its reason.
    """

    rel_path: str
    row: int
    key: str
    detail: str | None


@dataclass
class ShardFindings:
    """What was found in one shard; the attributes are those of the report."""

    rows: int = 0
    checked_rows: int = 0
    valid: int = 0
    invalid: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[InvalidExample]] = field(default_factory=dict[str, "list[InvalidExample]"])
    problems: list[ResizedProblem] = field(default_factory=list[ResizedProblem])
    checks_left_out: int = 0  # that failed beyond the first of the shard: millions would fill the memory
    schema: pa.Schema | None = None


@dataclass(frozen=True)
class ResizedColumns:
    """Where things stand in a resized dataset.

    Attributes:
        key: name of the key column, the same as in the main dataset.
        image: name of the image column.
        audit_prefix: first part of the audit columns' names; None: whatever the dataset has.
    """

    key: str
    image: str = "image"
    audit_prefix: str | None = None


@dataclass(frozen=True)
class Sample:
    """How much is looked at, drawn the same way for the same seed.

    Attributes:
        shards: how many shards are checked, or None for all.
        rows: how many rows of each have their picture decoded, or None for all.
        seed: of both draws.
    """

    shards: int | None = 50
    rows: int | None = 20
    seed: int = 0


def find_audit_prefix(schema: pa.Schema) -> str:
    """Returns the prefix of the audit columns in a resized dataset's schema.

    Raises:
        ShardError: there are none, or of several targets.
    """
    ends = f"_{AUDIT_NAMES[0]}"
    prefixes = [name.removesuffix(ends) for name in schema.names if name.endswith(ends)]
    whole = [prefix for prefix in prefixes if all(f"{prefix}_{name}" in schema.names for name in AUDIT_NAMES)]
    if len(whole) != 1:
        found = ", ".join(repr(prefix) for prefix in whole) or "none"
        raise ShardError(f"audit columns of exactly one target are needed, and there are those of {found}")
    return whole[0]


@dataclass(frozen=True)
class _RowGroup:
    """A row group of a shard, its place among the shard's rows, and the audit of each of its rows by name."""

    file: pq.ParquetFile
    number: int
    rel_path: str
    first: int
    audits: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class ShardChecks:
    """Checks shards of one resized dataset against the main dataset's.

    Attributes:
        main: the main dataset.
        output: the resized dataset.
        columns: where things stand in it.
        rules: what its pictures must keep to.
        isolation: child processes that decode.
        sample: which rows are decoded.
    """

    main: Storage
    output: Storage
    columns: ResizedColumns
    rules: ResizeRules
    isolation: IsolationPool
    sample: Sample

    def run(self, rel_path: str) -> ShardFindings:
        """Returns what is in a shard and what is wrong with it; raises nothing for a bad shard."""
        findings = ShardFindings()
        try:
            with proven_shard(self.main, self.output, rel_path, self.columns.key) as file:
                findings.rows = file.metadata.num_rows
                findings.schema = file.schema_arrow.remove_metadata()
                prefix = self.columns.audit_prefix or find_audit_prefix(findings.schema)
                wrong = list(self._schema_problems(findings.schema, prefix))
                findings.problems += [ResizedProblem(rel_path, None, "schema", f"{rel_path}: {said}") for said in wrong]
                if not wrong:
                    self._check_rows(file, rel_path, prefix, findings, self._choose_rows(findings.rows, rel_path))
            if findings.checks_left_out:
                message = f"{rel_path}: rows failed {findings.checks_left_out} more checks"
                findings.problems.append(ResizedProblem(rel_path, None, "row", message))
        except AlignmentError as error:
            findings.problems.append(ResizedProblem(rel_path, None, "misaligned", error.message))
        except (ShardError, StorageError, OSError, pa.ArrowInvalid) as error:
            findings.problems.append(ResizedProblem(rel_path, None, "unreadable", f"{rel_path}: {error}"))
        return findings

    def _choose_rows(self, rows: int, rel_path: str) -> set[int]:
        if self.sample.rows is None or self.sample.rows >= rows:
            return set(range(rows))
        return set(random.Random(f"{self.sample.seed} {rel_path}").sample(range(rows), self.sample.rows))

    def _schema_problems(self, schema: pa.Schema, prefix: str) -> Iterator[str]:
        for wanted in (pa.field(self.columns.image, pa.binary()), *audit_fields(prefix)):
            if wanted.name not in schema.names:
                yield f"column {wanted.name!r} is missing"
            elif schema.field(wanted.name).type != wanted.type:
                yield f"column {wanted.name!r} is {schema.field(wanted.name).type}, not {wanted.type}"

    def _check_rows(
        self, file: pq.ParquetFile, rel_path: str, prefix: str, findings: ShardFindings, chosen: set[int]
    ) -> None:
        first = 0
        names = [self.columns.key, *(f"{prefix}_{name}" for name in AUDIT_NAMES)]
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            table = file.read_row_group(group, columns=names).rename_columns(["key", *AUDIT_NAMES])
            audits: list[dict[str, Any]] = table.to_pylist()
            self._count(audits, rel_path, first, findings)
            held = _RowGroup(file, group, rel_path, first, audits)
            if any(first <= row < first + rows for row in chosen):
                self._check_group(held, chosen, findings)
            else:
                self._count_images(held, findings)
            first += rows

    def _count_images(self, held: _RowGroup, findings: ShardFindings) -> None:
        """Holds how many images a row group has by its statistics against the audit; reads none."""
        invalid = sum(not audit["valid"] for audit in held.audits)
        nulls = null_count(held.file.metadata, self.columns.image, [held.number])
        if nulls is not None and nulls != invalid:
            said = f"{counted(invalid, 'row')} invalid, and {counted(nulls, 'row')} without an image"
            message = f"{held.rel_path} rows {held.first} to {held.first + len(held.audits) - 1}: {said}"
            findings.problems.append(ResizedProblem(held.rel_path, None, "row", message))

    def _count(self, audits: Sequence[dict[str, Any]], rel_path: str, first: int, findings: ShardFindings) -> None:
        for index, audit in enumerate(audits):
            problems = list(check_state(audit))
            if audit["valid"]:
                problems += check_audit(audit, self.rules)
                findings.valid += 1
            else:
                reason = str(audit["reason"])
                findings.invalid[reason] += 1
                examples = findings.examples.setdefault(reason, [])
                if len(examples) < EXAMPLES:
                    examples.append(InvalidExample(rel_path, first + index, str(audit["key"]), audit["detail"]))
            self._note(problems, rel_path, first + index, findings)

    def _check_group(self, held: _RowGroup, chosen: set[int], findings: ShardFindings) -> None:
        """Reads the row group's images in small batches, looks whether each is there, and decodes the chosen rows'."""
        rel_path, first, audits = held.rel_path, held.first, held.audits
        at = 0
        for batch in held.file.iter_batches(_ROWS_AT_ONCE, row_groups=[held.number], columns=[self.columns.image]):
            lengths = pc.binary_length(batch.column(0)).to_pylist()  # pyright: ignore[reportCallIssue, reportArgumentType] - the stubs know few types
            for index, length in enumerate(lengths):
                self._note(list(check_presence(audits[at + index], length)), rel_path, first + at + index, findings)
            wanted = [index for index in range(batch.num_rows) if first + at + index in chosen]
            images = [batch.column(0)[index].as_py() for index in wanted]
            decoded = iter(self.isolation.map_rows(picture_facts, [image for image in images if image is not None]))
            for index, image in zip(wanted, images, strict=True):
                audit, row = audits[at + index], first + at + index
                if image is not None:
                    found = next(decoded)
                    facts = found if isinstance(found, PictureFacts) else PictureFacts(error=_failure(found))
                    self._note(list(check_picture(audit, facts, self.rules)), rel_path, row, findings)
            findings.checked_rows += len(wanted)
            at += batch.num_rows

    def _note(self, problems: Sequence[str], rel_path: str, row: int, findings: ShardFindings) -> None:
        if problems and len(findings.problems) >= _ROW_PROBLEMS:
            findings.checks_left_out += 1
            return
        findings.problems += [
            ResizedProblem(rel_path, row, "row", f"{rel_path} row {row}: {said}") for said in problems
        ]


def _failure(found: object) -> str:
    return f"the decoder {found.cause}" if isinstance(found, WorkerCallFailed) else f"unexpected {found!r}"
