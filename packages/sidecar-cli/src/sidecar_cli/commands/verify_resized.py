"""`sidecar verify-resized`: proof that resized datasets hold what they say."""

from __future__ import annotations

import typer
from sidecar_runtimes.job_options import VERIFY_RESIZED_OPTIONS

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output


@takes(VERIFY_RESIZED_OPTIONS)
def verify_resized(**options: OptionValue) -> None:
    """Prove that resized datasets hold what they say.

    Of each shard that is looked at, the keys are proven and the audit columns read; of its sampled rows,
    the picture is decoded and held against the audit. A receipt is left in each dataset's run folder.
    """
    from sidecar_runtimes.verify_resized_job import verify_resized_job

    if not verify_resized_job(options, open_output(json=options["json"]).show):
        raise typer.Exit(ExitCode.FOUND_FAILURES)
