"""Runs a pipeline's ops over a table, batch by batch as the engine does, and writes nothing."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from sidecar_core.columns import CheckedColumns, check_columns
from sidecar_core.op import OpContext
from sidecar_core.plan import source_schema
from sidecar_core.side_inputs import side_input_loader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sidecar_core.isolation import IsolationPool
    from sidecar_core.pipeline import Pipeline


def run_ops(
    pipeline: Pipeline,
    table: pa.Table,
    *,
    batch_rows: int | None = None,
    rel_path: str = "part-00000.parquet",
    isolation: IsolationPool | None = None,
    side_inputs: Mapping[str, object] | None = None,
) -> pa.Table:
    """Returns a shard's rows after the last op.

    Args:
        pipeline: the ops.
        table: the main shard.
        batch_rows: rows of a batch; default all in one.
        rel_path: the shard's path, for an op that reads a sibling shard.
        isolation: child processes, for an op that needs them.
        side_inputs: what every op gets; default what each declares, loaded as in a worker.
    """
    checked = check_as_planned(pipeline, table)
    table = table.select(checked.main_columns)
    loaded = [
        side_inputs
        or {
            name: side_input_loader(spec.loader)(spec.params, pipeline.dataset)
            for name, spec in op.declare_side_inputs(pipeline.dataset).items()
        }
        for op in pipeline.operations
    ]
    state: dict[object, object] = {}
    results: list[pa.Table] = []
    with ExitStack() as scope:
        for first_row in _starts(table.num_rows, batch_rows):
            batch = table.slice(first_row, batch_rows)
            for step, own in zip(checked.steps, loaded, strict=True):
                context = OpContext(
                    dataset=pipeline.dataset,
                    rel_path=rel_path,
                    first_row=first_row,
                    isolation=cast("IsolationPool", isolation),
                    side_inputs=own,
                    shard_rows=table.num_rows,
                    shard_scope=scope,
                    shard_state=state,
                    planned=step.planned,
                )
                batch = step.op.apply(batch, context)
            results.append(batch)
    return pa.concat_tables(results).replace_schema_metadata(None)


def check_as_planned(pipeline: Pipeline, table: pa.Table) -> CheckedColumns:
    """Plans the columns as a run does, with the schemas of siblings and sources."""
    schemas = partial(source_schema, options=pipeline.dataset.storage)
    return check_columns(pipeline, table.schema, source_schema=schemas)


def _starts(rows: int, batch_rows: int | None) -> Iterator[int]:
    """Yields each batch's first row; an empty shard is one empty batch."""
    yield from range(0, max(rows, 1), batch_rows or max(rows, 1))
