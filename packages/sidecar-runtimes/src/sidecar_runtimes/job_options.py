"""The tables of options of jobs: what `sidecar` and `sidecar-run` offer alike, besides running a pipeline."""

from __future__ import annotations

from dataclasses import replace

from sidecar_runtimes.options import (
    COMMON_OPTIONS,
    IMAGE_COLUMN,
    INPUT_SUBPREFIX,
    KEY_COLUMN,
    MAIN_PREFIX,
    OUTPUT,
    OUTPUT_PREFIX,
    PICTURE_OPTIONS,
    SAMPLE_OPTIONS,
    SAMPLE_ROWS,
    TARGET,
    WORKERS,
    Option,
)

SET = Option(
    "--set",
    "a value that stands in place of one in the pipeline's YAML, or with dataset.KEY in its dataset's",
    "What",
    repeated=True,
    metavar="PATH=VALUE",
)

VERIFY_OPTIONS: tuple[Option, ...] = (
    SET,
    replace(OUTPUT_PREFIX, help="of a pipeline: where its output is; default the prefix in the YAML"),
    replace(OUTPUT, help="of a pipeline with several outputs: where the output of that name is"),
    replace(MAIN_PREFIX, help="of a prefix: its main dataset; default what its last run read"),
    replace(
        KEY_COLUMN,
        help=f"of a prefix: {KEY_COLUMN.help}; default that of its last run, else {KEY_COLUMN.default}",
        default=None,
    ),
    INPUT_SUBPREFIX,
    *SAMPLE_OPTIONS,
    *COMMON_OPTIONS,
)

_RULES = ("--audit-prefix", "--patch-size", "--output-format", "--max-crop-loss")
VERIFY_RESIZED_OPTIONS: tuple[Option, ...] = (
    replace(MAIN_PREFIX, help="the main dataset; required"),
    replace(TARGET, help=f"{TARGET.help}; at least one"),
    *(KEY_COLUMN, IMAGE_COLUMN, INPUT_SUBPREFIX),
    *(option for option in PICTURE_OPTIONS if option.name in _RULES),
    *(*SAMPLE_OPTIONS, SAMPLE_ROWS, WORKERS),
    *COMMON_OPTIONS,
)
