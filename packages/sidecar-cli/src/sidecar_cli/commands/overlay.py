"""`sidecar overlay`: boxes drawn on pictures."""

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
    OUTPUT_PREFIX,
    TARGET,
    WORKERS,
    Option,
)

from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output

_WHERE, _WHICH, _RESULT = MAIN_PREFIX.group, INPUT_SUBPREFIX.group, COMMON_OPTIONS[0].group
_OPTIONS = (
    replace(MAIN_PREFIX, help="the main dataset; default what the pipeline or the sidecar's last run names"),
    replace(
        TARGET,
        name="--resized",
        help=f"{TARGET.help}; default those that the pipeline or the last run names",
        aliases=("--target",),
    ),
    replace(OUTPUT_PREFIX, help="of a pipeline: where its output is; default the prefix in the YAML"),
    *(KEY_COLUMN, IMAGE_COLUMN),
    Option(
        "--description-column",
        "column with boxes; those of a resized dataset are in NAME_crop_512 and so on",
        _WHERE,
        default="structured_description",
        metavar="NAME",
    ),
    Option(
        "--bbox-key",
        "key under which boxes stand; default what the pipeline says, else bbox, bounding_box, box_2d",
        _WHERE,
        repeated=True,
        metavar="NAME",
    ),
    INPUT_SUBPREFIX,
    Option("--sample", "show so many rows, drawn at random", _WHICH, type=int, default=12, metavar="N"),
    Option("--seed", "of the sample", _WHICH, type=int, default=0),
    Option("--key", "show the row with this key instead", _WHICH, repeated=True, metavar="KEY"),
    Option("--row", "show this row instead, such as part-00000.parquet:7", _WHICH, repeated=True, metavar="SHARD:ROW"),
    replace(WORKERS, help="processes that draw; default the machine's cores"),
    Option(
        "--out",
        "a page that ends with .html and is replaced, or a new folder for one PNG a row",
        _RESULT,
        default="overlay.html",
        aliases=("-o",),
        metavar="FILE|FOLDER",
    ),
    Option(
        "--max-side", "scale larger pictures down to this longer side", _RESULT, type=int, default=1024, metavar="PX"
    ),
    *COMMON_OPTIONS,
)


@takes(_OPTIONS)
def overlay(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="PIPELINE|PREFIX",
            help="A pipeline with crop_structured_description, or the sidecar that it made; "
            "without it, --main-prefix alone.",
            show_default=False,
        ),
    ] = None,
    **options: OptionValue,
) -> None:
    """Draw the boxes of original, 512 and 1024 side by side.

    Rows are drawn at random, or named. The boxes of the original are those of the main dataset's structured
    description, those of the resized pictures stand in the sidecar. A picture that cannot be used shows why.
    """
    from sidecar_cli.overlaying import make_overlay, overlay_view

    data = make_overlay(what, options)
    open_output(json=options["json"]).show(data, overlay_view(data))
