"""`--target AREA=PREFIX`: which resized datasets a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar_core.errors import UsageError
from sidecar_core.storage import normalise_prefix

from sidecar_runtimes.options import parse_named_prefixes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def parse_targets(values: Sequence[str], *, flag: str = "--target") -> dict[int, str]:
    """Splits `--target AREA=PREFIX` values.

    Args:
        values: what was given.
        flag: what the option is called.

    Raises:
        UsageError: a value that is not AREA=PREFIX, or an area that is not a whole number above zero.
    """
    targets: dict[int, str] = {}
    for value in values:
        if not all(value.partition("=")):
            raise UsageError(f"{flag} {value!r} is not AREA=PREFIX", fix=f"{flag} 512=PREFIX")
    for side, prefix in parse_named_prefixes(flag, values).items():
        if not side.isascii() or not side.isdigit() or int(side) == 0:
            raise UsageError(f"{flag} {side}={prefix}: {side!r} is not an area", "512 or 1024", f"{flag} 512=PREFIX")
        targets[int(side)] = prefix
    return targets


def require_main_prefix(options: Mapping[str, Any]) -> str:
    """Returns `--main-prefix`, normalised. Raises UsageError when it is missing."""
    if not options["main_prefix"]:
        raise UsageError("--main-prefix is missing", fix="--main-prefix s3://bucket/dataset_parquet/")
    return normalise_prefix(options["main_prefix"])
