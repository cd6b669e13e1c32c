from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.errors import ConfigError
from sidecar_core.types import PRIMITIVES, StructTypes


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def refused(*files, known=None):
    with pytest.raises(ConfigError) as caught:
        StructTypes.load(files, known=known)
    return str(caught.value)


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Puts a package with entry points onto sys.path; returns a function that makes one."""

    def make(name, entry_points, **modules):
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        return tmp_path

    return make


GOOD = """\
types:
  outer_v1:
    doc: All of it.
    fields:
      - {name: mean, type: float32, doc: "0-255"}
      - {name: inner, type_ref: inner_v1}
      - {name: many, type: list<inner_v1>}
      - {name: when, type: "timestamp[us]"}
  inner_v1:
    fields:
      - {name: tags, type: "list< string >"}
"""
INNER = pa.struct([("tags", pa.list_(pa.string()))])
OUTER = pa.struct([("mean", pa.float32()), ("inner", INNER), ("many", pa.list_(INNER)), ("when", pa.timestamp("us"))])


def test_struct_types_are_arrow_structs(tmp_path):
    types = StructTypes.load([write(tmp_path, "good.yaml", GOOD)])
    assert types.names() == ["inner_v1", "outer_v1"]
    assert types.struct("outer_v1") == OUTER
    assert types.doc("outer_v1") == "All of it."
    assert types.parse("list<outer_v1>") == pa.list_(OUTER)
    assert types.where("inner_v1").endswith("good.yaml:9")


def test_every_primitive_and_list_of_it_parses():
    types = StructTypes()
    for name, dtype in PRIMITIVES.items():
        assert types.parse(name) == dtype
        assert types.parse(f"list<{name}>") == pa.list_(dtype)


def test_definitions_hold_what_decides_the_type_and_no_docs(tmp_path):
    types = StructTypes.load([write(tmp_path, "good.yaml", GOOD)])
    inner = {"name": "inner_v1", "fields": [["tags", {"list": "string"}]]}
    assert types.definition("outer_v1") == {
        "name": "outer_v1",
        "fields": [
            ["mean", "float32"],
            ["inner", {"struct": inner}],
            ["many", {"list": {"struct": inner}}],
            ["when", "timestamp[us]"],
        ],
    }


def test_json_gives_the_same_types(tmp_path):
    types = StructTypes.load([write(tmp_path, "good.yaml", GOOD)])
    again = StructTypes.from_json(types.to_json())
    assert again.struct("outer_v1") == OUTER
    assert again.doc("outer_v1") == "All of it."


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("flaot32", "float32"),
        ("int", "int8"),
        ("list<strin>", "string"),
        ("datetime", None),
        ("list<", None),
        ("", None),
    ],
)
def test_unknown_types_name_the_nearest(text, nearest):
    with pytest.raises(ValueError, match="unknown type") as caught:
        StructTypes().parse(text)
    assert (f"did you mean {nearest!r}" in str(caught.value)) == (nearest is not None)
    assert "expected: bool, int8" in str(caught.value)


def test_lists_nested_without_end_are_refused():
    with pytest.raises(ValueError, match="unknown type"):
        StructTypes().parse("list<" * 5000 + "int8" + ">" * 5000)


def test_a_cycle_names_both_places(tmp_path):
    one = write(tmp_path, "one.yaml", "types:\n  a_v1:\n    fields: [{name: x, type_ref: b_v1}]\n")
    two = write(tmp_path, "two.yaml", "types:\n\n  b_v1:\n    fields: [{name: x, type: list<a_v1>}]\n")
    message = refused(one, two)
    assert f"a_v1 ({one}:2) → b_v1 ({two}:3) → a_v1 ({one}:2)" in message
    assert message.count("in a cycle") == 1


def test_a_struct_in_itself_is_a_cycle(tmp_path):
    assert "cycle: a_v1" in refused(write(tmp_path, "one.yaml", "types: {a_v1: {fields: [{name: x, type_ref: a_v1}]}}"))


def test_duplicates_name_both_places(tmp_path):
    one = write(tmp_path, "one.yaml", "types:\n  a_v1: {fields: [{name: x, type: int8}]}\n")
    two = write(tmp_path, "two.yaml", "types:\n\n  a_v1: {fields: [{name: x, type: int8}]}\n")
    assert refused(one, two) == f"{two}:3:3: types.a_v1: duplicate struct type 'a_v1', also in {one}:2"
    with pytest.raises(ConfigError) as caught:
        StructTypes.load([one]).merged(StructTypes.load([two]))
    assert f"{two}:3:3" in str(caught.value)
    assert f"{one}:2" in str(caught.value)


def test_all_problems_of_all_files_come_at_once(tmp_path):
    one = write(
        tmp_path,
        "one.yaml",
        """\
