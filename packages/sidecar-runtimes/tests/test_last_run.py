from __future__ import annotations

import json

import pytest
from sidecar_core.storage import open_storage
from sidecar_runtimes.last_run import find_last_run

TOLD = {
    "dataset": {"main_prefix": "data/", "key_column": "id", "storage": {"region": "eu-west-1"}},
    "pipeline": {"operations": [{"type": "extract_scaffold"}]},
}


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "_sidecar/runs"
    folder.mkdir(parents=True)
    return folder


def found(runs):
    return find_last_run(open_storage(f"{runs.parent.parent}/"))


def test_the_last_manifest_tells_what_the_run_was_told(runs):
    (runs / "1.json").write_text(json.dumps({**TOLD, "dataset": {"main_prefix": "old/"}}))
    (runs / "2.json").write_text(json.dumps(TOLD))
    (runs / "3.txt").write_text("notes")
    last = found(runs)
    assert (last.main_prefix, last.key_column, last.image_column) == ("data/", "id", None)
    assert last.storage.region == "eu-west-1"
    assert [each["type"] for each in last.operations] == ["extract_scaffold"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "5", "[" * 100_000, "{}", "\x00"),
        *('{"dataset": 5}', '{"dataset": {"main_prefix": 5}}'),
        '{"dataset": {"main_prefix": "x/", "storage": {"regoin": 1}}}',
    ],
)
def test_a_manifest_that_tells_nothing_is_passed_over(runs, text):
    (runs / "2.json").write_text(text)
    assert found(runs) is None
    (runs / "1.json").write_text(json.dumps(TOLD))
    assert found(runs).main_prefix == "data/"


def test_operations_that_are_none_are_left_out(runs):
    (runs / "1.json").write_text(json.dumps({**TOLD, "pipeline": {"operations": ["x", {"type": "y"}]}}))
    assert found(runs).operations == ({"type": "y"},)
    (runs / "1.json").write_text(json.dumps({**TOLD, "pipeline": 3}))
    assert found(runs).operations == ()
