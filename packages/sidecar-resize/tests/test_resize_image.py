"""The op, with real child processes."""

from __future__ import annotations

import io
import random
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pytest
from PIL import Image
from pydantic import ValidationError
from sidecar_core.errors import ConfigError
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.op import OpContext
from sidecar_core.pipeline import build_pipeline, check_columns
from sidecar_core.reasons import Reason
from sidecar_core.registry import op_class
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.example_dataset import example_dataset
from sidecar_resize.ops.resize_image import ResizeImage, binary_column
from sidecar_resize.testing.pictures import encoded, jpeg_declaring, scene

GOOD = encoded(scene(320, 240), "JPEG")
PICTURES = [
    GOOD,
    None,
    b"",
    b"<html></html>",
    GOOD[: len(GOOD) // 2],
    jpeg_declaring(GOOD, 30_000, 30_000),
    encoded(scene(100, 150), "PNG"),
    encoded(Image.new("RGB", (10_000, 100)), "PNG"),
    GOOD,
]
REASONS = [
    None,
    "missing",
    "empty",
    "not_an_image",
    "truncated",
    "too_many_pixels",
    None,
    "aspect_ratio_too_extreme",
    None,
]


def picture_table(values=PICTURES, dtype=None):
    images = pa.array(values, dtype or pa.binary())
    return pa.table({"image_key": [f"key-{index}" for index in range(len(values))], "image": images})


def picture_dataset(**changes):
    return replace(
        example_dataset(),
        key_column="image_key",
        image_column="image",
        carry_columns=(),
        extension_fields=(),
        **changes,
    )


@pytest.fixture(scope="module")
def pool():
    with IsolationPool(IsolationOptions(workers=2)) as children:
        yield children


def run(table, pool, **params):
    op = ResizeImage(ResizeImage.Params(**{"targets": [{"area": 512}], **params}))
    with ExitStack() as scope:
        return op.apply(table, OpContext(picture_dataset(), "a.parquet", 0, pool, {}, table.num_rows, scope))


class TestConformance(OpConformance):
    @pytest.fixture(autouse=True)
    def _children(self, pool):
        self.pool = pool

    def operation(self):
        return {"type": "resize_image", "targets": [{"area": 128}, {"area": 64}]}

    def dataset(self):
        return picture_dataset()

    def table(self):
        return picture_table()

    def isolation(self):
        return self.pool


def test_the_op_is_offered_by_name():
    assert op_class("resize_image") is ResizeImage


def test_each_row_is_a_picture_or_a_reason(pool):
    result = run(picture_table(), pool, targets=[{"area": 512}, {"area": 1024}])
    assert result.column("0_26mp_process_reason").to_pylist() == REASONS
    assert result.column("0_26mp_process_valid").to_pylist() == [reason is None for reason in REASONS]
    assert result.column("image_512").is_valid().to_pylist() == [reason is None for reason in REASONS]
    assert result.column("1_05mp_process_reason").to_pylist()[7] is None
    assert result.column("0_26mp_process_source_bytes").to_pylist()[:3] == [len(GOOD), None, 0]
    made = Image.open(io.BytesIO(result.column("image_1024")[0].as_py()))
    assert (made.format, made.size) == ("WEBP", (1184, 896))


@pytest.mark.parametrize("dtype", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_every_kind_of_binary_column_is_read(pool, dtype):
    result = run(picture_table(dtype=dtype), pool)
    assert result.column("0_26mp_process_reason").to_pylist() == REASONS
    assert result.schema.field("image_512").type == pa.binary()


def test_structs_of_bytes_and_path_are_read(pool):
    rows = [{"bytes": value, "path": "a.jpg"} for value in PICTURES] + [None]
    dtype = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    result = run(picture_table(rows, dtype), pool)
    assert result.column("0_26mp_process_reason").to_pylist() == [*REASONS, "missing"]


def test_columns_that_hold_no_bytes_are_refused():
    pipeline = build_pipeline(picture_dataset(), [{"type": "resize_image", "targets": [{"area": 512}]}])
    for dtype in (pa.string(), pa.struct([("path", pa.string())])):
        with pytest.raises(ConfigError, match="image_column") as refused:
            check_columns(pipeline, pa.schema([("image_key", pa.string()), ("image", dtype)]))
        assert len(refused.value.problems) == 1


def test_a_row_that_takes_too_long_costs_only_itself(pool):
    slow = encoded(scene(10_000, 9000), "WEBP", lossless=True, method=0)  # seconds on any machine
    result = run(picture_table([GOOD, slow, GOOD]), pool, row_timeout_s=1.0)
    assert result.column("0_26mp_process_reason").to_pylist() == [None, "timeout", None]
    assert result.column("0_26mp_process_detail")[1].as_py()
    assert result.column("0_26mp_process_source_bytes")[1].as_py() == len(slow)


def test_a_row_that_needs_too_much_memory_costs_only_itself():
    large = encoded(Image.new("RGB", (12_000, 12_000)), "PNG", compress_level=1)
    with IsolationPool(IsolationOptions(workers=1, memory_cap_bytes=256 * 2**20)) as children:
        result = run(picture_table([GOOD, large, GOOD]), children)
    assert result.column("0_26mp_process_reason").to_pylist() == [None, "out_of_memory", None]


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM", "MPO"])
def test_damage_of_any_kind_costs_one_row_and_no_child(pool, file_format):
    draw = random.Random(file_format)
    pictures = []
    for _ in range(60):
        data = bytearray(encoded(scene(48, 40), file_format))
        for _ in range(draw.choice([1, 2, 8])):
            at = draw.randrange(min(len(data), draw.choice([40, 400, 100_000])))
            if draw.random() < 0.6:
                data[at] ^= 1 << draw.randrange(8)
            else:
                del data[at : at + draw.randrange(1, 30)]
        pictures.append(bytes(data))
    before = pool.counters.errors
    result = run(picture_table(pictures), pool, targets=[{"area": 64, "audit_prefix": "a"}], max_pixels=10_000_000)
    assert pool.counters.errors == before
    reasons = result.column("a_reason").to_pylist()
    assert set(reasons) - {None} <= set(Reason) - {"missing", "crashed", "timeout", "out_of_memory", "encode_failed"}
    assert all(detail for detail, reason in zip(result.column("a_detail").to_pylist(), reasons, strict=True) if reason)


def test_planned_fields_are_the_contracts():
    op = ResizeImage(ResizeImage.Params(targets=[{"area": 512}, {"area": 1024, "column": "big", "audit_prefix": "b"}]))
    names = [field.name for field in op.output_fields(picture_dataset())]
    audit = [
        *("valid", "reason", "detail"),
        *("source_width", "source_height", "source_format", "source_mode", "source_bytes", "orientation", "frames"),
        *("resized_width", "resized_height", "crop_left", "crop_top", "width", "height", "crop_loss", "upscaled"),
        *("color_note", "output_bytes"),
    ]
    assert names == [
        "image_512",
        *(f"0_26mp_process_{name}" for name in audit),
        "big",
        *(f"b_{name}" for name in audit),
    ]
    assert op.reason_columns() == {"image_512": "0_26mp_process_reason", "big": "b_reason"}
    assert op.input_columns(picture_dataset()) == ["image"]


def test_a_target_alone_has_the_fingerprint_that_it_has_beside_others():
    alone = ResizeImage(ResizeImage.Params(targets=[{"area": 512}]))
    both = ResizeImage(ResizeImage.Params(targets=[{"area": 1024}, {"area": 512}], row_timeout_s=5))
    columns = ["image_512", "0_26mp_process_valid"]
    assert alone.fingerprint_params(columns) == both.fingerprint_params(columns)
    assert alone.fingerprint_params(columns) != both.fingerprint_params(["image_1024"])
    sharper = ResizeImage(ResizeImage.Params(targets=[{"area": 512}], quality=90))
    assert sharper.fingerprint_params(columns) != alone.fingerprint_params(columns)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"targets": []}, "at least 1"),
        ({"targets": [{"area": 31}]}, "greater than or equal to 32"),
        ({"targets": [{"area": 40}]}, "multiples of 32"),
        ({"targets": [{"area": 512}, {"area": 512}]}, "two targets make column"),
        ({"targets": [{"area": 512}], "background": "white"}, "no colour"),
        ({"targets": [{"area": 512}], "keep_alpha": True, "output_format": "jpeg"}, "cannot keep alpha"),
        ({"targets": [{"area": 512}], "webp_method": 7}, "less than or equal to 6"),
        ({"targets": [{"area": 512}], "qualty": 7}, "Extra inputs"),
    ],
)
def test_wrong_parameters_are_refused(params, said):
    with pytest.raises(ValidationError, match=said):
        ResizeImage.Params(**params)


def test_a_dataset_without_pictures_is_refused():
    op = ResizeImage(ResizeImage.Params(targets=[{"area": 512}]))
    with pytest.raises(ConfigError, match="no image_column"):
        op.validate(replace(picture_dataset(), image_column=None))


def test_large_results_are_kept_in_chunks():
    values = [b"x" * 40, None, b"y" * 40, b"z" * 200, b""]
    column = binary_column(values, chunk_bytes=100)
    assert column.to_pylist() == values
    assert [len(chunk) for chunk in column.chunks] == [3, 1, 1]
    assert binary_column([]).type == pa.binary()
