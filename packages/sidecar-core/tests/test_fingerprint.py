from __future__ import annotations

import json

import pytest
from sidecar_core.op import BaseOp
from sidecar_core.pipeline import OutputSpec, Pipeline, build_pipeline, fingerprint, output_fingerprint
from sidecar_core.registry import op_class
from sidecar_core.testing.example_dataset import example_dataset

PLUGINS = ["sidecar_core.testing.toy_ops"]
SCAFFOLD = {"type": "extract_scaffold"}


def make(columns, **params):
    return {"type": "toy_make", "columns": columns, **params}


def plain(**changes):
    return example_dataset(**{"schema_extensions": [], **changes})


def build(operations, dataset=None, outputs=None):
    return build_pipeline(dataset or plain(), operations, outputs=outputs, plugins=PLUGINS)


def of(operations, dataset=None, columns=None, prefix="/data/out"):
    return output_fingerprint(build(operations, dataset, [OutputSpec("x", prefix, columns)]), "x")


ONE = [make({"image_512": "binary", "512_ok": "bool"}, reads=["image"])]
BOTH = [make({"image_512": "binary", "512_ok": "bool", "image_1024": "binary", "1024_ok": "bool"}, reads=["image"])]
COLUMNS = {"image": "image_512", "512_*": "512_*"}


def test_an_output_alone_equals_the_same_beside_another():
    both = build(
        BOTH,
        outputs=[
            OutputSpec("512", "/data/512", COLUMNS),
            OutputSpec("1024", "/data/1024", {"image": "image_1024", "1024_*": "1024_*"}),
        ],
    )
    assert output_fingerprint(both, "512") == of(ONE, columns=COLUMNS)
    assert output_fingerprint(both, both.outputs[0]) == of(ONE, columns=COLUMNS)
    assert output_fingerprint(both, "1024") != output_fingerprint(both, "512")


def test_ops_that_contribute_nothing_do_not_enter():
    alone = of(ONE, columns=COLUMNS)
    assert of([*ONE, make({"other": "int8"}, reads=["title"])], columns=COLUMNS) == alone
    assert of([make({"before": "int8"}), *ONE], columns=COLUMNS) == alone
    dropped = [*ONE, make({"temp": "int8"}), {"type": "drop_columns", "columns": ["temp"]}]
    assert of(dropped, columns=COLUMNS) == alone
    assert of([SCAFFOLD, *ONE], example_dataset(), COLUMNS) == alone


def test_what_makes_the_columns_does_enter():
    chain = [make({"a": "int8"}), make({"b": "int8"}, reads=["a"])]
    base = of(chain, columns={"b": "b"})
    assert of([make({"a": "int16"}), chain[1]], columns={"b": "b"}) != base
    assert of([chain[0], make({"b": "int16"}, reads=["a"])], columns={"b": "b"}) != base
    assert of(chain, columns={"c": "b"}) != base
    assert of(chain, plain(key_column="id"), {"b": "b"}) != base


def test_renames_are_followed_back():
    def renamed(a, *, extra=None):
        columns = {"a": "b", **({"other": "z"} if extra else {})}
        operations = [make({"a": a, "other": "int8"}), {"type": "rename_columns", "columns": columns}]
        return of(operations, columns={"b": "b"})

    assert renamed("int8") != renamed("int16")
    assert renamed("int8") == renamed("int8", extra=True)


def test_swapped_names_enter():
    first = make({"a": "int8", "b": "int8"})
    swapped = [first, {"type": "rename_columns", "columns": {"a": "b", "b": "a"}}]
    assert of(swapped) != of([first])


def test_casts_of_other_columns_do_not_enter():
    first = make({"a": "int8", "b": "int8"})

    def cast(columns):
        return of([first, {"type": "cast_columns", "columns": columns}], columns={"a": "a"})

    assert cast({"a": "int16"}) == cast({"a": "int16", "b": "int32"})
    assert cast({"a": "int16"}) != cast({"a": "int32"})
    assert cast({"b": "int32"}) == of([first], columns={"a": "a"})


