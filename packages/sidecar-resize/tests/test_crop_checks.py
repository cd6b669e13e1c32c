"""What `verify` finds wrong in cropped descriptions."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_resize.ops.crop_structured_description import CropStructuredDescription

TEXT = '{"objects": [{"label": "a", "box_2d": [100, 200, 300, 400]}]}'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"structured_description_crop_512": '{"bbox": [1, 2, 3]}'}, "crop_512 holds a box that is not four numbers"),
        ({"structured_description_crop_512": '{"bbox": [1, 2, 3, 1001]}'}, "not within 0-1000"),
        ({"structured_description_crop_1024": '{"bbox": [3, 2, 1, 10]}'}, "ends before it begins"),
        ({"structured_description_crop_512": "{"}, "crop_512 is not JSON"),
        ({"structured_description_crop_512": "{}"}, "target_512 counts 1 box, 0 dropped, and there are 0"),
        (
            {"structured_description_crop_512": None},
            "crop_512 is null where the status is 'ok' and target_512 has a size",
        ),
        ({"meta": None}, "bbox_resize_meta has no status"),
        ({"meta": {"status": "fine"}}, "status is 'fine'"),
        ({"meta": {"status": "no_description"}}, "crop_512 is there where the status is 'no_description'"),
        ({"meta": {"source_width": None}}, "has no size of the source"),
        ({"meta": {"target_512": None}}, "target_512 has no size where the status is 'ok'"),
        ({"target": {"crop_top": None}}, "target_512.crop_top is null"),
        ({"target": {"dropped": 2}}, "counts 1 box, 0 clipped, 2 dropped"),
        ({"target": {"boxes": 3}}, "counts 3 boxes, 0 dropped, and there are 1"),
    ],
)
def test_faults_in_crop_columns_are_found(described, change, said):
    described.fill([TEXT, TEXT])
    table = described.run()
    rows = table.to_pylist()
    meta = rows[1]["bbox_resize_meta"]
    if "target" in change:
        meta["target_512"].update(change["target"])
    elif "meta" in change:
        rows[1]["bbox_resize_meta"] = change["meta"] and {**meta, **change["meta"]}
    else:
        rows[1].update(change)
    pipeline = described.pipeline()
    (check,) = pipeline.operations[0].output_checks(pipeline.dataset)
    found = list(check.check(pa.Table.from_pylist(rows, table.schema).select(list(check.columns))))
    assert any(said in each for _, each in found), found
    assert {row for row, _ in found} == {1}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("structured_description_crop_512", pa.array([1, 2])),
        ("structured_description_crop_512", pa.array([b"{}", b"{}"])),
        ("structured_description_crop_1024", pa.array([[1], [2]])),
        ("bbox_resize_meta", pa.array(["ok", "ok"])),
        ("bbox_resize_meta", pa.array([{"status": "ok"}, None])),
        ("bbox_resize_meta", pa.array([{"status": "ok", "target_512": 5, "target_1024": 6}, None])),
    ],
)
def test_columns_of_another_type_are_faults(described, column, values):
    described.fill([TEXT, TEXT])
    table = described.run()
    table = table.set_column(table.schema.get_field_index(column), column, values)
    (check,) = described.pipeline().operations[0].output_checks(described.dataset())
    ((row, said),) = check.check(table.select(list(check.columns)))
    assert row == 0
    assert said.startswith(f"{column} is {values.type}, where ")


@pytest.mark.parametrize("boxes_type", [pa.list_(pa.int32()), pa.list_(pa.int32(), 4), pa.list_(pa.list_(pa.int32()))])
def test_a_struct_of_which_every_box_was_dropped_is_no_fault(described, boxes_type):
    bad = [[1, 2, 3, 5000]] if pa.types.is_nested(boxes_type.value_type) else [1, 2, 3, 5000]
    described.fill([{"bbox": bad}], dtype=pa.struct([("bbox", boxes_type)]))
    table = described.run()
    (check,) = described.pipeline().operations[0].output_checks(described.dataset())
    assert list(check.check(table.select(list(check.columns)))) == []
    counts = table.column("bbox_resize_meta")[0].as_py()["target_512"]
    assert (counts["boxes"], counts["dropped"]) == (1, 1)


def test_a_description_that_is_no_utf8_is_a_fault(described):
    described.fill([TEXT])
    table = described.run()
    not_text = pa.Array.from_buffers(pa.string(), 1, pa.array([b'{"a": "\xff"}']).buffers())
    (check,) = described.pipeline().operations[0].output_checks(described.dataset())
    table = table.set_column(
        table.schema.get_field_index("structured_description_crop_512"), "structured_description_crop_512", not_text
    )
    found = list(check.check(table.select(list(check.columns))))
    assert (0, "structured_description_crop_512 is not JSON") in found


def test_crop_columns_are_recognised_by_name(described):
    recognise = CropStructuredDescription.recognise_output
    assert recognise(pa.schema([("image_key", pa.string()), ("mine_crop_512", pa.string())])) == []
    described.fill([TEXT])
    schema = described.run().schema
    (lone,) = recognise(schema.remove(schema.get_field_index("bbox_resize_meta")))
    assert "bbox_resize_meta" in lone.columns
    (other,) = recognise(schema.remove(schema.get_field_index("structured_description_crop_1024")))
    assert "structured_description_crop_1024" in other.columns
    (named,) = described.pipeline(description_column="boxes").operations[0].output_checks(described.dataset())
    assert named.columns == ("boxes_crop_512", "boxes_crop_1024", "bbox_resize_meta")
    renamed = pa.schema([each.with_name(each.name.replace("structured_description", "boxes")) for each in schema])
    (found,) = recognise(renamed)
    assert found.columns == named.columns
