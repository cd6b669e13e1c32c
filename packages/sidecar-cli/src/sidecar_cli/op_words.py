"""Operations in JSON values and in words."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from sidecar_cli.output import Block, Facts, Table

if TYPE_CHECKING:
    from sidecar_core.op import BaseOp, OpParams


def describe_op(name: str, op: type[BaseOp]) -> dict[str, Any]:
    """Returns an op's name, doc, package and parameters as JSON values."""
    doc = inspect.cleandoc(op.__doc__ or "")
    properties = op.Params.model_json_schema()
    words = _attribute_docs(op.Params)
    required = set(properties.get("required", ()))
    return {
        "name": name,
        "summary": doc.partition("\n")[0],
        "doc": doc,
        "package": op.__module__.partition(".")[0].replace("_", "-"),
        "version": op.version,
        "parameters": [
            {
                "name": field,
                "type": _type_words(schema, properties.get("$defs", {})),
                "required": field in required,
                "default": schema.get("default"),
                "doc": words.get(field) or " ".join(schema.get("description", "").split()),
            }
            for field, schema in properties.get("properties", {}).items()
        ],
    }


def op_view(description: dict[str, Any]) -> list[Block]:
    """Returns an op's description for people."""
    parameters = [
        (each["name"], each["type"], "required" if each["required"] else _yaml_words(each["default"]), each["doc"])
        for each in description["parameters"]
    ]
    view: list[Block] = [
        Facts([("op", description["name"]), ("package", description["package"]), ("version", description["version"])]),
        _without_fences(description["doc"]),
    ]
    if parameters:
        view.append(Table(("parameter", "type", "default", "what it is"), parameters))
    else:
        view.append("It has no parameters.")
    return view


def _yaml_words(value: object) -> str:
    """Returns a default as YAML spells it; none as what people call it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) and value.isidentifier() else json.dumps(value)


def _without_fences(doc: str) -> str:
    """Returns a docstring with its fenced examples indented instead, as a terminal shows them best."""
    return re.sub(
        r"^```\w*\n(.*?)^```$",
        lambda found: textwrap.indent(found[1], "    ").rstrip(),
        doc,
        flags=re.DOTALL | re.MULTILINE,
    )


def _type_words(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Returns a JSON schema's type in a few words; of a mapping with known keys, the keys."""
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
    return str(schema.get("type", "any"))


def _attribute_docs(params: type[OpParams]) -> dict[str, str]:
    """Returns what the `Attributes:` section of a docstring says of each parameter."""
    section = inspect.cleandoc(params.__doc__ or "").partition("Attributes:\n")[2]
    docs: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        begins = re.match(r" {4}(\w+): +(.*)", line)
        if begins:
            name, docs[begins[1]] = begins[1], begins[2]
        elif line.startswith(" " * 5) and name:
            docs[name] += f" {line.strip()}"
        elif line.strip():
            break
    return docs
