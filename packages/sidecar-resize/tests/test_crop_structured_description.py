"""The op over datasets on disk, with audit columns as resize_image writes them."""

from __future__ import annotations

import json
import random
import shutil

import pyarrow as pa
import pytest
from pydantic import ValidationError
from sidecar_core.errors import AlignmentError, ConfigError, ShardError
from sidecar_core.footer import read_footer
from sidecar_core.pipeline import Pipeline, check_columns, output_fingerprint
from sidecar_core.registry import op_class
from sidecar_core.storage import open_storage
from sidecar_core.testing.conformance import OpConformance
from sidecar_resize.boxes import DEFAULT_BBOX_KEYS
from sidecar_resize.description_json import scan_boxes
from sidecar_resize.geometry import target_size
from sidecar_resize.ops.crop_structured_description import CropStructuredDescription

SHARD = "a b/part-0.parquet"
SIDES = (512, 1024)
TEXT = '{"objects": [{"label": "a", "box_2d": [100, 200, 300, 400]}]}'


class TestConformance(OpConformance):
    @pytest.fixture(autouse=True)
    def _described(self, described):
        self.described = described
        self.write_siblings(self.table())

    def operation(self):
        return {"type": "crop_structured_description", "resized": self.described.resized}

    def dataset(self):
        return self.described.dataset()

    def rel_path(self):
        return SHARD

    def table(self):
        texts = [TEXT, None, "{", "", '{"bbox": [1, 2, 3]}', TEXT, "[]", '{"bbox": [[0, 0, 1000, 1000], null]}', TEXT]
        return pa.table({"image_key": [f"key-{row}" for row in range(9)], "structured_description": texts})

    def write_siblings(self, table):
        keys = table.column("image_key")
        for side in SIDES:
            self.described.write_resized(keys, side, reasons={5: "truncated"})


class TestConformanceOfStructs(TestConformance):
    def table(self):
        dtype = pa.struct([("label", pa.string()), ("box_2d", pa.list_(pa.float32()))])
        boxes = [[100, 200, 300, 400], None, [1, 2, 3], [], [0, 0, 1000, 1000], None, [5, 5, 5, 5], [1, 1, 2, 2], None]
        rows = [{"label": "a", "box_2d": box} for box in boxes]
        rows[5] = None
        return pa.table(
            {"image_key": [f"key-{row}" for row in range(9)], "structured_description": pa.array(rows, dtype)}
        )


def test_the_op_is_offered_by_name():
    assert op_class("crop_structured_description") is CropStructuredDescription


def test_boxes_are_moved_into_each_target_and_the_geometry_is_recorded(described):
    described.fill([TEXT], sizes=[(1920, 1080)])
    table = described.run()
    assert table.schema.names == [
        *("image_key", "structured_description_crop_512", "structured_description_crop_1024", "bbox_resize_meta"),
    ]
    size = target_size(1920, 1080, 512 * 512)
    expected = [
        round((value / 1000 * resized - crop) / target * 1000)
        for value, resized, crop, target in [
            (100, size.resized_height, size.crop_top, size.height),
            (200, size.resized_width, size.crop_left, size.width),
            (300, size.resized_height, size.crop_top, size.height),
            (400, size.resized_width, size.crop_left, size.width),
        ]
    ]
    text = table.column("structured_description_crop_512")[0].as_py()
    assert text == TEXT.replace("[100, 200, 300, 400]", json.dumps(expected))
    assert expected != [100, 200, 300, 400]
    meta = table.column("bbox_resize_meta")[0].as_py()
    assert (meta["source_width"], meta["source_height"], meta["status"]) == (1920, 1080, "ok")
    assert meta["target_512"] == {
        "resized_width": size.resized_width,
        "resized_height": size.resized_height,
        "crop_left": size.crop_left,
        "crop_top": size.crop_top,
        "width": size.width,
        "height": size.height,
        "boxes": 1,
        "clipped": 0,
        "dropped": 0,
    }
    assert list(meta) == ["source_width", "source_height", "status", "target_512", "target_1024"]


