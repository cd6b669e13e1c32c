"""`sidecar report`: one page that shows what an output holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from sidecar_runtimes.options import (
    COMMON_OPTIONS,
    IMAGE_COLUMN,
    INPUT_SUBPREFIX,
    KEY_COLUMN,
    MAIN_PREFIX,
    WORKERS,
    Option,
)

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output

_WHERE, _WHICH, _RESULT = MAIN_PREFIX.group, INPUT_SUBPREFIX.group, COMMON_OPTIONS[0].group
_OPTIONS = (
    replace(MAIN_PREFIX, help="where pictures come from; default the main dataset that the shards' footers name"),
    KEY_COLUMN,
    replace(IMAGE_COLUMN, help="column with the pictures' bytes; default that of the last run", default=None),
    Option(
        "--sample-shards", "look at the rows of so many shards, drawn at random", _WHICH, type=int, default=2000,
        metavar="N", least=1,
    ),
    Option("--seed", "of the sample", _WHICH, type=int, default=0),
    Option(
        "--thumbnails", "show so many rows at each end of a measure, twice as many of each reason", _WHICH, type=int,
        default=4, metavar="N", least=0,
    ),
    Option("--overlays", "show so many rows with their boxes, where there are any", _WHICH, type=int, default=4,
        metavar="N", least=0),
    Option(
        "--picture-gib", "read so many GiB of pictures at most to find those that are shown", _WHICH, type=float,
        default=2.0, metavar="GIB", least=0,
    ),
    replace(WORKERS, help="processes that decode pictures; default the machine's cores"),
    Option(
        "--out",
        "the page, which ends with .html; default _sidecar/report.html in a local output that sidecar made, else "
        "sidecar-report-NAME.html in this folder",
        _RESULT,
        aliases=("-o",),
        metavar="FILE",
    ),
    Option("--open", "open the page in the browser", _RESULT, type=bool, default=False),
    *COMMON_OPTIONS,
)  # fmt: skip


@takes(_OPTIONS)
def report(
    prefix: Annotated[
        str,
        typer.Argument(metavar="PREFIX", help="An output, or any dataset of Parquet shards.", show_default=False),
    ],
    **options: OptionValue,
) -> None:
    """Show what an output holds, as one page.

    How much of each column is there, how each measure is spread, why rows are invalid, what the pictures with the
    lowest and highest values and those that failed look like, and what the runs did. The page is one file that
    loads nothing. Exit status 1 when a shard cannot be read; the page is there all the same.
    """
    from pathlib import Path

    from sidecar_cli.report.file import open_in_browser
    from sidecar_cli.reporting import make_report, report_view

    result = make_report(prefix, options)
    open_output(json=options["json"]).show(result, report_view(result))
    if options["open"] and not open_in_browser(Path(result["path"])):
        typer.echo("there is no browser that this program can open", err=True)
    if result["unreadable"]:
        raise typer.Exit(ExitCode.FOUND_FAILURES)
