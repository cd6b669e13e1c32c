"""`ops`, `schema`: what is installed, in words and as JSON."""

from __future__ import annotations

import json

import pytest
from sidecar_cli.op_words import describe_op
from sidecar_core.registry import installed_ops, op_class
from sidecar_core.schema_export import json_schema


@pytest.mark.parametrize("name", sorted(installed_ops()))
def test_every_op_says_what_it_is_and_what_each_parameter_is(name):
    description = describe_op(name, op_class(name))
    assert description["summary"]
    for parameter in description["parameters"]:
        assert parameter["doc"], parameter["name"]


def test_one_op(sidecar):
    done = sidecar("ops", "resize_image")
    assert done.returncode == 0
    assert "webp | png | jpeg" in done.stdout
    assert "sidecar-resize" in done.stdout
    assert "integer 1-100" in done.stdout
    assert "integer from 1 " in done.stdout
    assert "number above 0 to 1" in done.stdout
    assert "list of {area, column, audit_prefix}" in done.stdout
    assert "```" not in done.stdout
    assert not {"None", "True", "False"} & set(done.stdout.split())


def test_a_mistyped_op_is_answered_with_the_nearest(sidecar):
    done = sidecar("ops", "resize_imag")
    assert done.returncode == 2
    assert "did you mean 'resize_image'?" in done.stderr


@pytest.mark.parametrize("kind", ["dataset", "pipeline", "schema"])
def test_json_schema_is_one_document_about_an_object(sidecar_here, kind):
    done = sidecar_here("schema", "--json-schema", kind)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["type"] == "object"
    assert document["additionalProperties"] is False
    assert document == json_schema(kind)


def test_a_teams_own_struct_types(sidecar_here, tmp_path):
    (tmp_path / "own.yaml").write_text(
        "types:\n  own_v1:\n    doc: Ours.\n    fields:\n      - {name: size_px, type: list<int32>, doc: how big}\n"
    )
    done = sidecar_here("schema", "own_v1", "--from", "own.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fields"] == [{"name": "size_px", "type": "list<int32>", "doc": "how big"}]
    assert "Ours." in sidecar_here("schema", "own_v1", "--from", "own.yaml").stdout
    typo = sidecar_here("schema", "own_v2", "--from", "own.yaml")
    assert typo.returncode == 2
    assert "did you mean 'own_v1'?" in typo.stderr


def test_a_type_and_json_schema_exclude_each_other(sidecar_here):
    assert sidecar_here("schema", "own_v1", "--json-schema", "dataset").returncode == 2


def test_filters_and_one_of_them(sidecar_here):
    listed = json.loads(sidecar_here("filters", "--json").stdout)["filters"]
    assert {each["name"] for each in listed} >= {"luma", "clarity", "exif_metadata"}
    assert all(each["doc"] and each["fields"] for each in listed)
    one = sidecar_here("filters", "clarity")
    assert "filter_clarity_v1" in one.stdout
    assert "laplacian_variance" in one.stdout
    typo = sidecar_here("filters", "clarty")
    assert typo.returncode == 2
    assert "did you mean 'clarity'?" in typo.stderr
