"""`sidecar run`: a pipeline over a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from sidecar_runtimes.job_options import SET
from sidecar_runtimes.options import RUN_OPTIONS

from sidecar_cli.completion import complete_pipeline
from sidecar_cli.options import OptionValue, takes


@takes((SET, *RUN_OPTIONS))
def run(
    pipeline: Annotated[
        Path,
        typer.Argument(
            metavar="PIPELINE",
            help="The pipeline's YAML file.",
            show_default=False,
            autocompletion=complete_pipeline,
        ),
    ],
    **options: OptionValue,
) -> None:
    """Run a pipeline over its dataset's shards.

    Without --output-prefix the output is a new folder beside the dataset's sidecar_prefix; outputs that
    name a prefix in the pipeline are written there. Shards that are there are never replaced unless
    --overwrite or --redo-stale says so.
    """
    from sidecar_core.overrides import parse_overrides
    from sidecar_core.pipeline import load_pipeline

    from sidecar_cli.running import run_options, run_pipeline

    run_pipeline(load_pipeline(pipeline, overrides=parse_overrides(options["set"])), options, run_options(options))
