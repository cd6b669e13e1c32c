"""The JSON Schemas that editors read are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from sidecar_core.schema_export import KINDS, json_schema

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@pytest.mark.parametrize("kind", KINDS)
def test_json_schema_is_current(kind):
    shipped = json.loads((CONFIGS / f"json-schema/{kind}.json").read_text(encoding="utf-8"))
    assert shipped == json_schema(kind), "run: python -m sidecar_core.schema_export configs/json-schema"


@pytest.mark.parametrize(
    "path",
    sorted(path for kind in KINDS for path in (CONFIGS / f"{kind}s").glob("*.yaml")),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_shipped_config_uses_only_keys_of_its_schema(path):
    schema = json.loads((CONFIGS / f"json-schema/{path.parent.name.removesuffix('s')}.json").read_text())
    keys = set(yaml.safe_load(path.read_text()))
    assert set(schema["required"]) <= keys <= set(schema["properties"])
