"""`sidecar plan`: how large a cluster a rate needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sidecar_cli.completion import complete_pipeline
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output
from sidecar_cli.plan_flags import PLAN_OPTIONS


@takes(PLAN_OPTIONS)
def plan(
    pipeline: Annotated[
        Path,
        typer.Argument(
            metavar="PIPELINE",
            help="The pipeline's YAML file.",
            show_default=False,
            autocompletion=complete_pipeline,
        ),
    ],
    target_rows_per_hour: Annotated[int, typer.Option(help="The rate to reach.", metavar="N", show_default=False)],
    write: Annotated[
        tuple[str, Path] | None,
        typer.Option(help="Write the job's manifest for this plan: kuberay or utp, and the file.", metavar="KIND FILE"),
    ] = None,
    **options: OptionValue,
) -> None:
    """Work out how many actors and nodes a rate needs.

    The rate to start from comes from --smoke N, which runs N shards on this machine, or from --observed-rate with
    --observed-actors, as an earlier run showed them. The head node is not counted.
    """
    from sidecar_core.pipeline import load_pipeline

    from sidecar_cli.sizing import describe_plan, make_plan, plan_request, plan_view

    found = make_plan(load_pipeline(pipeline), plan_request(target_rows_per_hour, options))
    if write is not None:
        from sidecar_cli.jobs.write import write_job

        write_job(found, kind=write[0], file=write[1], pipeline=pipeline)
    open_output(json=options["json"]).show(describe_plan(found), plan_view(found))
