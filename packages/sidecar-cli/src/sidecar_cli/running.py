"""Runs a pipeline for a command."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer
from sidecar_runtimes.exit_codes import ExitCode
from sidecar_runtimes.run import RunOptions
from sidecar_runtimes.run_job import Program, run_job, run_options

from sidecar_cli.output import open_output
from sidecar_cli.program_name import program_name
from sidecar_cli.progress import open_progress

if TYPE_CHECKING:
    from sidecar_core.pipeline import Pipeline
    from sidecar_runtimes.prefixes import OutputPrefix

__all__ = ["run_options", "run_pipeline"]


def run_pipeline(
    pipeline: Pipeline,
    options: Mapping[str, Any],
    wanted: RunOptions,
    *,
    chosen: Mapping[str, OutputPrefix] | None = None,
) -> None:
    """Runs a pipeline, or shows what a run would do.

    Args:
        pipeline: the pipeline.
        options: the command's options: dry_run, json.
        wanted: the run's options.
        chosen: effective prefixes by output, for a command that chose them itself.

    Raises:
        typer.Exit: with 1, when shards failed or the run ended early.
        SidecarError: the run could not begin.
        KeyboardInterrupt: after saying how to go on.
    """
    program = Program(
        name=program_name(),
        arguments=sys.argv[1:],
        show=open_output(json=options["json"]).show,
        open_progress=open_progress,
    )
    if not run_job(pipeline, wanted, program=program, dry_run=options["dry_run"], chosen=chosen):
        raise typer.Exit(ExitCode.FOUND_FAILURES)
