"""From the flags of `build-*` to what `resize_image` takes, and back to the flags when they are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sidecar_core.errors import ConfigError, RefusedError
from sidecar_core.storage import prefixes_overlap
from sidecar_runtimes.options import PICTURE_OPTIONS, Option
from sidecar_runtimes.resized_targets import parse_targets, require_main_prefix

from sidecar_cli.dataset_yaml import sidecar_prefix_beside

__all__ = [
    "in_words_of_flags",
    "parse_targets",
    "picture_params",
    "refuse_overlapping_targets",
    "require_main_prefix",
]


def refuse_overlapping_targets(main_prefix: str, targets: Mapping[int, str]) -> None:
    """Raises RefusedError when a resized dataset would touch the main dataset, its sidecar or another resized one."""
    taken = {"the main dataset": main_prefix, "its sidecar": sidecar_prefix_beside(main_prefix)}
    for side, prefix in targets.items():
        for owner, other in taken.items():
            if prefixes_overlap(prefix, other):
                raise RefusedError(
                    f"the {side} dataset at {prefix!r} equals, holds or lies in {owner} at {other!r}",
                    "a prefix of its own for each resized dataset",
                    "choose another prefix",
                )
        taken[f"the {side} dataset"] = prefix


def picture_params(options: Mapping[str, Any]) -> dict[str, object]:
    """Returns the parameters of `resize_image` that the command line gives, the others being left to the op."""
    return {
        _op_parameter(option): options[option.parameter]
        for option in PICTURE_OPTIONS
        if option.parameter != "audit_prefix" and options[option.parameter] != option.default
    }


def in_words_of_flags(error: ConfigError, targets: Mapping[int, str]) -> ConfigError:
    """Returns the error with the flags in place of the parameters that `resize_image` complained about."""
    flags = {f"operations[0].{_op_parameter(option)}": option.name for option in PICTURE_OPTIONS}
    for index, (side, prefix) in enumerate(targets.items()):
        flags[f"operations[0].targets[{index}].area"] = f"--target {side}={prefix}"
    return ConfigError([replace(each, key_path=flags.get(each.key_path, each.key_path)) for each in error.problems])


def _op_parameter(option: Option) -> str:
    """Returns what `resize_image` calls a picture option."""
    return {"patch_size": "patch"}.get(option.parameter, option.parameter)
