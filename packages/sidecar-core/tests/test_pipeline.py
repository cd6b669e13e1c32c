from __future__ import annotations

import json
import sys

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sidecar_core.errors import ConfigError
from sidecar_core.pipeline import OutputSpec, Pipeline, build_pipeline, load_pipeline
from sidecar_core.testing.example_dataset import example_dataset

DATASET = """\
name: birds
main_prefix: ../data/main
sidecar_prefix: ../data/side
key_column: image_key
image_column: image
schema_extensions:
  - {name: score, type_ref: score_v1}
"""
PIPELINE = """\
dataset: birds
operations:
  - type: extract_scaffold
"""


@pytest.fixture
def configs(tmp_path, monkeypatch):
    root = tmp_path / "configs"
    for name in ("datasets", "schemas", "pipelines"):
        (root / name).mkdir(parents=True)
    (root / "schemas/team.yaml").write_text("types: {score_v1: {fields: [{name: mean, type: float32}]}}")
    (root / "datasets/birds.yaml").write_text(DATASET)
    monkeypatch.chdir(tmp_path)
    return root


def load(configs, text, name="p.yaml"):
    path = configs / "pipelines" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return load_pipeline(path.relative_to(configs.parent))


def refused(configs, text):
    with pytest.raises(ConfigError) as caught:
        load(configs, text)
    return str(caught.value)


def test_a_pipeline_is_resolved(configs):
    pipeline = load(configs, PIPELINE)
    assert [op.type_name for op in pipeline.operations] == ["extract_scaffold"]
    assert pipeline.outputs == (OutputSpec("sidecar", f"{configs}/data/side/"),)
    assert pipeline.dataset.file == "configs/datasets/birds.yaml"
    assert (pipeline.file, pipeline.text) == ("configs/pipelines/p.yaml", PIPELINE)


def test_the_dataset_is_found_in_a_folder_above(configs):
    assert load(configs, PIPELINE, "team/nested/p.yaml").dataset.name == "birds"


def test_the_dataset_may_be_a_path(configs):
    pipeline = load(configs, PIPELINE.replace("dataset: birds", "dataset: ../datasets/birds.yaml"))
    assert pipeline.dataset.name == "birds"
    assert "score_v1" in pipeline.dataset.struct_types.names()


def test_a_dataset_that_is_not_found_lists_each_place(configs):
    lines = refused(configs, PIPELINE.replace("birds", "brids")).splitlines()
    assert lines[0] == "configs/pipelines/p.yaml:1:10: dataset: dataset 'brids' was not found; did you mean 'birds'?"
    assert lines[1].startswith(
        "  expected: one of these files: configs/pipelines/datasets/brids.yaml, configs/datasets/brids.yaml, "
        "datasets/brids.yaml, "
    )
    assert lines[1].endswith("/datasets/brids.yaml")
    assert "'../x.yaml' was not found" in refused(configs, PIPELINE.replace("birds", "../x.yaml"))


@pytest.mark.parametrize("name", ["x" * 5000, "x" * 5000 + ".yaml", "a\\0b"], ids=["long", "long path", "nul"])
def test_a_dataset_that_no_file_can_have_as_its_name_is_not_found(configs, name):
    text = refused(configs, PIPELINE.replace("birds", f'"{name}"'))
    assert text.startswith("configs/pipelines/p.yaml:1:10: dataset: dataset '")
    assert "was not found" in text[:200]


def test_problems_of_all_files_come_at_once(configs):
    (configs / "datasets/birds.yaml").write_text(DATASET.replace("key_column", "key_colum"))
    (configs / "schemas/team.yaml").write_text("types: {score_v1: {fields: [{name: mean, type: flaot32}]}}")
    message = refused(configs, PIPELINE + "  - type: extract_scafold\n")
    assert "configs/schemas/team.yaml:1:48: types.score_v1.fields[0].type: unknown type 'flaot32'" in message
    assert "configs/datasets/birds.yaml:4:1: key_colum: unknown key" in message
    assert "configs/pipelines/p.yaml:4:11: operations[1].type: unknown operation 'extract_scafold'" in message


