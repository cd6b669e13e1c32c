"""Which columns go into which output, under which names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.op import is_open, open_field
from sidecar_core.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.columns import OpStep
    from sidecar_core.config import ProblemCollector
    from sidecar_core.pipeline import Pipeline
    from sidecar_core.yaml_document import Loc


@dataclass(frozen=True)
class OutputSpec:
    """One dataset that a pipeline writes.

    Attributes:
        name: what `--output NAME=PREFIX` calls it.
        prefix: where it is written, ending with one slash.
        columns: table column by name in the output, in order, without the key, which is always first; a
            `*` on both sides takes all table columns that fit. None takes every column.
    """

    name: str
    prefix: str
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True)
class CheckedOutput:
    """What one output has.

    Attributes:
        name: the output's name.
        columns: pairs of the name in the output and the table's column, key first.
        schema: the fields of the output; types may be open offline.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    schema: pa.Schema


def select_outputs(
    pipeline: Pipeline,
    schema: pa.Schema,
    made: Sequence[str],
    problems: ProblemCollector,
    *,
    open_names: bool,
    steps: tuple[OpStep, ...],
) -> tuple[CheckedOutput, ...]:
    """Selects the columns of each output.

    Args:
        pipeline: the pipeline.
        schema: the table after the last op.
        made: columns that ops made or changed, in op order.
        problems: takes in what is wrong.
        open_names: whether there may be columns that only storage knows.
        steps: what each op does.
    """
    dataset = pipeline.dataset
    for index, name in enumerate(dataset.carry_columns):
        if name not in schema.names:
            problems.add(
                dataset.problem(("carry_columns", index), f"column {name!r} is carried, and {_taker(steps, name)}")
            )
    made_by_ops = set(made)
    for index, extension in enumerate(dataset.extension_fields):
        if extension.name in made_by_ops or open_names:
            continue
        loc = ("schema_extensions", index)
        taker = _taker(steps, extension.name)
        if taker:
            problems.add(dataset.problem(loc, f"column {extension.name!r} is declared, and {taker}"))
        else:
            fix = "put '- type: extract_scaffold' first in operations, or an op that makes the column"
            problems.add(dataset.problem(loc, f"no op fills the declared column {extension.name!r}", fix=fix))
    declared = {each.name: each for each in dataset.extension_fields if open_names or each.name in made_by_ops}
    available = list(dict.fromkeys([*dataset.carry_columns, *declared, *made]))
    available = [name for name in available if name != dataset.key_column]
    outputs: list[CheckedOutput] = []
    for index, spec in enumerate(pipeline.outputs):
        chosen = [(name, name) for name in available]
        if spec.columns is not None:
            chosen = _map_columns(pipeline, index, spec.columns, available, schema, problems, open_names=open_names)
        pairs = [(dataset.key_column, dataset.key_column), *chosen]
        fields = [_output_field(schema, declared, name, table_column) for name, table_column in pairs]
        outputs.append(CheckedOutput(spec.name, tuple(pairs), pa.schema(fields)))
    return tuple(outputs)


def _map_columns(
    pipeline: Pipeline,
    index: int,
    columns: Mapping[str, str],
    available: list[str],
    schema: pa.Schema,
    problems: ProblemCollector,
    *,
    open_names: bool,
) -> list[tuple[str, str]]:
    """Returns the pairs that `outputs[index].columns` stands for."""
    key = pipeline.dataset.key_column
    by_name = {column for column in columns.values() if "*" not in column}
    pairs: list[tuple[str, str]] = []
    for out_name, pattern in columns.items():
        loc: Loc = ("outputs", index, "columns", out_name)
        if key in (out_name, pattern):
            problems.add(pipeline.problem(loc, f"the key column {key!r} is in every output, as its first column"))
        elif "*" in pattern:
            head, _, tail = pattern.partition("*")
            out_head, _, out_tail = out_name.partition("*")
            found = [
                name
                for name in available
                if name not in by_name
                and len(name) >= len(head) + len(tail)
                and name.startswith(head)
                and name.endswith(tail)
            ]
            if not found and not open_names:
                message = f"no column of the table fits {pattern!r}"
                problems.add(pipeline.problem(loc, message, expected=", ".join(available)))
            pairs += [(f"{out_head}{name[len(head) : len(name) - len(tail)]}{out_tail}", name) for name in found]
        elif pattern in available or open_names:
            pairs.append((out_name, pattern))
        else:
            message = f"unknown column {pattern!r}{did_you_mean(pattern, available)}"
            fix = None
            if pattern in schema.names:
                message = f"column {pattern!r} of the main dataset is read, and neither carried nor changed by an op"
                fix = f"carry_columns: [{pattern}] in the dataset"
            problems.add(pipeline.problem(loc, message, expected=", ".join(available), fix=fix))
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1 or name == key:
            message = (
                f"{count} columns would be named {name!r}" if count > 1 else f"a column takes the key's name {key!r}"
            )
            problems.add(pipeline.problem(("outputs", index, "columns"), message))
    return pairs


def _output_field(schema: pa.Schema, declared: Mapping[str, pa.Field], name: str, table_column: str) -> pa.Field:
    position = schema.get_field_index(table_column)
    if position >= 0 and not is_open(schema.field(position)):
        return pa.field(name, schema.field(position).type)
    return pa.field(name, declared[table_column].type) if table_column in declared else open_field(name)


def _taker(steps: tuple[OpStep, ...], name: str) -> str:
    step = next((step for step in reversed(steps) if name in step.removed), None)
    return f"operations[{step.index}] ({step.op.type_name}) takes it away" if step is not None else ""
