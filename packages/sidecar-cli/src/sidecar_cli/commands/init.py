"""`sidecar init`: the YAML of a new dataset, made by looking at it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from sidecar_core.problems import counted
from sidecar_runtimes.options import COMMON_OPTIONS, IMAGE_COLUMN, KEY_COLUMN, MAIN_PREFIX, Option

from sidecar_cli.completion import complete_filters
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, Facts, open_output

if TYPE_CHECKING:
    from sidecar_cli.init.job import InitReport

_WHERE, _STORE, _FILES = MAIN_PREFIX.group, "How to reach it", "Files"
_OPTIONS = (
    replace(MAIN_PREFIX, help="the dataset to look at: a folder, s3://… or gs://…; asked for on a terminal"),
    Option(
        "--sidecar-prefix", "where its sidecar is to be; default beside it, <main>_sidecar/", _WHERE, metavar="PREFIX"
    ),
    replace(KEY_COLUMN, help="column that names a row; default the one that can be seen to", default=None),
    replace(IMAGE_COLUMN, help="column with the pictures; default the one that can be seen to hold them", default=None),
    Option(
        "--pipeline",
        "what the pipeline does: measures, resized pictures, or the declared columns alone",
        _FILES,
        default="filters",
        choices=("filters", "resized", "scaffold"),
    ),
    Option(
        "--filters", "of a pipeline of filters; default the nine of the standard pass", _FILES, metavar="NAME[,NAME]"
    ),
    Option("--configs", "the folder with datasets/ and pipelines/", _FILES, default="configs", metavar="FOLDER"),
    Option("--force", "replace the two files when they are there", _FILES, type=bool, default=False),
    Option("--region", "AWS region, for the dataset's YAML; default what AWS_REGION says", _STORE, metavar="NAME"),
    Option("--profile", "AWS profile, likewise; default what AWS_PROFILE says", _STORE, metavar="NAME"),
    Option("--endpoint-url", "of a server that is compatible with S3, likewise", _STORE, metavar="URL"),
    *COMMON_OPTIONS,
)


@takes(_OPTIONS, complete={"--filters": complete_filters})
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What the dataset is to be called, such as pets.", show_default=False)
    ],
    **options: OptionValue,
) -> None:
    """Write the YAML of a new dataset by looking at it.

    It reads the first shard, and the keys of the last: the image column is the one whose values begin like
    pictures (also in the layout of Hugging Face datasets), the key column one whose values are all there and all
    different. It asks only for what it cannot see; where nobody can answer, it says which flag does. Nothing but
    the two files is written.
    """
    from sidecar_cli.init.job import init_dataset

    report = init_dataset(name, options)
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)
    steps = report.next_commands()
    data = {
        "name": name,
        "dataset_yaml": str(report.files.dataset),
        "pipeline_yaml": str(report.files.pipeline),
        "main_prefix": report.config.main_prefix,
        "sidecar_prefix": report.config.sidecar_prefix,
        "key_column": report.key.column,
        "image_column": report.image.column,
        "pipeline": report.config.pipeline,
        "shards": report.look.shards,
        "size_bytes": report.look.size_bytes,
        "looked_at": report.look.shard,
        "unreadable": list(report.look.unreadable),
        "warnings": report.warnings,
        "next": steps,
    }
    open_output(json=options["json"]).show(data, _view(report, steps))


def _view(report: InitReport, steps: list[str]) -> list[Block]:
    look, image = report.look, report.image
    return [
        Facts(
            [
                ("main dataset", look.prefix),
                ("shards", f"{look.shards:,} ({counted(look.size_bytes, 'byte')})"),
                ("looked at", f"{look.shard} ({counted(look.rows, 'row')})"),
                ("key column", f"{report.key.column} ({report.key.why})"),
                ("image column", f"{image.column} ({image.why})" if image.column else f"none: {image.why}"),
                ("sidecar", report.config.sidecar_prefix),
                ("dataset YAML", str(report.files.dataset)),
                ("pipeline YAML", str(report.files.pipeline)),
            ]
        ),
        "",
        "Next:",
        *(f"  {command}" for command in steps),
    ]
