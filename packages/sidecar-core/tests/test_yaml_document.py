from __future__ import annotations

import pickle

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import ConfigError
from sidecar_core.yaml_document import YamlDocument, key_path, parse_yaml, read_yaml


def refused(text):
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, file="f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "f.yaml: the file is empty"),
        ("# only a comment\n", "f.yaml: the file is empty"),
        ("- a\n", "f.yaml:1:1: the top level is a list"),
        ("foo", "f.yaml:1:1: the top level is 'foo'"),
        ("a: [1,\nb: 2", "f.yaml:2:5: not valid YAML: "),
        ("\ta: 1", "f.yaml:1:1: not valid YAML: "),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: not valid YAML: expected a single document"),
        ("a: *nowhere", "f.yaml:1:4: not valid YAML: found undefined alias"),
        ("a: \0", "f.yaml:1:4: character '\\x00' is not allowed in YAML"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml:4:3: b.c: duplicate key 'c', first on line 3"),
        ("a: !!python/object/apply:os.system [ls]", "f.yaml:1:4: a: tag '!!python/object/apply:os.system' is not"),
        ("a: !mine x", "f.yaml:1:4: a: not valid YAML: could not determine a constructor for the tag '!mine'"),
        ("a: !!set {b}", "f.yaml:1:4: a: tag '!!set' is not supported"),
        ("a: 2024-13-45", "f.yaml:1:4: a: '2024-13-45' looks like a timestamp and is none"),
        ("a: " + "9" * 5000, "f.yaml:1:4: a: "),
        ("? [a]\n: 1", "f.yaml:1:3: a key is a list or a mapping"),
        ("a: &a [*a]", "f.yaml:1:4: a[0]: an anchor contains itself"),
        ("a: &a {<<: *a}", "f.yaml:1:4: a['<<']: an anchor contains itself"),
        ("a: {<<: 3}", "f.yaml:1:9: a: not valid YAML: "),
        ("a: " + "[" * 1000 + "]" * 1000, "f.yaml:1:103: nested deeper than 100 levels"),
        ("a: " + "{b: " * 1000 + "}" * 1000, "f.yaml:1:400: nested deeper than 100 levels"),
    ],
)
def test_bad_yaml_is_one_clear_sentence_with_its_place(text, start):
    assert refused(text).startswith(start)


def test_every_duplicate_and_bad_scalar_is_listed():
    message = refused("a: 1\na: 2\nb: {c: 1, c: 2}\nd: 2024-99-99\n")
    assert [line.split(": ")[0] for line in message.splitlines() if line.startswith("f")] == [
        "f.yaml:2:1",
        "f.yaml:3:11",
        "f.yaml:4:4",
    ]


def test_anchors_and_merges_work():
    document = parse_yaml("base: &base {a: 1, b: 2}\nlist: [*base, *base]\nmerged:\n  <<: *base\n  b: 3\n")
    assert document.data == {
        "base": {"a": 1, "b": 2},
        "list": [{"a": 1, "b": 2}] * 2,
        "merged": {"a": 1, "b": 3},
    }
    assert document.place(("merged", "b")) == (5, 6)
    assert document.place(("merged", "a")) == (1, 17)


def test_anchors_that_multiply_are_refused():
    levels = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "more than 200000 values once its anchors are written out" in refused("a0: &a0 [x]\n" + "\n".join(levels))


def test_merges_that_multiply_stay_small():
    levels = [f"a{i}: &a{i}\n  <<: [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    document = parse_yaml("a0: &a0 {x: 1, y: 2}\n" + "\n".join(levels))
    assert document.get(("a11",)) == {"x": 1, "y": 2}


def test_keys_are_text_whatever_yaml_reads_in_them():
    assert parse_yaml("512: a\non: b\n2024-01-01: c\n").data == {"512": "a", "on": "b", "2024-01-01": "c"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1\x00\xff\xfe", "f.yaml:1:6: byte 0xff is not UTF-8"),
        (b"name: caf\xe9\n", "f.yaml:1:10: byte 0xe9 is not UTF-8"),
        (b"a: 1\n" * 300_000, "f.yaml: more than 1 MiB"),
    ],
)
def test_files_that_are_no_text_are_refused(tmp_path, monkeypatch, data, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.yaml").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_yaml((tmp_path / "f.yaml").relative_to(tmp_path))
    assert str(caught.value).startswith(message)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="a folder, not a file"):
        read_yaml(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_yaml(tmp_path / "f.yaml").data == {"name": "x"}


SHIPPED = """\
types:
  filter_example_v1:
    doc: "Wörter … and 'quotes'"
    fields:
      - {name: mean, type: float32, doc: "0-1: a mean"}
      - name: parts  # a comment
        type: list<string>
        doc: >-
          folded
          text
"""


def test_a_file_of_a_package_is_read_like_any_other(tmp_path):
    (tmp_path / "f.yaml").write_text(SHIPPED, encoding="utf-8")
    usual, shipped = (read_yaml(tmp_path / "f.yaml", shipped=each) for each in (False, True))
    assert shipped.data == usual.data
    fields = ("types", "filter_example_v1", "fields")
    for loc in ((), ("types",), (*fields, 0, "doc"), (*fields, 1, "name"), (*fields, 1, "doc")):
        assert shipped.place(loc) == usual.place(loc)
        assert shipped.place(loc, key=True) == usual.place(loc, key=True)


@pytest.mark.parametrize("text", ["a: [1,\nb: 2", "a: \0", "a: " + "[" * 1000 + "]" * 1000, "", "a: 1\n---\nb: 2"])
def test_a_wrong_file_of_a_package_has_the_usual_message(text):
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, file="f.yaml", shipped=True)
    assert str(caught.value) == refused(text)


def test_places_are_those_of_values_and_of_keys():
    document = parse_yaml("operations:\n  - type: x\n    filters: [luma, clarty]\n")
    loc = ("operations", 0, "filters", 1)
    assert document.place(loc) == (3, 21)
    assert document.place(("operations", 0, "filters"), key=True) == (3, 5)
    assert document.place(("operations", 0, "nowhere")) == (2, 5)
    assert document.place((*loc, "deeper")) == (3, 21)
    assert str(document.problem(loc, "unknown")) == "3:21: operations[0].filters[1]: unknown"


def test_key_paths_quote_odd_keys():
    assert key_path(("outputs", 0, "columns", "0_26mp_process_*")) == "outputs[0].columns['0_26mp_process_*']"


def test_a_pickled_document_keeps_its_data():
    document = pickle.loads(pickle.dumps(parse_yaml("a: [1]", file="f.yaml")))
    assert (document.data, document.file, document.text) == ({"a": [1]}, "f.yaml", "a: [1]")
    assert YamlDocument({}).place(("a",)) == (None, None)


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20))
keys = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)
trees = st.recursive(
    scalars, lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(keys, below, max_size=4))
)


@given(st.dictionaries(keys, trees, min_size=1, max_size=5))
def test_values_are_those_of_safe_load(tree):
    text = yaml.safe_dump(tree, allow_unicode=True)
    assert parse_yaml(text).data == yaml.safe_load(text)


@given(st.text(max_size=60))
def test_any_text_gives_a_mapping_or_a_config_error(text):
    data = None
    try:
        data = parse_yaml(text, file="f.yaml").data
    except ConfigError as error:
        problems = error.problems
    assert isinstance(data, dict) or {problem.file for problem in problems} == {"f.yaml"}
