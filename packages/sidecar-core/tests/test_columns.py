from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.errors import ConfigError, StorageError
from sidecar_core.op import is_open
from sidecar_core.pipeline import OutputSpec, build_pipeline, check_columns
from sidecar_core.testing.example_dataset import example_dataset, example_table

PLUGINS = ["sidecar_core.testing.toy_ops"]
MAIN = example_table().schema
SCAFFOLD = {"type": "extract_scaffold"}


def make(columns, **params):
    return {"type": "toy_make", "columns": columns, **params}


def plain(**changes):
    return example_dataset(**{"schema_extensions": [], **changes})


def check(operations, dataset=None, main=MAIN, outputs=None, source_schema=None):
    pipeline = build_pipeline(dataset or plain(), operations, outputs=outputs, plugins=PLUGINS)
    return check_columns(pipeline, main, source_schema=source_schema)


def refused(operations, dataset=None, main=MAIN, outputs=None, source_schema=None):
    with pytest.raises(ConfigError) as caught:
        check(operations, dataset, main, outputs, source_schema)
    return str(caught.value)


def names(checked, output="sidecar"):
    return checked.output(output).schema.names


def test_output_is_key_carried_declared_then_made_in_op_order():
    dataset = example_dataset(carry_columns=["width", "title"])
    checked = check([make({"b": "int8", "a": "int8"}), SCAFFOLD, make({"c": "string"})], dataset)
    assert names(checked) == ["image_key", "width", "title", "score", "caption", "b", "a", "c"]
    schema = checked.output("sidecar").schema
    assert schema.field("width").type == pa.int64()
    assert schema.field("score").type == dataset.struct_types.struct("score_v1")
    assert all(not each.metadata for each in schema)


def test_only_needed_main_columns_are_read():
    checked = check([make({"a": "int8"}, reads=["extra"])], plain(carry_columns=["width"]))
    assert checked.main_columns == ("image_key", "width", "extra")


def test_the_image_is_read_only_on_demand_and_dropped():
    assert check([make({"a": "int8"})]).main_columns == ("image_key",)
    checked = check([make({"a": "int8"}, reads=["image"])])
    assert checked.main_columns == ("image_key", "image")
    assert names(checked) == ["image_key", "a"]


def test_an_op_that_makes_the_image_column_puts_it_into_the_output():
    checked = check([make({"image": "binary", "note": "string"}, reads=["image"])])
    assert names(checked) == ["image_key", "image", "note"]
    assert "image" in checked.steps[0].filled


def test_main_columns_that_are_only_read_are_not_in_the_output():
    assert names(check([make({"a": "int8"}, reads=["title"])])) == ["image_key", "a"]


def test_main_columns_that_are_changed_are():
    checked = check([make({"title": "string"}, reads=["title"], replaces=["title"])])
    assert names(checked) == ["image_key", "title"]
    assert checked.producer("title") == "operations[0] (toy_make)"
    assert checked.producer("image_key") is None


def test_columns_of_earlier_ops_are_no_main_columns():
    checked = check([make({"a": "int8"}), make({"b": "int8"}, reads=["a"])])
    assert checked.main_columns == ("image_key",)


def test_a_column_that_nobody_produces_names_the_nearest():
    message = refused([make({"a": "int8"}, reads=["titel", "b"])])
    assert message.startswith(
        "operations[0]: 'toy_make' reads column 'titel', which nobody produces; did you mean 'title'"
    )
    assert "reads column 'b', which nobody produces" in message


def test_key_and_carried_columns_must_be_in_the_main_dataset():
    message = refused([make({"a": "int8"})], plain(key_column="image_kee", carry_columns=["widht"]))
    assert (
        "key_column: no column 'image_kee' in the main dataset at /data/example/main/; did you mean 'image_key'"
        in message
    )
    assert (
        "carry_columns[0]: no column 'widht' in the main dataset at /data/example/main/; did you mean 'width'"
        in message
    )


def test_a_missing_image_column_is_the_datasets_mistake():
    message = refused([make({"a": "int8"}, reads=["picture"])], plain(image_column="picture"))
    assert message.startswith("image_column: no column 'picture' in the main dataset")


@pytest.mark.parametrize(
    "dtype",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    ],
)
def test_images_may_be_stored_in_these_ways(dtype):
    main = pa.schema([("image_key", pa.int64()), ("image", dtype)])
    assert check([make({"a": "int8"}, reads=["image"])], main=main).main_columns == ("image_key", "image")


@pytest.mark.parametrize("dtype", [pa.string(), pa.list_(pa.binary()), pa.struct([("path", pa.string())])])
def test_images_in_other_ways_are_refused(dtype):
    main = pa.schema([("image_key", pa.int64()), ("image", dtype)])
    message = refused([make({"a": "int8"}, reads=["image"])], main=main)
    assert message.startswith(f"image_column: the image column 'image' is {dtype} in the main dataset")