def test_prefixes_storage_and_the_datasets_name_are_left_out():
    moved = plain(name="other", main_prefix="s3://b/m", sidecar_prefix="s3://b/s", storage={"endpoint_url": "http://x"})
    assert of(ONE, moved, COLUMNS, prefix="s3://elsewhere/") == of(ONE, columns=COLUMNS)
    assert fingerprint(build(ONE, plain(storage={"region": "x"}, main_prefix="/q"))) == fingerprint(build(ONE))
    assert fingerprint(build(ONE, plain(name="other"))) != fingerprint(build(ONE))


def test_columns_that_are_carried_or_declared_enter_where_they_are():
    assert of(ONE, plain(carry_columns=["width"])) != of(ONE)
    assert of(ONE, plain(carry_columns=["width"]), COLUMNS) == of(ONE, columns=COLUMNS)
    with_caption = plain(schema_extensions=[{"name": "caption", "type": "string"}])
    with_large = plain(schema_extensions=[{"name": "caption", "type": "large_string"}])
    assert of([SCAFFOLD], with_caption) != of([SCAFFOLD], with_large)


def test_struct_definitions_enter_and_docs_do_not(tmp_path):
    from sidecar_core.dataset import load_dataset

    def with_struct(fields):
        (tmp_path / "datasets").mkdir(exist_ok=True)
        (tmp_path / "schemas").mkdir(exist_ok=True)
        (tmp_path / "schemas/s.yaml").write_text(
            f"types:\n  s_v1: {{fields: [{fields}]}}\n  o_v1: {{fields: [{{name: i, type: list<s_v1>}}]}}"
        )
        (tmp_path / "datasets/d.yaml").write_text(
            "name: d\nmain_prefix: /a\nsidecar_prefix: /b\nkey_column: k\nimage_column: i\n"
            "schema_extensions: [{name: o, type_ref: o_v1}]"
        )
        return of([SCAFFOLD], load_dataset(tmp_path / "datasets/d.yaml"))

    base = with_struct("{name: x, type: int8}")
    assert with_struct("{name: x, type: int8, doc: words}") == base
    assert with_struct("{name: x, type: int16}") != base
    assert with_struct("{name: y, type: int8}") != base


def test_an_ops_version_enters(monkeypatch):
    build(ONE)
    before = of(ONE, columns=COLUMNS), fingerprint(build(ONE))
    monkeypatch.setattr(op_class("toy_make"), "version", 2)
    after = of(ONE, columns=COLUMNS), fingerprint(build(ONE))
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_a_merge_of_unknown_columns_enters_always():
    merge = {"type": "toy_merge", "source_prefix": "s3://bucket/one/"}
    other = {"type": "toy_merge", "source_prefix": "s3://bucket/two/"}
    assert of([*ONE, merge]) != of(ONE)
    assert of([*ONE, merge]) != of([*ONE, other])
    assert len({of([*ONE, merge]), of([*ONE, merge, other]), of([*ONE, other, merge])}) == 3


def test_the_order_of_ops_that_replace_a_column_matters():
    first, second = make({"a": "int8"}), make({"a": "int8"}, replaces=["a"])
    cast = {"type": "cast_columns", "columns": {"a": "int8"}}
    assert of([first, second, cast]) != of([first, cast, second])


def test_it_is_the_same_in_other_processes():
    pipeline = build(BOTH, plain(carry_columns=["width"]), [OutputSpec("512", "/data/512", COLUMNS)])
    copy = Pipeline.from_json(json.loads(json.dumps(pipeline.to_json())))
    assert output_fingerprint(copy, "512") == output_fingerprint(pipeline, "512")
    assert fingerprint(copy) == fingerprint(pipeline)
    assert len(fingerprint(copy)) == 64


def test_unknown_outputs_are_key_errors():
    with pytest.raises(KeyError):
        output_fingerprint(build(ONE), "512")


def test_ops_that_say_nothing_enter_with_all_parameters():
    assert BaseOp(op_class("drop_columns").Params(columns=("x",))).fingerprint_params(["a"]) == {"columns": ["x"]}