STATUS = [
    (TEXT, None, "ok"),
    ("[]", None, "ok"),
    ("17", None, "ok"),
    ('{"bbox": null}', None, "ok"),
    (None, None, "no_description"),
    (" \n", None, "no_description"),
    ("{'a': 1}", None, "bad_json"),
    ("\ufeff{}", None, "bad_json"),
    ('{"bbox": [1, 2, 3]}', None, "bad_box_count"),
    ('{"bbox": "[1, 2, 3, 4]"}', None, "bad_box_count"),
    ('{"bbox": [1, 2, 3, 2000]}', None, "bad_box_range"),
    ('{"bbox": [1, 2, NaN, 4]}', None, "bad_box_range"),
    ('{"bbox": [3, 2, 1, 4]}', None, "bad_box_order"),
    ('{"bbox": [[9, 2, 1, 4], [1, 2, 3]]}', None, "bad_box_order"),
    (TEXT, ("truncated", None), "512: truncated"),
    (TEXT, (None, "timeout"), "1024: timeout"),
    (TEXT, ("missing", "missing"), "512: missing"),
    ('{"bbox": [1, 2, 3]}', (None, "timeout"), "1024: timeout"),
    (None, ("missing", "missing"), "no_description"),
    ("{", ("truncated", None), "bad_json"),
]


def test_each_row_has_one_status_by_what_leaves_most_without_a_description(described):
    texts = [text for text, _, _ in STATUS]
    described.fill(texts, reasons={row: reasons for row, (_, reasons, _) in enumerate(STATUS) if reasons})
    table = described.run()
    metas = table.column("bbox_resize_meta").to_pylist()
    assert [meta["status"] for meta in metas] == [status for _, _, status in STATUS]
    for side, index in ((512, 0), (1024, 1)):
        made = table.column(f"structured_description_crop_{side}").to_pylist()
        for (text, reasons, status), new, meta in zip(STATUS, made, metas, strict=True):
            invalid = reasons is not None and reasons[index] is not None
            assert (new is None) == (invalid or status in ("no_description", "bad_json")), (text, reasons)
            target = meta[f"target_{side}"]
            assert all((value is None) == invalid for value in target.values())
            if not invalid and status.startswith("bad_box"):
                assert target["dropped"] == 1 or text.count("[") > 2
    footer = read_footer(open_storage(f"{described.folder}/out/"), SHARD)
    counted = footer.invalid["bbox_resize_meta"]
    assert counted["bad_json"] == 3
    assert counted["512: truncated"] == 1
    assert sum(counted.values()) == sum(1 for *_, status in STATUS if status not in ("ok", "no_description"))


def test_counts_add_up_on_a_table_of_every_malformation(described):
    draw = random.Random(4)
    deep = "[" * 10_000 + '{"bbox": [10, 20, 30, 40]}' + "]" * 10_000
    pieces = [
        *("[1, 2, 3, 4]", "[0, 0, 1000, 1000]", "null", "[]", "[1, 2]", '"x"', "7", "[NaN, 1, 2, 3]", "[[1, 2, 3, 4]]"),
        *("[[0, 0, 9, 9], null, [5, 5, 5, 5], 3]", '{"y": 1}', '{"bbox": [1, 2, 3, 4]}', "[1.5, 2.5, 3.5, 4.5]"),
        *("[true, 1, 2, 3]", "[1, 2, 3, 4, 5]", f"[1, 2, 3, {'9' * 5000}]", "[-1, 0, 5, 5]", "[1e2, 0, 5e2, 1E3]"),
    ]
    texts = [deep, '"\\ud800"', '{"s": "\\udfff", "bbox": [1, 1, 900, 900]}', '{"bbox": ' + deep + "}"]
    for _ in range(300):
        keys = draw.choices(["bbox", "box_2d", "bounding_box", "a", "\\u0062box"], k=draw.randint(0, 4))
        texts.append("{" + ", ".join(f'"{key}": {draw.choice(pieces)}' for key in keys) + "}")
    texts += [text[: draw.randrange(len(text))] for text in texts[4:60]]
    texts.append('{"n": "' + "x" * 10_000_000 + '", "bbox": [0, 0, 500, 500]}')
    described.fill(texts)
    table = described.run()
    for row, (text, meta) in enumerate(zip(texts, table.column("bbox_resize_meta").to_pylist(), strict=True)):
        for side in SIDES:
            new = table.column(f"structured_description_crop_{side}")[row].as_py()
            counts = meta[f"target_{side}"]
            assert 0 <= counts["clipped"] <= counts["boxes"] - counts["dropped"]
            assert meta["status"] != "ok" or new is not None
            if meta["status"] in ("bad_json", "no_description"):
                assert (new, counts["boxes"], counts["dropped"]) == (None, 0, 0)
                continue
            left = scan_boxes(new, DEFAULT_BBOX_KEYS)
            assert [box.problem for box in left] == [None] * (counts["boxes"] - counts["dropped"])
            assert counts["boxes"] == len(scan_boxes(text, DEFAULT_BBOX_KEYS))


