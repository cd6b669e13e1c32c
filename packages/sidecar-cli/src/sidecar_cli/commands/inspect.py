"""`sidecar inspect`: what a dataset or a file holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from sidecar_runtimes.options import COMMON_OPTIONS, INPUT_SUBPREFIX, KEY_COLUMN, MAIN_PREFIX, SAMPLE_OPTIONS, Option

from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output

_WITH, _RESULT = "With", "Result"
_OPTIONS = (
    Option("--rows", "show so many rows", _RESULT, type=int, default=5, metavar="N"),
    Option(
        "--sql",
        "show what this query of the table `data` finds, such as "
        "'select filter_status.status, count(*) from data group by 1'",
        _RESULT,
        metavar="QUERY",
    ),
    Option("--max-rows", "for --sql: show so many rows of its result; default 1,000", _RESULT, type=int, metavar="N"),
    replace(MAIN_PREFIX, help="for --sql: also the columns of this main dataset", group=_WITH, aliases=("--main",)),
    Option("--sidecar", "for --sql: also the columns of this sidecar", _WITH, repeated=True, metavar="PREFIX"),
    replace(
        KEY_COLUMN,
        help="for --sql: column that names a row in all of them; default what sidecar wrote into one",
        group=_WITH,
        default=None,
    ),
    Option(
        "--missing",
        "for --sql: what to do about shards that one of them lacks; default error",
        _WITH,
        choices=("error", "null"),
    ),
    INPUT_SUBPREFIX,
    *SAMPLE_OPTIONS,
    *COMMON_OPTIONS,
)


@takes(_OPTIONS)
def inspect(
    what: Annotated[
        str,
        typer.Argument(metavar="PREFIX|FILE", help="A main dataset, an output, or one shard.", show_default=False),
    ],
    **options: OptionValue,
) -> None:
    """Show what a dataset or a file holds.

    That is its schema, rows, nulls, where it is from, and a few rows. Nulls are counted in a sample of the
    shards; pictures are not read for that. A struct counts as null where everything in it is null.

    With --sql, DuckDB runs a query over the table `data`: the rows of PREFIX, with the columns of --sidecar and
    --main-prefix beside them, and only columns that the query uses are read. Of a name that several have, PREFIX's
    comes first, then those of the sidecars as they are listed, then the main dataset's. A query can neither read
    other files nor write any.
    """
    from sidecar_cli.inspecting import inspect_job

    inspect_job(what, options, open_output(json=options["json"]).show)
