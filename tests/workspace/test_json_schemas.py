"""The JSON Schemas that editors read are those of the code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sidecar_core.schema_export import KINDS

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_json_schemas_are_current(tmp_path):
    # in a process of its own: this one may hold ops that other tests registered
    subprocess.run([sys.executable, "-m", "sidecar_core.schema_export", tmp_path], check=True)
    for kind in KINDS:
        shipped, made = ((folder / f"{kind}.json").read_text() for folder in (CONFIGS / "json-schema", tmp_path))
        assert shipped == made, "run: python -m sidecar_core.schema_export configs/json-schema"


@pytest.mark.parametrize(
    "path",
    sorted(path for kind in KINDS for path in (CONFIGS / f"{kind}s").glob("*.yaml")),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_shipped_config_uses_only_keys_of_its_schema(path):
    schema = json.loads((CONFIGS / f"json-schema/{path.parent.name.removesuffix('s')}.json").read_text())
    keys = set(yaml.safe_load(path.read_text()))
    assert set(schema["required"]) <= keys <= set(schema["properties"])
