"""Struct types in JSON values, for commands that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidecar_core.types import StructTypes


def describe_struct(name: str, types: StructTypes) -> dict[str, Any]:
    """Returns a struct type's doc, place and fields. Raises ConfigError with the nearest name when unknown."""
    return {
        "name": name,
        "doc": types.doc(name),
        "where": types.where(name),
        "fields": [
            {"name": field.name, "type": field.type or field.type_ref, "doc": field.doc} for field in types.fields(name)
        ],
    }
