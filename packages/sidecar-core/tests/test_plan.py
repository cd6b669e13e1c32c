from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import ConfigError, ShardError, StorageNotFoundError, UsageError
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.plan import RunPlan, new_run_id, plan_run, source_schema
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import write_main

DATASET = """\
name: example
main_prefix: main/
sidecar_prefix: out/
key_column: image_key
image_column: image
storage: {region: eu-north-1, profile: somebody}
"""
PLUGINS = ("sidecar_core.testing.ops", "sidecar_core.testing.toy_ops")
EXTENSIONS = """\
schema_extensions:
  - {name: note, type: string}
"""


@pytest.fixture
def dataset(tmp_path, request):
    write_main(tmp_path / "main", {"a.parquet": [b"x", None], "b.parquet": []}, key_type=pa.large_string())
    (tmp_path / "dataset.yaml").write_text(DATASET + getattr(request, "param", ""))
    return load_dataset(tmp_path / "dataset.yaml")


@pytest.fixture
def make_plan(dataset, tmp_path):
    def make(operations=({"type": "measure_bytes", "row_timeout_s": 7},), outputs=None):
        pipeline = build_pipeline(dataset, operations, outputs=outputs, plugins=PLUGINS)
        main = open_storage(dataset.main_prefix, dataset.storage)
        prefixes = {output.name: f"{tmp_path}/{output.name}/" for output in pipeline.outputs}
        return plan_run(pipeline, main, main.list_shards(), prefixes)

    return make


def through_json(plan):
    return RunPlan.from_json(json.loads(json.dumps(plan.to_json())))


@pytest.mark.parametrize("dataset", [EXTENSIONS], indirect=True)
def test_a_plan_survives_json_without_its_files(make_plan, tmp_path):
    plan = make_plan([{"type": "extract_scaffold"}, {"type": "measure_bytes", "row_timeout_s": 7}])
    text = json.dumps(plan.to_json())
    (tmp_path / "dataset.yaml").unlink()
    again = RunPlan.from_json(json.loads(text))
    assert again.run_id == plan.run_id
    assert again.dataset.to_json() == plan.dataset.to_json()
    assert again.dataset.extension_fields == plan.dataset.extension_fields
    assert again.outputs == plan.outputs
    assert again.pipeline.outputs == plan.pipeline.outputs
    assert again.main_schema.equals(plan.main_schema, check_metadata=True)
    assert again.table_schema.equals(plan.table_schema, check_metadata=True)
    assert [type(op) for op in again.operations] == [type(op) for op in plan.operations]
    assert [op.params for op in again.operations] == [op.params for op in plan.operations]
    assert again.operations[1].params.row_timeout_s == 7
    assert json.dumps(again.to_json()) == text


def test_several_outputs_survive_json(make_plan, tmp_path):
    outputs = [
        OutputSpec("one", f"{tmp_path}/one/", {"length": "byte_length"}),
        OutputSpec("two", f"{tmp_path}/two/", {"b_*": "byte_*"}),
    ]
    plan = make_plan(outputs=outputs)
    assert plan.outputs[1].columns == (
        ("image_key", "image_key"),
        ("b_length", "byte_length"),
        ("b_length_reason", "byte_length_reason"),
    )
    assert through_json(plan).outputs == plan.outputs


def test_types_are_those_of_the_main_dataset(make_plan):
    plan = make_plan()
    assert plan.outputs[0].schema.field("image_key").type == pa.large_string()
    assert through_json(plan).outputs[0].schema.field("image_key").type == pa.large_string()


def test_credentials_are_never_in_a_plan(make_plan, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    text = json.dumps(make_plan().to_json())
    assert "AKIDEXAMPLE1" not in text
    assert "hush-hush" not in text
    assert "somebody" in text  # the profile's name is no secret, and workers need it


def test_an_op_that_the_worker_lacks_is_named(make_plan):
    values = make_plan().to_json()
    values["pipeline"]["operations"] = [{"type": "measure_nothing_at_all"}]
    with pytest.raises(ConfigError, match="measure_nothing_at_all"):
        RunPlan.from_json(values)


def test_documents_are_json_with_parameters_and_text(make_plan):
    plan = make_plan()
    dataset = json.loads(json.dumps(plan.dataset_document()))
    pipeline = json.loads(json.dumps(plan.pipeline_document()))
    assert dataset["key_column"] == "image_key"
    assert dataset["text"] == DATASET
    assert pipeline["operations"] == [{"type": "measure_bytes", "row_timeout_s": 7.0}]
    assert pipeline["plugins"] == list(PLUGINS)


def test_who_makes_a_column(make_plan):
    plan = make_plan()
    assert "measure_bytes" in plan.producer("byte_length")
    assert plan.producer("image_key") is None


def test_a_siblings_columns_are_those_of_its_first_readable_shard(make_plan, tmp_path):
    sibling = tmp_path / "sibling"
    sibling.mkdir()
    (sibling / "a.parquet").write_bytes(b"damaged")
    pq.write_table(pa.table({"image_key": ["k"], "score": pa.array([1], pa.int8())}), sibling / "b.parquet")
    plan = make_plan([{"type": "toy_merge", "source_prefix": str(sibling)}])
    assert plan.outputs[0].schema.names == ["image_key", "score"]
    assert plan.table_schema.field("score").type == pa.int8()
    assert through_json(plan).outputs == plan.outputs
    assert plan.producer("score") == "operations[0] (toy_merge)"
    assert plan.producer("image_key") is None


def test_a_sibling_that_is_not_there_is_named(make_plan, tmp_path):
    with pytest.raises(StorageNotFoundError, match="no-such-sibling"):
        make_plan([{"type": "toy_merge", "source_prefix": f"{tmp_path}/no-such-sibling/"}])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"operations\[0\].*no shards at .*/empty/"):
        make_plan([{"type": "toy_merge", "source_prefix": f"{tmp_path}/empty/"}])


def test_a_source_is_a_file_or_a_prefix_whatever_its_name(tmp_path):
    table = pa.table({"a": [1]})
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "folder.parquet").mkdir()
    pq.write_table(table, tmp_path / "folder.parquet/part.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"bad")
    for source in ("one.parquet", "folder.parquet", "folder.parquet/"):
        assert source_schema(f"{tmp_path}/{source}").equals(table.schema)
    with pytest.raises(ShardError, match=r"bad\.parquet"):
        source_schema(f"{tmp_path}/bad.parquet")


def test_no_shards_is_an_error(dataset, tmp_path):
    pipeline = build_pipeline(dataset, [{"type": "measure_bytes"}], plugins=("sidecar_core.testing.ops",))
    with pytest.raises(UsageError, match="no shards"):
        plan_run(pipeline, open_storage(dataset.main_prefix, dataset.storage), [], {"sidecar": f"{tmp_path}/o/"})


def test_run_ids_differ_within_a_second():
    assert len({new_run_id() for _ in range(50)}) == 50


def test_run_ids_sort_by_their_start_within_a_second():
    moments = [
        datetime(2026, 1, 2, 3, 4, second, ms * 1000, UTC) for second in (5, 6) for ms in (0, 1, 15, 16, 255, 999)
    ]
    made = [new_run_id(moment) for moment in moments]
    assert made == sorted(made)
    assert made[0].startswith("20260102T030405Z-000")
