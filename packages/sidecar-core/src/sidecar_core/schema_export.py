"""JSON Schemas of the YAML files, for editors: `python -m sidecar_core.schema_export configs/json-schema`."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sidecar_core.dataset import DatasetSpec
from sidecar_core.errors import UsageError
from sidecar_core.pipeline import PipelineSpec
from sidecar_core.problems import did_you_mean
from sidecar_core.registry import installed_ops, op_class
from sidecar_core.types import SchemaSpec

if TYPE_CHECKING:
    from sidecar_core.op import BaseOp

KINDS = ("dataset", "pipeline", "schema")
DIALECT = "http://json-schema.org/draft-07/schema#"  # what the YAML language server knows best


def json_schema(kind: str) -> dict[str, Any]:
    """Returns the JSON Schema of a kind of YAML file.

    That of pipelines holds the parameters of every installed op; an op of another name is a plugin's and
    may have any.

    Args:
        kind: `dataset`, `pipeline` or `schema`.

    Raises:
        UsageError: another kind; or an installed op cannot be imported.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown kind of file {kind!r}{did_you_mean(kind, KINDS)}", ", ".join(KINDS))
    model = {"dataset": DatasetSpec, "pipeline": PipelineSpec, "schema": SchemaSpec}[kind]
    schema: dict[str, Any] = model.model_json_schema(ref_template="#/definitions/{model}")
    schema["definitions"] = schema.pop("$defs", {})
    if kind == "pipeline":
        schema["properties"]["operations"]["items"] = _operation(schema["definitions"])
    return {"$schema": DIALECT, "title": f"sidecar {kind}", **{key: schema[key] for key in schema if key != "title"}}


def write_json_schemas(folder: Path) -> None:
    """Writes `<kind>.json` for each kind into a folder."""
    for kind in KINDS:
        text = json.dumps(json_schema(kind), indent=2, ensure_ascii=False)
        (folder / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


def _operation(definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of one operation; adds that of each installed op to `definitions`."""
    names = list(installed_ops())
    for name in names:
        definitions[name] = _op_schema(name, op_class(name), definitions)
    return {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"anyOf": [{"enum": names}, {"type": "string"}], "description": "the operation's name"},
        },
        "allOf": [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"$ref": f"#/definitions/{name}"},
            }
            for name in names
        ],
    }


def _op_schema(name: str, cls: type[BaseOp], definitions: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = cls.Params.model_json_schema(ref_template=f"#/definitions/{name}.{{model}}")
    nested = cast("dict[str, Any]", schema.pop("$defs", {}))
    definitions.update({f"{name}.{model}": definition for model, definition in nested.items()})
    schema["properties"] = {"type": {"const": name}, **schema.get("properties", {})}
    schema["title"] = name
    summary = (inspect.getdoc(cls) or "").partition("\n\n")[0]
    schema["description"] = " ".join(summary.split())
    return schema


if __name__ == "__main__":
    write_json_schemas(Path(sys.argv[1]))
