"""`sidecar pack`: a main dataset from a folder of pictures."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from sidecar_runtimes.options import COMMON_OPTIONS

from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, Facts, open_output
from sidecar_cli.program_name import program_name


@takes(COMMON_OPTIONS)
def pack(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Pictures, at any depth.", show_default=False)],
    prefix: Annotated[
        str,
        typer.Argument(metavar="PREFIX", help="Where the dataset goes: a folder, s3://… or gs://…", show_default=False),
    ],
    *,
    shard_rows: Annotated[int, typer.Option(help="Most rows of a shard.", min=1)] = 512,
    dataset_yaml: Annotated[
        Path | None, typer.Option(help="Also write a dataset YAML to this new file.", show_default=False)
    ] = None,
    **options: OptionValue,
) -> None:
    """Make a main dataset from a folder of pictures.

    The key of a picture is its path below the folder. Its bytes are stored as they are. A file of the
    same name ending with .txt becomes its caption, one ending with .json its structured_description.
    """
    from sidecar_cli.dataset_yaml import write_dataset_yaml
    from sidecar_cli.pack import IMAGE_COLUMN, KEY_COLUMN, pack_folder
    from sidecar_cli.whole_files import refuse_existing_file

    if dataset_yaml is not None:
        refuse_existing_file(dataset_yaml)
    report = pack_folder(folder, prefix, shard_rows=shard_rows)
    if dataset_yaml is not None:
        write_dataset_yaml(dataset_yaml, main_prefix=report.prefix, key_column=KEY_COLUMN, image_column=IMAGE_COLUMN)
    view: list[Block] = [
        Facts(
            [
                ("main dataset", report.prefix),
                ("shards", len(report.shards)),
                ("rows", report.rows),
                ("bytes of pictures", report.image_bytes),
                ("columns", ", ".join(report.columns)),
                *((f"left out: {why}", count) for why, count in report.skipped.items()),
                *([("dataset YAML", str(dataset_yaml))] if dataset_yaml else []),
            ]
        ),
        "",
        "Next, make resized pictures and prove that they are aligned:",
        *(f"  {line}" for line in next_commands(report.prefix)),
        *([] if dataset_yaml else ["Or write YAML for it, to measure them:", f"  {init_command(report.prefix)}"]),
    ]
    data = {**asdict(report), "dataset_yaml": str(dataset_yaml) if dataset_yaml else None}
    open_output(json=options["json"]).show(data, view)


def init_command(main_prefix: str) -> str:
    """Returns what writes a dataset YAML and a pipeline YAML for a new main dataset, quoted for a shell."""
    from sidecar_cli.dataset_yaml import dataset_name

    return f"{program_name()} init {dataset_name(main_prefix)} --main-prefix {shlex.quote(main_prefix)}"


def next_commands(main_prefix: str) -> list[str]:
    """Returns what to type after a main dataset was made, quoted for a shell."""
    main = shlex.quote(main_prefix)
    small = shlex.quote(f"{main_prefix.rstrip('/')}_512/")
    return [
        f"{program_name()} build-0-262mp --main-prefix {main} --output-prefix {small}",
        f"{program_name()} verify-resized --main-prefix {main} --target 512={small}",
    ]
