"""The configs that ship are valid, and editors are told the right schema for each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sidecar_core.pipeline import load_pipeline

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
SHIPPED = sorted(path for kind in ("datasets", "pipelines", "schemas") for path in (CONFIGS / kind).glob("*.yaml"))


def test_there_are_configs_to_start_from():
    assert list((CONFIGS / "datasets").glob("*.yaml"))
    assert list((CONFIGS / "pipelines").glob("*.yaml"))


@pytest.mark.parametrize("path", sorted((CONFIGS / "pipelines").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_pipeline_loads(path):
    pipeline = load_pipeline(path)
    assert pipeline.operations


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shipped_config_tells_editors_its_schema(path):
    first = path.read_text().splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert match, first
    schema = (path.parent / match[1]).resolve()
    assert schema.stem == path.parent.name.removesuffix("s")
    assert json.loads(schema.read_text())["type"] == "object"
