"""`sidecar check`: pipelines, validated without touching storage."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from sidecar_core.errors import ConfigError
from sidecar_runtimes.options import COMMON_OPTIONS

from sidecar_cli.completion import complete_pipeline
from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, open_output


@takes(COMMON_OPTIONS)
def check(
    pipelines: Annotated[
        list[Path],
        typer.Argument(
            metavar="PIPELINE", help="Pipeline YAML files.", show_default=False, autocompletion=complete_pipeline
        ),
    ],
    **options: OptionValue,
) -> None:
    """Validate pipelines without touching storage.

    Checks their datasets, operations, parameters and types, and lists every problem with its place.
    """
    from sidecar_core.pipeline import load_pipeline

    from sidecar_cli.pipeline_words import describe_pipeline, pipeline_line

    results: list[dict[str, Any]] = []
    problems: list[str] = []
    view: list[Block] = []
    for path in pipelines:
        try:
            results.append(describe_pipeline(load_pipeline(path), path))
            view.append(pipeline_line(results[-1]))
        except ConfigError as error:
            results.append({"file": str(path), "ok": False, "problems": [asdict(each) for each in error.problems]})
            problems.append(str(error))
    open_output(json=options["json"]).show({"ok": not problems, "pipelines": results}, view)
    if problems:
        typer.echo("\n".join(problems), err=True)
        raise typer.Exit(ExitCode.USAGE)
