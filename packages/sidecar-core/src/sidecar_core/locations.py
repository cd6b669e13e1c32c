"""Types for parameters that say where data is: resolved against the YAML file, and left out of fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer, SerializationInfo, ValidationInfo

from sidecar_core.storage.uris import normalise_prefix

WITHOUT_LOCATIONS: Mapping[str, object] = {"sidecar.without_locations": True}
"""Context for `model_dump` of parameters that go into a fingerprint: each location becomes an empty text."""


def relative_to(folder: Path | None) -> dict[str, object]:
    """Returns the context for validating parameters whose relative locations start from `folder`."""
    return {"sidecar.folder": folder}


def _absolute(text: str, info: ValidationInfo) -> str:
    held = info.context
    folder = held.get("sidecar.folder") if isinstance(held, Mapping) else None
    return normalise_prefix(text, relative_to=folder if isinstance(folder, Path) else None)


def _absolute_location(text: str, info: ValidationInfo) -> str:
    location = _absolute(text, info)
    return location if text.endswith("/") else location.rstrip("/") or "/"


def _unless_left_out(text: str, info: SerializationInfo) -> str:
    held = info.context
    return "" if isinstance(held, Mapping) and held.get("sidecar.without_locations") else text


Prefix = Annotated[str, AfterValidator(_absolute), PlainSerializer(_unless_left_out, return_type=str)]
"""A parameter's type for a dataset's prefix: absolute, with one slash at its end; otherwise as `Location`."""

Location = Annotated[str, AfterValidator(_absolute_location), PlainSerializer(_unless_left_out, return_type=str)]
"""A parameter's type for a file or a prefix: absolute, with a slash at its end where one was written.

A relative one starts from the YAML file's folder. What it says is no part of fingerprints: the versions of what was
read are.
"""
