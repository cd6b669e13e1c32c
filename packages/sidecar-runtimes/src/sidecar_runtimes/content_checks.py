"""The values of an output's columns, held to what the ops say that made them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from sidecar_core.errors import SidecarError
from sidecar_core.registry import installed_ops, op_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq
    from sidecar_core.op import BaseOp
    from sidecar_core.output_checks import OutputCheck
    from sidecar_core.plan import PlannedOutput, RunPlan

_BATCH_ROWS = 512
_PROBLEMS_KEPT = 10  # of a check in a shard
_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class ContentProblem:
    """Something wrong in a shard.

    Attributes:
        kind: `schema` for a column that is not there, `content` for a value.
        message: what, to be put after the shard's path.
    """

    kind: Literal["schema", "content"]
    message: str


@dataclass
class ContentFindings:
    """What was found in a shard.

    Attributes:
        rows: by check, the rows that were looked at.
        problems: what is wrong, by check and row.
    """

    rows: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[ContentProblem] = field(default_factory=list[ContentProblem])


def planned_checks(plan: RunPlan, output: PlannedOutput) -> list[OutputCheck]:
    """Returns the checks that a plan's ops have for an output, under the names that its columns have there."""
    names = {column: name for name, column in output.columns}
    declared = [check for op in plan.operations for check in op.output_checks(plan.dataset)]
    return [stored for check in declared if (stored := check.stored_as(names)) is not None]


def loadable_ops() -> list[type[BaseOp]]:
    """Returns the classes of all installed ops, and warns of those that cannot be loaded: no fault of any output."""
    found: list[type[BaseOp]] = []
    for name in installed_ops():
        try:
            found.append(op_class(name))
        except SidecarError as error:
            _logger.warning("the op %r cannot say whether it made the output: %s", name, error)
    return found


class ContentChecks:
    """Looks at shards of one output; may be used by several threads.

    Args:
        checks: what to look at; None: what installed ops recognise in a shard's columns.
        rows: about how many rows of a shard, spread evenly over it; None for all.
    """

    def __init__(self, checks: Sequence[OutputCheck] | None, *, rows: int | None) -> None:
        self._checks = checks
        self._ops = loadable_ops() if checks is None else []
        self._rows = rows

    def run(self, file: pq.ParquetFile) -> ContentFindings:
        """Returns what is wrong in a shard; reads only the columns that a check names."""
        schema = file.schema_arrow
        findings = ContentFindings()
        checks = self._checks
        if checks is None:
            checks = [check for op in self._ops for check in op.recognise_output(schema)]
        for check in checks:
            lacking = [name for name in check.columns if name not in schema.names]
            twice = [name for name in check.columns if schema.names.count(name) > 1]
            if lacking:
                message = f": no column {lacking[0]!r}, which belongs to the {check.name}"
                findings.problems.append(ContentProblem("schema", message))
            elif twice:
                message = f": {schema.names.count(twice[0])} columns {twice[0]!r}, which belong to the {check.name}"
                findings.problems.append(ContentProblem("schema", message))
            else:
                self._run(check, file, findings)
        return findings

    def _run(self, check: OutputCheck, file: pq.ParquetFile, findings: ContentFindings) -> None:
        step = 1 if self._rows is None else max(1, file.metadata.num_rows // self._rows)
        first, wrong = 0, 0
        findings.rows[check.name] = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(check.columns)):
            chosen = range(-first % step, batch.num_rows, step)
            table = pa.Table.from_batches([batch]).select(list(check.columns)).take(pa.array(chosen, pa.int64()))
            for row, said in check.check(table):
                wrong += 1
                if wrong <= _PROBLEMS_KEPT:
                    findings.problems.append(ContentProblem("content", f" row {first + chosen[row]}: {said}"))
            findings.rows[check.name] += len(chosen)
            first += batch.num_rows
        if wrong > _PROBLEMS_KEPT:
            message = f": {wrong - _PROBLEMS_KEPT} more rows fail the check of the {check.name}"
            findings.problems.append(ContentProblem("content", message))
