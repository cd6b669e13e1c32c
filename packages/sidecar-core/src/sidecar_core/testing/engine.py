"""Runs a pipeline shard by shard in this process, for tests of ops and of the engine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sidecar_core.execute import ShardResources, run_shard
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.plan import PlannedShard, plan_run
from sidecar_core.side_inputs import load_side_inputs
from sidecar_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.outcome import ShardReport
    from sidecar_core.pipeline import Pipeline


def run_every_shard(pipeline: Pipeline, prefixes: Mapping[str, str], *, workers: int = 2) -> list[ShardReport]:
    """Runs every shard of the pipeline's dataset, one after the other; the first error is raised.

    Args:
        pipeline: a loaded pipeline.
        prefixes: the local folder of each output, by the output's name.
        workers: isolated child processes.
    """
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    shards = main.list_shards()
    with ExitStack() as stack:
        plan = plan_run(pipeline, main, shards, {name: f"{path}/" for name, path in prefixes.items()})
        outputs = tuple(open_storage(output.prefix, pipeline.dataset.storage) for output in plan.outputs)
        resources = ShardResources(
            main=main,
            outputs=outputs,
            isolation=stack.enter_context(IsolationPool(IsolationOptions(workers=workers))),
            staging=tuple(output.staging_dir(plan.run_id) for output in outputs),
            side_inputs=load_side_inputs(plan),
        )
        return [
            run_shard(plan, PlannedShard(info, tuple(output.stat(info.rel_path) for output in outputs)), resources)
            for info in shards
        ]