def test_text_that_is_not_utf8_is_bad_json(described):
    raw = pa.array([b'{"a": "\xff"}', b'{"bbox": [1, 1, 900, 900]}', None], pa.binary())
    texts = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2], raw.buffers()[0])
    described.fill(["", "", ""])
    pipeline = described.pipeline()
    keys = pa.array(["key-0", "key-1", "key-2"])
    main = pa.table({"image_key": keys, "structured_description": texts})

    class Case(TestConformance):
        def dataset(self):
            return pipeline.dataset

        def write_siblings(self, table):
            pass

        def operation(self):
            return {"type": "crop_structured_description", "resized": described.resized}

    result = Case()._run(main)
    assert [meta["status"] for meta in result.column("bbox_resize_meta").to_pylist()] == [
        "bad_json",
        "ok",
        "no_description",
    ]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (pa.string(), pa.string()),
        (pa.large_string(), pa.large_string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
    ],
)
def test_every_kind_of_text_is_read(described, dtype, expected):
    described.fill(pa.array([TEXT, None, TEXT], pa.string()).cast(dtype))
    table = described.run()
    assert table.schema.field("structured_description_crop_512").type == expected
    assert table.column("structured_description_crop_512").null_count == 1


@pytest.mark.parametrize("size", [-1, 4])
def test_structs_keep_their_type(described, size):
    box = pa.list_(pa.int32(), size)
    dtype = pa.struct(
        [("caption", pa.string()), ("objects", pa.list_(pa.struct([("label", pa.string()), ("bbox", box)])))]
    )
    good = {"caption": "c", "objects": [{"label": "a", "bbox": [100, 100, 900, 900]}, {"label": "b", "bbox": None}]}
    bad = {"caption": None, "objects": [{"label": "a", "bbox": [900, 100, 100, 900]}]}
    nothing = {"caption": None, "objects": None}
    described.fill([good, bad, None, nothing, good], dtype=dtype, reasons={4: ("truncated", None)})
    table = described.run()
    made = table.column("structured_description_crop_512")
    assert made.type == dtype
    assert [meta["status"] for meta in table.column("bbox_resize_meta").to_pylist()] == [
        *("ok", "bad_box_order", "no_description", "no_description", "512: truncated"),
    ]
    values = made.to_pylist()
    assert values[1] == {"caption": None, "objects": [{"label": "a", "bbox": None}]}
    assert values[2:] == [nothing] * 3
    assert values[0]["objects"][0]["bbox"] != good["objects"][0]["bbox"]
    assert table.column("structured_description_crop_1024").to_pylist()[4]["caption"] == "c"


def test_declared_columns_are_filled(described):
    described.fill([TEXT])
    table = described.run(
        before=[{"type": "extract_scaffold"}],
        extensions=[{"name": "structured_description_crop_512", "type": "string"}],
    )
    assert table.column("structured_description_crop_512").null_count == 0


def test_one_target_and_names_of_ones_own(described):
    keys = pa.array(["key-0"])
    described.write("main", pa.table({"image_key": keys, "boxes": [TEXT.replace("box_2d", "rect")]}))
    described.write_resized(keys, 512, audit_prefix="small")
    table = described.run(
        resized={512: described.resized[512]},
        audit_prefixes={512: "small"},
        bbox_keys=["rect"],
        description_column="boxes",
    )
    assert table.schema.names == ["image_key", "boxes_crop_512", "bbox_resize_meta"]
    assert table.column("bbox_resize_meta")[0].as_py()["target_512"]["boxes"] == 1


def test_min_visible_decides_what_is_kept(described):
    size = target_size(1920, 1080, 512 * 512)
    cropped = 1000 * size.crop_left / size.resized_width
    text = json.dumps({"bbox": [0, 0, 1000, cropped * 1.05]})  # a twentieth of the crop's width is left
    described.fill([text], sizes=[(1920, 1080)])
    assert described.run().column("structured_description_crop_512")[0].as_py() == '{"bbox": null}'
    shutil.rmtree(described.folder / "out")
    kept = described.run(min_visible=0.04)
    assert "null" not in kept.column("structured_description_crop_512")[0].as_py()
    assert kept.column("bbox_resize_meta")[0].as_py()["target_512"]["clipped"] == 1


def test_rows_are_held_to_their_keys(described):
    described.fill([TEXT, TEXT])
    keys = pa.array(["key-1", "key-0"])
    described.write_resized(keys, 1024)
    with pytest.raises(AlignmentError, match="'key-0'"):
        described.run()


def test_an_absent_shard_of_a_resized_dataset_fails(described):
    described.fill([TEXT])
    described.fill([TEXT], rel_path="part-1.parquet")
    (described.folder / "resized 512/part-1.parquet").unlink()
    with pytest.raises(ShardError, match=r"part-1\.parquet: the sidecar at .*resized 512/ has no such shard"):
        described.run()


