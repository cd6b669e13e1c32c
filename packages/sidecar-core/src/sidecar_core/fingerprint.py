"""Fingerprints: what decides an output's values, and nothing else, as one hash."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sidecar_core.columns import check_columns
from sidecar_core.locations import WITHOUT_LOCATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar_core.columns import CheckedColumns, OpStep
    from sidecar_core.dataset import Dataset
    from sidecar_core.op import BaseOp
    from sidecar_core.outputs import OutputSpec
    from sidecar_core.pipeline import Pipeline

_FORMAT = 1  # raised when the meaning of fingerprints changes, which makes every output stale


def fingerprint(pipeline: Pipeline) -> str:
    """Returns the hash of the whole pipeline and its dataset, less prefixes and storage.

    It tells pipelines apart in manifests; whether an output is current is `output_fingerprint`'s matter.
    """
    dataset = pipeline.dataset
    return _digest(
        {
            "format": _FORMAT,
            "dataset": {
                "name": dataset.name,
                "key_column": dataset.key_column,
                "image_column": dataset.image_column,
                "carry_columns": list(dataset.carry_columns),
                "schema_extensions": _extensions(dataset, [each.name for each in dataset.extensions]),
            },
            "operations": [
                {
                    "type": op.type_name,
                    "version": op.version,
                    "params": op.params.model_dump(mode="json", context=WITHOUT_LOCATIONS),
                }
                for op in pipeline.operations
            ],
            "outputs": [[output.name, list((output.columns or {"*": "*"}).items())] for output in pipeline.outputs],
        }
    )


def output_fingerprint(pipeline: Pipeline, output: OutputSpec | str) -> str:
    """Returns the hash of all that makes the columns of one output.

    Ops are followed backwards from the output's columns; one that contributes nothing does not enter, nor do
    prefixes, storage, the dataset's name, and other outputs. What storage holds enters the footers' inputs.

    Args:
        pipeline: a loaded pipeline.
        output: one of its outputs, or its name.
    """
    dataset = pipeline.dataset
    checked = check_columns(pipeline)  # offline, so that it is the same wherever it is computed
    name = output if isinstance(output, str) else output.name
    columns = checked.output(name).columns
    contributing, read = _contributing(checked, name, dataset)
    return _digest(
        {
            "format": _FORMAT,
            "key_column": dataset.key_column,
            "image_column": dataset.image_column if dataset.image_column in read else None,
            "columns": [list(pair) for pair in columns],
            "all_columns": checked.open_names and pipeline.output(name).columns is None,
            "schema_extensions": _extensions(dataset, [table_column for _, table_column in columns]),
            "operations": [
                {
                    "type": step.op.type_name,
                    "version": step.op.version,
                    "params": step.op.fingerprint_params(sorted(made)),
                }
                for step, made in contributing
            ],
        }
    )


def contributing_ops(checked: CheckedColumns, output: str, dataset: Dataset) -> list[BaseOp]:
    """Returns the ops that make an output's columns, or what those are made of, in their order."""
    return [step.op for step, _ in _contributing(checked, output, dataset)[0]]


def _contributing(
    checked: CheckedColumns, output: str, dataset: Dataset
) -> tuple[list[tuple[OpStep, set[str]]], set[str]]:
    """Returns the steps that contribute to an output with the columns they make for it, and all columns read."""
    needed = {table_column for _, table_column in checked.output(output).columns}
    steps: list[tuple[OpStep, set[str]]] = []
    read: set[str] = set()
    for step in reversed(checked.steps):
        made = needed.intersection(step.makes)
        if not made and not step.open_names:
            continue
        steps.append((step, made))
        sources = {source for column in made for source in step.op.source_columns(column, dataset)}
        if step.open_names or not made:
            sources.update(step.inputs)
        needed = (needed - {*step.added, *step.filled}) | sources
        read |= sources
    return steps[::-1], read


def _extensions(dataset: Dataset, names: Iterable[str]) -> dict[str, object]:
    """Returns the full definition of each declared column among `names`."""
    wanted = set(names)
    return {
        each.name: dataset.struct_types.type_definition(each.type or each.type_ref or "")
        for each in dataset.extensions
        if each.name in wanted
    }


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