@pytest.mark.parametrize(
    "dtype", [pa.int64(), pa.binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.date32()]
)
def test_keys_may_have_any_type(dtype):
    checked = check([make({"a": "int8"})], main=pa.schema([("image_key", dtype)]))
    assert checked.output("sidecar").schema.field("image_key").type == dtype


def test_a_column_that_is_twice_in_the_main_dataset_cannot_be_read():
    main = pa.schema([("image_key", pa.string()), ("width", pa.int8()), ("width", pa.int8())])
    assert "two columns 'width' in the main dataset" in refused(
        [make({"a": "int8"})], plain(carry_columns=["width"]), main
    )
    assert check([make({"a": "int8"})], main=main).main_columns == ("image_key",)


def test_two_producers_of_a_column_are_an_error_unless_said():
    message = refused([make({"a": "int8"}), make({"a": "int8"})])
    assert "operations[1]: 'toy_make' produces column 'a', which operations[0] (toy_make) produces already" in message
    check([make({"a": "int8"}), make({"a": "int8"}, replaces=["a"])])


def test_producing_a_column_that_is_read_from_main_is_an_error_unless_said():
    message = refused([make({"a": "int8"}, reads=["title"]), make({"title": "string"})])
    assert "operations[1]: 'toy_make' produces column 'title', which is read from the main dataset already" in message
    assert "produces column 'width'" in refused([make({"width": "int64"})], plain(carry_columns=["width"]))


def test_scaffolded_columns_may_be_filled_once():
    dataset = example_dataset()
    checked = check([SCAFFOLD, make({"caption": "string"})], dataset)
    assert checked.steps[1].filled == ("caption",)
    message = refused([SCAFFOLD, make({"caption": "string"}), make({"caption": "string"})], dataset)
    assert "operations[2]: 'toy_make' produces column 'caption', which operations[1] (toy_make) produces" in message


def test_a_scaffold_behind_an_op_that_makes_the_column_is_an_error():
    message = refused([make({"caption": "string"}), SCAFFOLD], example_dataset())
    assert "'extract_scaffold' scaffolds column 'caption', which operations[0] (toy_make) produces before" in message
    assert "fix: put extract_scaffold first" in message


def test_a_declared_column_keeps_its_type():
    dataset = example_dataset()
    expected = "makes column 'caption' as large_string, and it is declared string"
    assert expected in refused([SCAFFOLD, make({"caption": "large_string"})], dataset)
    extensions = [{"name": "caption", "type": "string"}]
    assert expected in refused([make({"caption": "large_string"})], plain(schema_extensions=extensions))
    renamed = [make({"x": "large_string"}), {"type": "rename_columns", "columns": {"x": "caption"}}]
    assert expected in refused(renamed, plain(schema_extensions=extensions))


def test_a_declared_column_that_no_op_fills_suggests_the_scaffold():
    message = refused([make({"a": "int8"})], example_dataset())
    assert "schema_extensions[0]: no op fills the declared column 'score'" in message
    assert "schema_extensions[1]: no op fills the declared column 'caption'" in message
    assert "- type: extract_scaffold" in message


def test_reading_a_declared_column_from_main_does_not_fill_it():
    dataset = plain(schema_extensions=[{"name": "title", "type": "string"}])
    assert "no op fills the declared column 'title'" in refused([make({"a": "int8"}, reads=["title"])], dataset)


def test_reading_an_image_that_was_scaffolded_over_is_an_error():
    dataset = plain(schema_extensions=[{"name": "image", "type": "binary"}])
    message = refused([SCAFFOLD, make({"a": "int8"}, reads=["image"])], dataset)
    assert "reads the image column 'image', which is scaffolded over before" in message
    check([make({"image": "binary"}, reads=["image"])], dataset)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"type": "toy_break", "how": "key"}, "'toy_break' takes away the key column 'image_key'"),
        ({"type": "toy_break", "how": "change_key"}, "'toy_break' changes the key column 'image_key'"),
        (make({"image_key": "string"}), "'toy_make' changes the key column 'image_key'"),
        (make({}, replaces=["image_key"]), "'toy_make' changes the key column 'image_key'"),
    ],
)
def test_no_op_touches_the_key(operation, message):
    assert message in refused([operation])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("validate", "operations[1]: validate is broken on purpose"),
        ("input_columns", "operations[1]: the op raised KeyError: 'inputs'"),
        ("output_schema", "operations[1]: the op raised RuntimeError: output_schema is broken on purpose"),
        ("retype", "operations[1]: 'toy_break' produces column 'a', which operations[0] (toy_make) produces already"),
        ("twice", "operations[1]: 'toy_break' makes two columns 'x'"),
    ],
)
def test_an_op_that_breaks_is_a_problem_at_its_place(how, message):
    operations = [make({"a": "int8"}), {"type": "toy_break", "how": how}, make({"b": "int8"}, reads=["lost"])]
    found = refused(operations)
    assert message in found
    assert "lost" not in found