def test_resized_datasets_of_different_pictures_are_refused(described):
    described.fill([TEXT, TEXT])
    described.write_resized(pa.array(["key-0", "key-1"]), 1024, sizes=[(4000, 3000), (640, 480)])
    with pytest.raises(ShardError, match=r"row 1: its source is 3000 x 4000 px at .* and 640 x 480 px at "):
        described.run()


def test_a_geometry_that_cannot_be_is_refused(described):
    described.fill([TEXT], crop_left=None)
    with pytest.raises(ShardError, match=r"row 0: the row is valid at .*crop_left None"):
        described.run()


def test_what_the_footers_and_resume_need_is_declared(described):
    op = described.pipeline().operations[0]
    assert [sibling.prefix for sibling in op.declare_siblings(described.dataset())] == list(described.resized.values())
    described.fill([TEXT])
    described.run()
    inputs = read_footer(open_storage(f"{described.folder}/out/"), SHARD).inputs
    assert sorted(each.uri for each in inputs if each.kind == "sibling") == sorted(
        f"{prefix}{SHARD}" for prefix in described.resized.values()
    )


def test_workers_get_the_same_op_from_json(described):
    pipeline = described.pipeline(audit_prefixes={512: "small"}, bbox_keys=["rect"])
    sent = Pipeline.from_json(json.loads(json.dumps(pipeline.to_json())))
    assert sent.operations[0].params == pipeline.operations[0].params


def test_only_what_decides_values_is_in_the_fingerprint(described):
    def fingerprint(**params):
        pipeline = described.pipeline(**params)
        return output_fingerprint(pipeline, pipeline.outputs[0])

    assert fingerprint() == fingerprint(allow_unverified=True)
    assert fingerprint() == fingerprint(resized={512: "/elsewhere/a/", 1024: "/elsewhere/b/"})
    assert fingerprint() == fingerprint(audit_prefixes={512: "0_26mp_process"})
    assert fingerprint() != fingerprint(min_visible=0.5)
    assert fingerprint() != fingerprint(bbox_keys=["bbox"])
    assert fingerprint() != fingerprint(resized={512: described.resized[512]})
    both, alone = (
        described.pipeline(**params).operations[0] for params in ({}, {"resized": {512: described.resized[512]}})
    )
    names = ["structured_description_crop_512"]
    assert both.fingerprint_params(names) == alone.fingerprint_params(names)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"resized": {}}, "at least 1"),
        ({"resized": {31: "/a"}}, "greater than or equal to 32"),
        ({"resized": {512: "/a", 1024: "/a/"}}, "two targets of resized are at /a/"),
        ({"resized": {512: "/a"}, "audit_prefixes": {1024: "x"}}, "audit_prefixes names 1024, and resized has 512"),
        ({"resized": {512: "/a"}, "min_visible": 1.5}, "less than or equal to 1"),
        ({"resized": {512: "/a"}, "bbox_keys": []}, "at least 1"),
        ({"resized": {512: "/a"}, "bbox_key": "bbox"}, "Extra inputs"),
    ],
)
def test_wrong_parameters_are_refused(params, said):
    with pytest.raises(ValidationError, match=said):
        CropStructuredDescription.Params(**params)


@pytest.mark.parametrize("dtype", [pa.binary(), pa.int32(), pa.struct([("a", pa.string())]), pa.list_(pa.string())])
def test_columns_that_are_no_descriptions_are_refused(described, dtype):
    schema = pa.schema([("image_key", pa.string()), ("structured_description", dtype)])
    with pytest.raises(ConfigError, match="column 'structured_description': "):
        check_columns(described.pipeline(), schema)


def test_types_stay_open_offline(described):
    assert check_columns(described.pipeline()).open_columns == (
        *("image_key", "structured_description"),
        *("structured_description_crop_512", "structured_description_crop_1024"),
    )


def test_audit_columns_under_another_name_are_asked_for(described):
    described.fill([TEXT])
    with pytest.raises(ConfigError, match=r"no column 'small_valid'(.|\n)*audit_prefixes: \{512: NAME\}"):
        described.run(audit_prefixes={512: "small"})


def test_what_the_op_made_passes_its_own_check(described):
    texts = [text for text, _, _ in STATUS]
    described.fill(texts, reasons={row: reasons for row, (_, reasons, _) in enumerate(STATUS) if reasons})
    table = described.run()
    pipeline = described.pipeline()
    (declared,) = pipeline.operations[0].output_checks(pipeline.dataset)
    (recognised,) = CropStructuredDescription.recognise_output(table.schema)
    assert declared.columns == recognised.columns == tuple(table.schema.names[1:])
    for check in (declared, recognised):
        assert list(check.check(table.select(list(check.columns)))) == []
