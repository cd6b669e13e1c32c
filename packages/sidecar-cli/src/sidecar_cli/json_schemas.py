"""The JSON Schema of each kind of YAML file, for editors."""

from __future__ import annotations

from typing import Any

from sidecar_core.dataset import DatasetSpec
from sidecar_core.errors import UsageError
from sidecar_core.pipeline import PipelineSpec
from sidecar_core.registry import installed_ops, op_class
from sidecar_core.types import SchemaSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema_of(kind: str) -> dict[str, Any]:
    """Returns the JSON Schema of `dataset`, `pipeline` or `schema` files.

    That of pipelines knows the parameters of every installed operation; an operation of another name
    is a plugin's, and may have any.
    """
    if kind == "dataset":
        return {"$schema": _DIALECT, **DatasetSpec.model_json_schema()}
    if kind == "schema":
        return {"$schema": _DIALECT, **SchemaSpec.model_json_schema()}
    if kind != "pipeline":
        raise UsageError(f"unknown kind of file {kind!r}", "dataset, pipeline, schema")
    document: dict[str, Any] = {"$schema": _DIALECT, **PipelineSpec.model_json_schema()}
    document.setdefault("$defs", {})
    names = sorted(installed_ops())
    document["properties"]["operations"]["items"] = {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"anyOf": [{"enum": names}, {"type": "string"}], "description": "the operation"}},
        "allOf": [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"$ref": f"#/$defs/{name}"},
            }
            for name in names
        ],
    }
    for name in names:
        parameters = op_class(name).Params.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        for model, definition in parameters.pop("$defs", {}).items():
            document["$defs"][f"{name}.{model}"] = definition
        parameters["properties"] = {"type": {"const": name}, **parameters.get("properties", {})}
        parameters["title"] = name
        document["$defs"][name] = parameters
    return document
