"""`sidecar build-resized` and its two presets: resized datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sidecar_core.errors import ConfigError, UsageError
from sidecar_runtimes.options import (
    IMAGE_COLUMN,
    KEY_COLUMN,
    MAIN_PREFIX,
    OUTPUT_PREFIX,
    PICTURE_OPTIONS,
    RUNTIME_OPTIONS,
    TARGET,
)

from sidecar_cli.options import OptionValue, takes

if TYPE_CHECKING:
    from sidecar_runtimes.prefixes import OutputPrefix

_MAIN_PREFIX = replace(MAIN_PREFIX, help="the main dataset; required")
_OUTPUT_PREFIX = replace(
    OUTPUT_PREFIX, help="where the resized dataset is written; default a new folder beside the main dataset"
)
_TARGET = replace(TARGET, help=f"{TARGET.help}; at least one")
_PRESET_OPTIONS = (_MAIN_PREFIX, _OUTPUT_PREFIX, KEY_COLUMN, IMAGE_COLUMN, *PICTURE_OPTIONS, *RUNTIME_OPTIONS)
_SEVERAL_OPTIONS = (_MAIN_PREFIX, _TARGET, KEY_COLUMN, IMAGE_COLUMN, *PICTURE_OPTIONS, *RUNTIME_OPTIONS)


@takes(_PRESET_OPTIONS)
def build_0_262mp(**options: OptionValue) -> None:
    """Build the resized dataset of area 512 × 512 px."""
    _build_one(options, 512)


@takes(_PRESET_OPTIONS)
def build_1_05mp(**options: OptionValue) -> None:
    """Build the resized dataset of area 1024 × 1024 px."""
    _build_one(options, 1024)


@takes(_SEVERAL_OPTIONS)
def build_resized(**options: OptionValue) -> None:
    """Build resized datasets, several in one pass.

    Each picture is read and decoded once, and keeps its aspect ratio up to a small crop. Rows whose
    picture cannot be used stay in the output, with the reason.
    """
    from sidecar_cli.resize_flags import parse_targets

    targets = parse_targets(options["target"])
    if not targets:
        raise UsageError("build-resized needs --target", fix="--target 512=PREFIX --target 1024=PREFIX")
    _build(options, targets)


def _build_one(options: Mapping[str, Any], side: int) -> None:
    from sidecar_runtimes.prefixes import resolve_output_prefix

    from sidecar_cli.resize_flags import require_main_prefix

    main = require_main_prefix(options)
    choice = resolve_output_prefix(f"{main.rstrip('/')}_{side}/", options["output_prefix"])
    _build(options, {side: choice.prefix}, chosen={str(side): choice}, output_prefix=choice.prefix)


def _build(
    options: Mapping[str, Any],
    targets: Mapping[int, str],
    *,
    chosen: Mapping[str, OutputPrefix] | None = None,
    output_prefix: str | None = None,
) -> None:
    if options["audit_prefix"] and len(targets) > 1:
        raise UsageError("--audit-prefix is for one target", fix="leave it out: each target has a name of its own")
    from sidecar_resize.presets import ResizedTarget, resized_pipeline

    from sidecar_cli.resize_flags import (
        in_words_of_flags,
        picture_params,
        refuse_overlapping_targets,
        require_main_prefix,
    )
    from sidecar_cli.running import run_options, run_pipeline

    main_prefix = require_main_prefix(options)
    refuse_overlapping_targets(main_prefix, targets)
    try:
        pipeline = resized_pipeline(
            main_prefix,
            [ResizedTarget(side, prefix, options["audit_prefix"]) for side, prefix in targets.items()],
            key_column=options["key_column"],
            image_column=options["image_column"],
            params=picture_params(options),
        )
    except ConfigError as error:
        raise in_words_of_flags(error, targets) from error
    run_pipeline(pipeline, options, run_options(options, output_prefix=output_prefix), chosen=chosen)
