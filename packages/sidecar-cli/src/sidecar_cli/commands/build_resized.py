"""`sidecar build-resized` and its two presets: resized datasets."""

from __future__ import annotations

from collections.abc import Mapping
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
    parse_named_prefixes,
)

from sidecar_cli.options import OptionValue, takes

if TYPE_CHECKING:
    from sidecar_runtimes.prefixes import OutputPrefix

_PRESET_OPTIONS = (MAIN_PREFIX, OUTPUT_PREFIX, KEY_COLUMN, IMAGE_COLUMN, *PICTURE_OPTIONS, *RUNTIME_OPTIONS)
_SEVERAL_OPTIONS = (MAIN_PREFIX, TARGET, KEY_COLUMN, IMAGE_COLUMN, *PICTURE_OPTIONS, *RUNTIME_OPTIONS)


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
    targets = parse_targets(options["target"])
    if not targets:
        raise UsageError("build-resized needs --target", fix="--target 512=PREFIX --target 1024=PREFIX")
    _build(options, targets)


def parse_targets(values: list[str]) -> dict[int, str]:
    """Splits `--target AREA=PREFIX` values.

    Raises:
        UsageError: an area that is not a whole number above zero.
    """
    targets: dict[int, str] = {}
    for side, prefix in parse_named_prefixes("--target", values).items():
        if not side.isascii() or not side.isdigit() or int(side) == 0:
            raise UsageError(f"--target {side}={prefix}: {side!r} is not an area", "512 or 1024", "--target 512=PREFIX")
        targets[int(side)] = prefix
    return targets


def require_main_prefix(options: Mapping[str, Any]) -> str:
    """Returns `--main-prefix`, normalised. Raises UsageError when it is missing."""
    if not options["main_prefix"]:
        raise UsageError("--main-prefix is missing", fix="--main-prefix s3://bucket/dataset_parquet/")
    from sidecar_core.storage import normalise_prefix

    return normalise_prefix(options["main_prefix"])


def _build_one(options: Mapping[str, Any], side: int) -> None:
    from sidecar_runtimes.prefixes import resolve_output_prefix

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

    from sidecar_cli.resize_flags import in_words_of_flags, picture_params, refuse_overlapping_targets
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
        raise in_words_of_flags(error) from error
    run_pipeline(pipeline, options, run_options(options, output_prefix=output_prefix), chosen=chosen)
