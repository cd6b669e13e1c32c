"""`sidecar verify`: proof that an output is aligned with its main dataset."""

from __future__ import annotations

from typing import Annotated

import typer
from sidecar_runtimes.job_options import VERIFY_OPTIONS

from sidecar_cli.completion import complete_pipeline
from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output


@takes(VERIFY_OPTIONS)
def verify(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE|PREFIX",
            help="A pipeline YAML, or the prefix of an output.",
            show_default=False,
            autocompletion=complete_pipeline,
        ),
    ],
    **options: OptionValue,
) -> None:
    """Prove that an output is aligned with its main dataset.

    It also shows what the output's columns hold.

    Of a pipeline, its outputs are verified against its plan. Of a prefix, the main dataset and the key
    column are those in its last run's manifest, unless --main-prefix names them.
    """
    from sidecar_runtimes.verify_job import verify_job

    if not verify_job(what, options, open_output(json=options["json"]).show):
        raise typer.Exit(ExitCode.FOUND_FAILURES)