types:
  good_v1: {fields: [{name: x, type: int8}]}
  bad_v1:
    fields:
      - {name: a, type: flaot32}
      - {name: b, type_ref: good_v2}
      - {name: a, type: int8}
      - {name: c, type: good_v1}
      - {name: d, type_ref: int8}
  int8: {fields: [{name: x, type: int8}]}
  "no name": {fields: [{name: x, type: int8}]}
""",
    )
    lines = [line for line in refused(one).splitlines() if not line.startswith("  expected")]
    assert lines == [
        f"{one}:5:25: types.bad_v1.fields[0].type: unknown type 'flaot32'; did you mean 'float32'?",
        f"{one}:6:29: types.bad_v1.fields[1].type_ref: unknown struct type 'good_v2'; did you mean 'good_v1'?",
        f"{one}:7:16: types.bad_v1.fields[2].name: duplicate field 'a'",
        f"{one}:8:25: types.bad_v1.fields[3].type: 'good_v1' is a struct type",
        "  fix: type_ref: good_v1",
        f"{one}:9:29: types.bad_v1.fields[4].type_ref: 'int8' is not a struct type",
        "  fix: type: int8",
        f"{one}:10:3: types.int8: 'int8' is the name of a primitive type",
        f"{one}:11:3: types['no name']: struct type 'no name' is not a valid name",
    ]


def test_a_field_has_exactly_one_type(tmp_path):
    text = "types:\n  a_v1:\n    fields:\n      - {name: x}\n      - {name: y, type: int8, type_ref: a_v1}\n"
    message = refused(write(tmp_path, "one.yaml", text))
    assert "fields[0]: 'x' has neither type nor type_ref" in message
    assert "fields[1]: 'y' has both type and type_ref" in message


def test_a_file_that_cannot_be_read_does_not_make_its_types_unknown(tmp_path):
    bad = write(tmp_path, "bad.yaml", "types: [")
    user = write(tmp_path, "user.yaml", "types: {u_v1: {fields: [{name: x, type_ref: from_bad_v1}]}}")
    message = refused(bad, user)
    assert "not valid YAML" in message
    assert "unknown" not in message


def test_structs_nest_to_a_limit_and_no_further(tmp_path):
    types = "".join(f"  t{index}: {{fields: [{{name: x, type_ref: t{index + 1}}}]}}\n" for index in range(2000))
    path = write(tmp_path, "deep.yaml", f"types:\n{types}  t2000: {{fields: [{{name: x, type: int8}}]}}\n")
    assert "nest deeper than 32 levels" in refused(path)


def test_types_of_installed_packages_are_found(distribution):
    folder = distribution(
        "fake-types",
        "[sidecar.struct_types]\nfake = fake_types_module:schema_files\n",
        fake_types_module="from pathlib import Path\n\ndef schema_files():\n"
        "    return [Path(__file__).parent / 'fake.yaml']\n",
    )
    (folder / "fake.yaml").write_text("types: {fake_v1: {fields: [{name: x, type: int8}]}}")
    assert StructTypes.installed().struct("fake_v1") == pa.struct([("x", pa.int8())])


def test_a_package_whose_files_are_gone_is_named(distribution):
    distribution("fake-broken", "[sidecar.struct_types]\nfake = fake_absent_module:schema_files\n")
    with pytest.raises(ConfigError, match="'fake-broken' \\(fake_absent_module:schema_files\\) did not load: Module"):
        StructTypes.installed()
