"""`sidecar plan`: how large a cluster a rate needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sidecar_cli.completion import complete_pipeline
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output
from sidecar_cli.plan_flags import MOST_ROWS, PLAN_OPTIONS


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
    target_rows_per_hour: Annotated[
        int, typer.Option(help="The rate to reach.", metavar="N", min=1, max=MOST_ROWS, show_default=False)
    ],
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
    from sidecar_core.overrides import parse_overrides
    from sidecar_core.pipeline import load_pipeline
    from sidecar_runtimes.program import say

    from sidecar_cli.jobs.placeholders import PLACEHOLDERS
    from sidecar_cli.jobs.write import check_target, write_job
    from sidecar_cli.sizing import describe_plan, make_plan, plan_request, plan_view

    if write is not None:
        check_target(*write, pipeline)
    overrides = options["set"]
    found = make_plan(
        load_pipeline(pipeline, overrides=parse_overrides(overrides)), plan_request(target_rows_per_hour, options)
    )
    if write is not None:
        job = write_job(found, kind=write[0], file=write[1], pipeline=pipeline, overrides=overrides)
        say(f"{write[1]}: from the template {job.template}; left to replace:")
        for name in job.left:
            say(f"  <{name}>  {PLACEHOLDERS[name][0]}")
    open_output(json=options["json"]).show(describe_plan(found), plan_view(found))
