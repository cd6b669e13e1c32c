"""What YAML may say, in words: the fields of a pydantic model, with type, range, default and meaning."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


def describe_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Returns each field of a model as JSON values: name, type, required, default, doc."""
    schema = model.model_json_schema()
    return _fields(schema, schema.get("$defs", {}), documented(model))


def describe_nested(model: type[BaseModel]) -> dict[str, list[dict[str, Any]]]:
    """Returns the same of the models that its fields refer to, by their names, in alphabetical order."""
    definitions: dict[str, Any] = model.model_json_schema().get("$defs", {})
    return {
        name: _fields(schema, definitions, _documented(schema.get("description", "")))
        for name, schema in sorted(definitions.items())
        if "properties" in schema
    }


def yaml_words(value: object) -> str:
    """Returns a default as YAML spells it; none as what people call it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) and value.isidentifier() else json.dumps(value)


def documented(cls: type) -> dict[str, str]:
    """Returns what the `Attributes:` section of a class's docstring says of each of them."""
    return _documented(inspect.cleandoc(cls.__doc__ or ""))


def _documented(doc: str) -> dict[str, str]:
    docs: dict[str, str] = {}
    name = ""
    for line in doc.partition("Attributes:\n")[2].splitlines():
        begins = re.match(r" {4}(\w+): +(.*)", line)
        if begins:
            name, docs[begins[1]] = begins[1], begins[2]
        elif line.startswith(" " * 5) and name:
            docs[name] += f" {line.strip()}"
        elif line.strip():
            break
    return docs


def _fields(schema: dict[str, Any], definitions: dict[str, Any], words: dict[str, str]) -> list[dict[str, Any]]:
    required = set(schema.get("required", ()))
    return [
        {
            "name": name,
            "type": _type_words(field, definitions),
            "required": name in required,
            "default": field.get("default"),
            "doc": words.get(name) or " ".join(field.get("description", "").split()),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _type_words(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Returns a JSON schema's type in a few words; of a mapping with known keys, the keys; of a number, its range."""
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return " | ".join(_type_words(each, definitions) for each in schema["anyOf"] if each.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type_words(schema.get('items', {}), definitions)}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type_words(schema['additionalProperties'], definitions)}"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        keys = definitions.get(name, {}).get("properties")
        return f"{{{', '.join(keys)}}}" if keys else name
    return str(schema.get("type", "any")) + _range_words(schema)


def _range_words(schema: dict[str, Any]) -> str:
    least, most, above = (schema.get(key) for key in ("minimum", "maximum", "exclusiveMinimum"))
    if least is not None and most is not None:
        return f" {least:g}-{most:g}" if isinstance(most, float) else f" {least}-{most}"
    words = [
        f"{word} {bound:g}" for word, bound in (("from", least), ("above", above), ("to", most)) if bound is not None
    ]
    return f" {' '.join(words)}" if words else ""
