from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import ConfigError, UsageError
from sidecar_core.fingerprint import fingerprint
from sidecar_core.overrides import parse_overrides, with_overrides
from sidecar_core.pipeline import load_pipeline
from sidecar_core.yaml_document import key_path, parse_yaml

PARTS = st.one_of(st.integers(0, 99), st.text("abcXYZ012_-.*= ", min_size=1))


@given(st.lists(PARTS, max_size=5).map(lambda rest: ("operations", *rest)))
def test_a_path_is_typed_as_messages_write_it(loc):
    (override,) = parse_overrides([f"{key_path(loc)}=x=y"])
    assert override.loc == loc
    assert override.value == "x=y"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("", None),
        ("s3://bucket/a: b #c/", "s3://bucket/a: b #c/"),
        ("#ffffff", "#ffffff"),
        ("[luma, saturation]", ["luma", "saturation"]),
        ("{a: [1]}", {"a": [1]}),
        ('"512"', "512"),
        ("'it''s'", "it's"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("2024-13-45", "2024-13-45"),
    ],
)
def test_values_are_those_of_yaml_where_they_look_like_it(text, value):
    assert parse_overrides([f"a={text}"])[0].value == value


@pytest.mark.parametrize("text", ["", "a", "=1", "a.=1", ".a=1", "a..b=1", "[0]=1", "a[x]=1", "a b=1", "a[0=1", "0=1"])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(UsageError, match=r"path\.to\.key=value"):
        parse_overrides([text])


def test_a_broken_list_is_refused():
    with pytest.raises(UsageError, match="not valid YAML"):
        parse_overrides(["operations[0].filters=[luma"])


def changed(text, *overrides):
    return with_overrides(parse_yaml(text), parse_overrides(overrides)).data


def test_values_are_replaced_added_and_made_room_for():
    text = "a: {b: 1}\nlist: [{x: 1}, {x: 2}]\nnone:\n"
    assert changed(text, "a.b=2", "a.c=3", "list[1].x=5", "none.deep.er=7", "new=1", "new=2") == {
        "a": {"b": 2, "c": 3},
        "list": [{"x": 1}, {"x": 5}],
        "none": {"deep": {"er": 7}},
        "new": 2,
    }


def test_the_document_itself_stays_as_it_was():
    document = parse_yaml("a: {b: 1}\n")
    with_overrides(document, parse_overrides(["a.b=2"]))
    assert document.data == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("operations[2].x=1", r"operations has 2 items\n  expected: operations\[0\] to operations\[1\]"),
        ("operation[0].x=1", "operation is not there; did you mean 'operations'"),
        ("operations.x=1", "operations is a list, not a mapping"),
        ("name.x=1", "name is 'n', not a mapping"),
        ("name[0]=1", "name is 'n', not a list"),
    ],
)
def test_a_path_that_leads_nowhere(override, message):
    with pytest.raises(ConfigError, match=message) as raised:
        changed("name: n\noperations: [{type: a}, {type: b}]\n", override)
    assert str(raised.value).startswith(f"--set {override}: ")


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "pets.yaml").write_text(
        "name: pets\nmain_prefix: main\nsidecar_prefix: out\nkey_column: image_key\n"
        "schema_extensions: [{name: caption, type: string}]\n"
    )
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "dataset: pets.yaml\noperations:\n"
        "  - {type: extract_scaffold}\n  - {type: cast_columns, columns: {width: int32}}\n"
    )
    return path


def loaded(path, *overrides):
    return load_pipeline(path, overrides=parse_overrides(overrides))


def test_both_files_are_overridden(pipeline):
    made = loaded(
        pipeline,
        "dataset.main_prefix=s3://bucket/main",
        "dataset.storage.region=eu-west-1",
        "dataset.schema_extensions[0].name=title",
        "operations[1].columns={height: int64}",
    )
    assert made.dataset.main_prefix == "s3://bucket/main/"
    assert made.dataset.storage.region == "eu-west-1"
    assert made.operations[1].params.columns == {"height": "int64"}


def test_only_what_changes_the_output_changes_the_fingerprint(pipeline):
    plain = fingerprint(loaded(pipeline))
    assert fingerprint(loaded(pipeline, "dataset.main_prefix=/elsewhere")) == plain
    assert fingerprint(loaded(pipeline, "dataset.key_column=image_key")) == plain
    assert fingerprint(loaded(pipeline, "dataset.schema_extensions[0].name=title")) != plain
    assert fingerprint(loaded(pipeline, "operations[1].columns={height: int64}")) != plain


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("dataset.main_prefx=x", "unknown key 'main_prefx'; did you mean 'main_prefix'"),
        ("dataset.storag.region=x", "unknown key 'storag'; did you mean 'storage'"),
        ("dataset.storage.regoin=x", "unknown key 'regoin'; did you mean 'region'"),
        ("operations[1].colums=[a]", "unknown key 'colums'; did you mean 'columns'"),
        ("operations[0].type=extract_scafold", "did you mean 'extract_scaffold'"),
        ("operations[1].columns=5", "found 5"),
        ("dataset=cats.yaml", "'cats.yaml' was not found"),
    ],
)
def test_a_wrong_value_is_told_as_the_command_line_s(pipeline, override, message):
    with pytest.raises(ConfigError, match=message) as raised:
        loaded(pipeline, override)
    assert str(raised.value).startswith(f"--set {override}: ")


def test_a_fault_of_the_file_is_still_the_file_s(pipeline):
    pipeline.write_text("dataset: pets.yaml\noperations:\n  - {type: nonsense}\n")
    with pytest.raises(ConfigError, match=r"pipeline\.yaml:3:12: operations\[0\]\.type"):
        loaded(pipeline, "dataset.main_prefix=/elsewhere")
