"""`sidecar verify`: proof that an output is aligned with its main dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from sidecar_core.errors import UsageError
from sidecar_runtimes.options import (
    COMMON_OPTIONS,
    INPUT_SUBPREFIX,
    KEY_COLUMN,
    MAIN_PREFIX,
    OUTPUT,
    OUTPUT_PREFIX,
    SAMPLE_OPTIONS,
)

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output

_OPTIONS = (
    replace(OUTPUT_PREFIX, help="of a pipeline: where its output is; default the prefix in the YAML"),
    replace(OUTPUT, help="of a pipeline with several outputs: where the output of that name is"),
    replace(MAIN_PREFIX, help="of a prefix: its main dataset; default what its last run read"),
    KEY_COLUMN,
    INPUT_SUBPREFIX,
    *SAMPLE_OPTIONS,
    *COMMON_OPTIONS,
)


@takes(_OPTIONS)
def verify(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE|PREFIX", help="A pipeline YAML, or the prefix of an output.", show_default=False
        ),
    ],
    **options: OptionValue,
) -> None:
    """Prove that an output is aligned with its main dataset.

    It also shows what the output's columns hold.

    Of a pipeline, its outputs are verified against its plan. Of a prefix, the main dataset and the key
    column are those in its last run's manifest, unless --main-prefix names them.
    """
    from sidecar_cli.verifying import describe_verify, verify_pipeline, verify_prefix, verify_view

    if options["sample"] < 1:
        raise UsageError(f"--sample {options['sample']}: must be at least 1", fix="--all for every shard")
    if what.endswith((".yaml", ".yml")):
        reports = verify_pipeline(Path(what), options)
    else:
        reports = {"output": verify_prefix(what, options)}
    data = {"ok": all(report.ok for report in reports.values()), "outputs": {}}
    data["outputs"] = {name: describe_verify(report) for name, report in reports.items()}
    view = [block for report in reports.values() for block in verify_view(report, sampled=not options["all"])]
    open_output(json=options["json"]).show(data, view)
    if not data["ok"]:
        raise typer.Exit(ExitCode.FOUND_FAILURES)
