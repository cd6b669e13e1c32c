from __future__ import annotations

import json

import pytest
from sidecar_core.errors import UsageError
from sidecar_core.registry import installed_ops
from sidecar_core.schema_export import json_schema, write_json_schemas


def test_a_dataset_schema_knows_keys_and_what_is_required():
    schema = json_schema("dataset")
    assert schema["required"] == ["name", "main_prefix", "sidecar_prefix", "key_column"]
    assert schema["additionalProperties"] is False
    extension = schema["definitions"]["SchemaExtension"]
    assert extension["oneOf"] == [{"required": ["type"]}, {"required": ["type_ref"]}]


def test_the_pipeline_schema_holds_the_parameters_of_every_installed_op():
    schema = json_schema("pipeline")
    operation = schema["properties"]["operations"]["items"]
    named = [branch["if"]["properties"]["type"]["const"] for branch in operation["allOf"]]
    assert named == list(installed_ops())
    cast = schema["definitions"]["cast_columns"]
    assert cast["properties"]["type"] == {"const": "cast_columns"}
    assert cast["properties"]["on_error"]["enum"] == ["fail", "set_null"]
    assert cast["additionalProperties"] is False
    assert cast["description"].startswith("Gives columns other types")


@pytest.mark.parametrize("kind", ["dataset", "pipeline", "schema"])
def test_every_reference_leads_somewhere(kind):
    schema = json_schema(kind)

    def references(value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for child in value.values():
                yield from references(child)
        elif isinstance(value, list):
            for child in value:
                yield from references(child)

    for reference in references(schema):
        assert reference.removeprefix("#/definitions/") in schema["definitions"]


def test_unknown_kinds_are_refused():
    with pytest.raises(UsageError, match="unknown kind of file 'pipelin'; did you mean 'pipeline'"):
        json_schema("pipelin")


def test_files_are_written(tmp_path):
    write_json_schemas(tmp_path)
    assert json.loads((tmp_path / "schema.json").read_text()) == json_schema("schema")