def test_offline_types_of_main_columns_stay_open():
    checked = check([make({"a": "int8"}, reads=["title"])], plain(carry_columns=["width"]), main=None)
    assert checked.main_columns == ("image_key", "width", "title")
    assert checked.open_columns == ("image_key", "width", "title")
    assert is_open(checked.output("sidecar").schema.field("width"))
    assert checked.output("sidecar").schema.field("a").type == pa.int8()


MERGE = {"type": "toy_merge", "source_prefix": "s3://bucket/sibling/"}


def test_offline_a_merge_without_columns_leaves_names_open():
    checked = check([MERGE], example_dataset(), main=None)
    assert checked.open_names
    assert names(checked) == ["image_key", "score", "caption"]
    assert checked.output("sidecar").schema.field("caption").type == pa.string()


def test_with_storage_the_names_are_known():
    asked = []

    def source_schema(prefix):
        asked.append(prefix)
        return pa.schema([("image_key", pa.string()), ("b", pa.int8()), ("title", pa.string())])

    checked = check([MERGE, make({"c": "int8"}, reads=["title"])], source_schema=source_schema)
    assert not checked.open_names
    assert names(checked) == ["image_key", "b", "title", "c"]
    assert checked.main_columns == ("image_key",)
    assert set(asked) == {"s3://bucket/sibling/"}


def test_a_type_of_storage_that_differs_from_the_declared_is_an_error():
    def source_schema(prefix):
        return pa.schema([("caption", pa.int8())])

    message = refused(
        [MERGE], plain(schema_extensions=[{"name": "caption", "type": "string"}]), source_schema=source_schema
    )
    assert "'toy_merge' makes column 'caption' as int8, and it is declared string" in message


def test_storage_that_fails_is_no_problem_of_the_yaml():
    def source_schema(prefix):
        raise StorageError("s3://bucket: no answer")

    with pytest.raises(StorageError, match="no answer"):
        check([MERGE], source_schema=source_schema)


RESIZED = {
    "image": "image_512",
    "0_26mp_process_*": "0_26mp_process_*",
}
TARGETS = make(
    {
        "image_512": "binary",
        "0_26mp_process_valid": "bool",
        "0_26mp_process_reason": "string",
        "image_1024": "binary",
        "1_05mp_process_valid": "bool",
    },
    reads=["image"],
)


def output(columns, name="512"):
    return OutputSpec(name, f"/data/{name}", columns)


def test_outputs_select_and_rename_columns():
    other = {"image": "image_1024", "audit_*": "1_05mp_process_*"}
    checked = check([TARGETS], outputs=[output(RESIZED), output(other, "1024")])
    assert checked.output("512").columns == (
        ("image_key", "image_key"),
        ("image", "image_512"),
        ("0_26mp_process_valid", "0_26mp_process_valid"),
        ("0_26mp_process_reason", "0_26mp_process_reason"),
    )
    assert names(checked, "1024") == ["image_key", "image", "audit_valid"]
    assert checked.output("1024").schema.field("image").type == pa.binary()


def test_a_wildcard_leaves_columns_that_are_named():
    checked = check([make({"a": "int8", "b": "int8"})], outputs=[output({"first": "a", "*": "*"})])
    assert names(checked, "512") == ["image_key", "first", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": "image_51"}, "outputs[0].columns.image: unknown column 'image_51'; did you mean 'image_512'?"),
        ({"image": "image"}, "column 'image' of the main dataset is read, and neither carried nor changed by an op"),
        ({"a_*": "0_27mp_*"}, "outputs[0].columns['a_*']: no column of the table fits '0_27mp_*'"),
        ({"x": "image_512", "*": "*"}, None),
        ({"1_05mp_process_valid": "image_512", "*": "*"}, "2 columns would be named '1_05mp_process_valid'"),
        ({"id": "image_key"}, "the key column 'image_key' is in every output"),
        ({"image_key": "image_512"}, "the key column 'image_key' is in every output"),
        ({"image_ke*": "image_102*"}, None),
    ],
)
def test_mistakes_in_outputs(columns, message):
    if message is None:
        check([TARGETS], outputs=[output(columns)])
    else:
        assert message in refused([TARGETS], outputs=[output(columns)])


def test_carried_columns_are_in_an_output_that_names_them():
    checked = check([TARGETS], plain(carry_columns=["width"]), outputs=[output({"w": "width"})])
    assert names(checked, "512") == ["image_key", "w"]


def test_offline_a_named_column_may_come_from_an_open_merge():
    checked = check([MERGE], main=None, outputs=[output({"c": "caption"})])
    assert is_open(checked.output("512").schema.field("c"))
