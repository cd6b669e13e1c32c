"""`sidecar retry`: the rows that failed, once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from sidecar_runtimes.job_options import SET
from sidecar_runtimes.options import RETRY_OPTIONS

from sidecar_cli.completion import complete_pipeline, complete_reasons
from sidecar_cli.options import OptionValue, takes


@takes((SET, *RETRY_OPTIONS), complete={"--reason": complete_reasons})
def retry(
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
    """Compute only the rows with given reasons again.

    Every other value stays as it is. Each shard with such rows is replaced in one step. Run it after what
    made the rows fail has changed: a longer row_timeout_s, a machine with more memory, a mended decoder.
    """
    from sidecar_core.overrides import parse_overrides
    from sidecar_core.pipeline import load_pipeline

    from sidecar_cli.retrying import retry_pipeline

    retry_pipeline(load_pipeline(pipeline, overrides=parse_overrides(options["set"])), options)
