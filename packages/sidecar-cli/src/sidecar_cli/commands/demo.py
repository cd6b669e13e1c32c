"""`sidecar demo`: a small dirty dataset, and the real thing on it."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from sidecar_runtimes.options import COMMON_OPTIONS, WORKERS

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, Table, open_output
from sidecar_cli.program_name import program_name

if TYPE_CHECKING:
    from sidecar_cli.demo import DemoReport


@takes((WORKERS, *COMMON_OPTIONS))
def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")] = Path("sidecar-demo"),
    **options: OptionValue,
) -> None:
    """Make a small dirty dataset and run the real thing on it.

    It draws pictures with known shapes, breaks some of them in the ways that real crawls are broken,
    builds both resized datasets, moves the shapes' boxes into them, measures every filter, adds another
    sidecar's columns and captions of tables joined by key, verifies all of it, and checks that each row
    came out as it must. It ends with pages that show what was made. It needs no network.
    """
    from sidecar_cli.demo import run_demo
    from sidecar_cli.progress import open_progress

    report = run_demo(
        folder, workers=options["workers"], observer=open_progress, say=lambda text: typer.echo(text, err=True)
    )
    open_output(json=options["json"]).show({"ok": report.ok, **asdict(report)}, _view(report))
    if not report.ok:
        raise typer.Exit(ExitCode.FOUND_FAILURES)


def _view(report: DemoReport) -> list[Block]:
    rows = [(step.name, step.rows, step.invalid, step.verified, step.prefix) for step in report.steps]
    view: list[Block] = [Table(("dataset", "rows", "invalid", "verified", "where"), rows)]
    if report.problems:
        view.append(Table(("what is wrong",), [(problem,) for problem in report.problems]))
    if report.surprises:
        view.append(Table(("rows that are not what they must be",), [(each,) for each in report.surprises]))
    else:
        view += [
            "",
            "Each broken picture was marked with the right reason, and each whole one was used.",
            "Each box sits on the shape that it names, in both resized pictures.",
            "Each caption and rating came to the row of its key.",
        ]
    folder, program = shlex.quote(report.folder), program_name()
    view += [
        "",
        "Try next:",
        f"  {program} check {folder}/configs/pipelines/*.yaml",
        f"  {program} run {folder}/configs/pipelines/filters.yaml --output-prefix {folder}/again/",
        f"  {program} verify {folder}/configs/pipelines/filters.yaml --output-prefix {folder}/again/ --all",
        "",
        "Open in a browser, for the moved boxes and for the measures:",
        *report.reports,
    ]
    return view