def test_the_whole_report_of_a_bad_file(configs):
    text = """\
dataset: birds
operation: []
plugins: [no_such]
operations:
  - type: extract_scaffold
  - typ: extract_scaffold
  - drop_columns
  - type: 7
  - {type: cast_columns, columns: {score: strin, caption: binry}}
  - {type: cast_columns, columns: {score: string}, on_eror: fail}
  - {type: drop_columns, columns: image_key}
outputs:
  - {name: a, prefix: ../data/main/x}
  - {name: a, prefix: s3://bucket/a}
  - {name: b, prefix: "http://bucket"}
  - {name: c, prefix: s3://bucket/a/inside}
  - {name: d, prefix: ../data/side/i}
  - {name: e e, prefix: s3://bucket/e}
  - {name: f, prefix: s3://bucket/f, columns: {"a*": b}}
"""
    lines = [line for line in refused(configs, text).splitlines() if line.startswith("configs")]
    data = f"{configs}/data"
    around = "is equal to, inside or around"
    assert [line.removeprefix("configs/pipelines/p.yaml:") for line in lines] == [
        "2:1: operation: unknown key 'operation'; did you mean 'operations'?",
        "3:11: plugins[0]: plugin 'no_such' cannot be imported: ModuleNotFoundError: No module named 'no_such'",
        "6:5: operations[1].type: missing key 'type'",
        "7:5: operations[2]: found 'drop_columns'",
        "8:11: operations[3].type: found 7",
        "9:5: operations[4]: unknown type 'strin'; did you mean 'string'?",
        "9:5: operations[4]: unknown type 'binry'; did you mean 'binary'?",
        "10:52: operations[5].on_eror: unknown key 'on_eror'; did you mean 'on_error'?",
        "11:35: operations[6].columns: found 'image_key'",
        f"13:23: outputs[0].prefix: prefix '{data}/main/x/' {around} main_prefix of the dataset",
        "14:12: outputs[1].name: duplicate output 'a'",
        "15:23: outputs[2].prefix: 'http://bucket' has the scheme 'http'",
        "16:23: outputs[3].prefix: prefix 's3://bucket/a/inside/' is equal to, inside or around that of output 'a'",
        f"17:23: outputs[4].prefix: prefix '{data}/side/i/' {around} sidecar_prefix of the dataset",
        "18:12: outputs[5].name: name 'e e' is not a valid name",
        "19:47: outputs[6].columns: 'a*': 'b' must have one '*' on both sides, or none",
    ]


def test_columns_are_checked_when_loading(configs):
    text = "dataset: birds\noperations:\n  - {type: drop_columns, columns: [x]}\n"
    message = refused(configs, text)
    assert "configs/pipelines/p.yaml:3:5: operations[0]: there is no column 'x' to drop" in message


def test_a_declared_column_without_an_op_is_a_problem_of_the_dataset(configs):
    text = "dataset: birds\noperations:\n  - {type: rename_columns, columns: {a: b}}\n"
    message = refused(configs, text)
    assert message.startswith(
        "configs/datasets/birds.yaml:7:5: schema_extensions[0]: no op fills the declared column 'score'\n  fix: "
    )
    assert "extract_scaffold" in message


@pytest.mark.parametrize(
    "text",
    ["", "- a", "dataset: [", "\x00", "dataset: birds", "operations: []\ndataset: birds", "dataset: ''", "a: &a [*a]"],
)
def test_files_without_a_pipeline_are_refused(configs, text):
    assert refused(configs, text).startswith("configs/pipelines/p.yaml")


def test_outputs_have_their_own_prefixes(configs):
    outputs = """\
outputs:
  - {name: scores}
  - name: "512"
    prefix: ../data/five
    columns: {s: score}
"""
    pipeline = load(configs, PIPELINE + outputs)
    assert pipeline.output("scores").prefix == pipeline.dataset.sidecar_prefix
    assert pipeline.output("512") == OutputSpec("512", f"{configs}/data/five/", {"s": "score"})


PLUGIN = """\
from sidecar_core.op import BaseOp
from sidecar_core.registry import register_op

@register_op("team_op_of_test_pipeline")
class TeamOp(BaseOp):
    def apply(self, table, ctx):
        return table
"""


def test_plugins_register_their_ops(configs, tmp_path, monkeypatch):
    (tmp_path / "team_plugin_of_test.py").write_text(PLUGIN)
    (tmp_path / "bad_plugin_of_test.py").write_text("raise RuntimeError('bad on purpose')")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = PIPELINE + "  - type: team_op_of_test_pipeline\nplugins: [team_plugin_of_test]\n"
    assert load(configs, text).operations[1].type_name == "team_op_of_test_pipeline"
    message = refused(configs, text.replace("[team", "[bad_plugin_of_test, team"))
    assert "plugins[0]: plugin 'bad_plugin_of_test' cannot be imported: RuntimeError: bad on purpose" in message
    sys.modules.pop("team_plugin_of_test", None)


def test_pipelines_made_in_code_have_the_same_checks():
    dataset = example_dataset()
    pipeline = build_pipeline(dataset, [{"type": "extract_scaffold"}], outputs=[OutputSpec("x", "/data/x", None)])
    assert pipeline.outputs == (OutputSpec("x", "/data/x/"),)
    with pytest.raises(ConfigError, match=r"^operations\[0\].type: unknown operation 'extract'"):
        build_pipeline(dataset, [{"type": "extract"}])
    with pytest.raises(ConfigError, match=r"^operations: 0 items\n  expected: at least 1"):
        build_pipeline(dataset, [])
    with pytest.raises(ConfigError, match=r"^outputs\[0\].prefix: prefix '/data/example/main/x/'"):
        build_pipeline(dataset, [{"type": "extract_scaffold"}], outputs=[OutputSpec("x", "/data/example/main/x")])


def test_it_survives_json(configs):
    pipeline = load(configs, PIPELINE + "outputs: [{name: x, prefix: ../data/x, columns: {a: score}}]")
    copy = Pipeline.from_json(json.loads(json.dumps(pipeline.to_json())))
    assert copy.outputs == pipeline.outputs
    assert (copy.file, copy.text, copy.dataset.text) == (pipeline.file, pipeline.text, DATASET)
    assert [op.type_name for op in copy.operations] == ["extract_scaffold"]
    assert copy.to_json() == pipeline.to_json()


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "a*", "/x", "string", "\0"])),
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "type_ref", "name", "columns", "prefix", "on_error", "region", "x"]),
            below,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
operation = st.one_of(
    anything,
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["extract_scaffold", "drop_columns", "rename_columns", "cast_columns", "nothing"]),
            "columns": st.one_of(anything, st.dictionaries(st.sampled_from("ab"), st.sampled_from(["b", "int8"]))),
        }
    ),
)
PIPELINE_KEYS = {
    "dataset": anything,
    "operations": st.lists(operation, max_size=3),
    "outputs": anything,
    "plugins": st.just(7),
}
DATASET_KEYS = (
    "name",
    "main_prefix",
    "sidecar_prefix",
    "key_column",
    "image_column",
    "carry_columns",
    "storage",
    "schema_extensions",
    "more",
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries({}, optional=PIPELINE_KEYS),
    st.dictionaries(st.sampled_from(DATASET_KEYS), anything),
    st.booleans(),
)
def test_whatever_the_files_hold_problems_are_config_errors(configs, pipeline, dataset, sound):
    pipeline = {"dataset": "birds", **pipeline}
    (configs / "datasets/birds.yaml").write_text(DATASET if sound else yaml.safe_dump(dataset))
    try:
        loaded = load(configs, yaml.safe_dump(pipeline))
    except ConfigError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert loaded.operations


def test_a_dataset_is_said_to_be_one(configs):
    with pytest.raises(ConfigError, match="this is a dataset, not a pipeline") as caught:
        load_pipeline(configs / "datasets/birds.yaml")
    assert len(caught.value.problems) == 1
