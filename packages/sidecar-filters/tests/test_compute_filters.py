"""The op, with real child processes."""

import math
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pytest
from pydantic import ValidationError
from sidecar_core.errors import ConfigError
from sidecar_core.isolation import shared_pool
from sidecar_core.nulls import null_rows
from sidecar_core.op import OpContext
from sidecar_core.registry import op_class
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.example_dataset import example_dataset
from sidecar_core.types import StructTypes
from sidecar_filters import filter_names
from sidecar_filters.compute_filters import ComputeFilters, encoded_images, filter_column
from sidecar_filters.measure import RowMeasures
from sidecar_filters.registry import find_filter
from sidecar_filters.testing.hostile_filters import TRIGGER_WIDTH
from sidecar_filters.testing.pictures import broken_files, encoded, scene

GOOD = encoded(scene(120, 90))
PICTURES = [
    GOOD,
    None,
    b"",
    b"<html></html>",
    GOOD[:900],
    encoded(scene(40, 30), "PNG"),
    *broken_files().values(),
    GOOD,
]
ALL = filter_names()


def picture_dataset(**changes):
    types = StructTypes.installed()
    fields = {"key_column": "image_key", "image_column": "image", "carry_columns": (), "extension_fields": ()}
    return replace(example_dataset(), **{**fields, "struct_types": types, **changes})


def picture_table(values=PICTURES, dtype=None):
    return pa.table(
        {"image_key": [f"key-{i}" for i in range(len(values))], "image": pa.array(values, dtype or pa.binary())}
    )


def run(table, **params):
    op = ComputeFilters(ComputeFilters.Params.model_validate(params))
    with ExitStack() as scope:
        return op.apply(table, OpContext(picture_dataset(), "a.parquet", 0, shared_pool(), {}, table.num_rows, scope))


class TestContract(OpConformance):
    def operation(self):
        return {"type": "compute_filters", "filters": ["luma", "exif_rotation", "fingerprint"]}

    def dataset(self):
        return picture_dataset()

    def table(self):
        return picture_table()

    def isolation(self):
        return shared_pool()


def test_it_is_found_by_its_name():
    assert op_class("compute_filters") is ComputeFilters


def test_every_row_has_its_values_or_a_reason():
    found = run(picture_table(), filters=ALL)
    assert found.column_names == ["image_key", "image", *(f"filter_{name}" for name in ALL), "filter_status"]
    assert found.num_rows == len(PICTURES)
    statuses = found.column("filter_status").to_pylist()
    assert [row["status"] for row in statuses[:6]] == ["ok", "missing", "empty", "not_an_image", "truncated", "ok"]
    for name in ALL:
        column = found.column(f"filter_{name}")
        assert column.null_count == 0  # null rows are structs of nulls
        nulls = null_rows(column).to_pylist()
        for index, (status, null) in enumerate(zip(statuses, nulls, strict=True)):
            failed = [entry["filter"] for entry in status["failed"]]
            keeps_its_hash = name == "fingerprint" and PICTURES[index] is not None
            assert null == (name in failed and not keeps_its_hash), (name, index, status)
    assert found.column("filter_fingerprint").to_pylist()[4]["sha256"]
    assert found.column("filter_fingerprint").to_pylist()[4]["phash"] is None


def test_no_value_is_nan_or_infinite():
    found = run(picture_table(), filters=ALL)
    for name in ALL:
        for row in found.column(f"filter_{name}").to_pylist():
            assert all(not isinstance(value, float) or math.isfinite(value) for value in row.values())


@pytest.mark.parametrize(
    "dtype", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.struct({"bytes": pa.binary(), "path": pa.string()})]
)
def test_image_columns_of_any_kind(dtype):
    values = [GOOD, None, b"", GOOD]
    if pa.types.is_struct(dtype):
        values = [None if value is None else {"bytes": value, "path": "a.jpg"} for value in values]
        values[1] = {"bytes": None, "path": "elsewhere.jpg"}
        values.append(None)
    found = run(picture_table(values, dtype), filters=["luma"]).column("filter_status").to_pylist()
    expected = ["ok", "missing", "empty", "ok", "missing"][: len(values)]
    assert [row["status"] for row in found] == expected


def test_dictionaries_and_slices_and_chunks():
    column = pa.chunked_array(
        [pa.array([b"a", None, b"b", b"a"]).dictionary_encode(), pa.array([b"c"]).dictionary_encode()]
    )
    found = encoded_images(column.slice(1))
    assert found == [None, b"b", b"a", b"c"]
    structs = pa.array([{"bytes": b"x"}, None, {"bytes": b"y"}]).slice(1)
    assert encoded_images(pa.chunked_array([structs])) == [
        None,
        b"y",
    ]


def test_a_value_that_does_not_fit_costs_its_row():
    images = [GOOD, encoded(scene(TRIGGER_WIDTH, 40)), GOOD]
    found = run(picture_table(images), filters=["wrong_type", "luma"])
    assert found.column("filter_wrong_type").to_pylist() == [
        {"fraction": 0.5, "fraction_auto": 0.5},
        {"fraction": None, "fraction_auto": None},
        {"fraction": 0.5, "fraction_auto": 0.5},
    ]
    assert null_rows(found.column("filter_luma")).to_pylist() == [False, False, False]
    status = found.column("filter_status").to_pylist()
    assert [row["status"] for row in status] == ["ok", "partial", "ok"]
    assert status[1]["failed"] == [{"filter": "wrong_type", "reason": "crashed"}]
    assert "half" in status[1]["detail"]


def test_a_value_under_a_name_that_the_struct_lacks_costs_its_row():
    images = [GOOD, encoded(scene(TRIGGER_WIDTH, 40)), None]
    found = run(picture_table(images), filters=["misspelling", "luma"])
    assert found.column("filter_misspelling").to_pylist() == [
        {"fraction": 0.5, "fraction_auto": 0.5},
        {"fraction": None, "fraction_auto": None},
        {"fraction": None, "fraction_auto": None},
    ]
    status = found.column("filter_status").to_pylist()
    assert [row["status"] for row in status] == ["ok", "partial", "missing"]
    assert status[1]["failed"] == [{"filter": "misspelling", "reason": "crashed"}]
    assert status[1]["detail"] == "filter 'misspelling' returned 'fractoin', which filter_edge_density_v1 lacks"


def test_each_field_of_each_filter_may_be_wrong():
    for name in ALL:
        dtype = StructTypes.installed().struct(find_filter(name).struct)
        for field in dtype:
            rows = [
                RowMeasures({name: {field.name: wrong}})
                for wrong in (object(), "x" if field.type != pa.string() else 3)
            ]
            column, checked = filter_column(find_filter(name), dtype, rows)
            assert null_rows(column).to_pylist() == [True, True], field
            assert all(name in row.failed for row in checked)


def test_workers_do_not_matter_and_threads_are_workers():
    table = picture_table([encoded(scene(50 + seed, 40, seed)) for seed in range(6)])
    one, two = (run(table, filters=["luma", "texture"], workers=workers) for workers in (1, 2))
    assert one == two
    assert run(table, filters=["luma", "texture"], threads=1) == one
    assert ComputeFilters.Params.model_validate({"filters": ["luma"], "threads": 3}).workers == 3


def test_max_pixels():
    found = run(picture_table([GOOD]), filters=["luma", "exif_metadata"], max_pixels=100)
    assert found.column("filter_status").to_pylist()[0]["status"] == "too_many_pixels"
    assert found.column("filter_exif_metadata").to_pylist()[0]["width"] == 120


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"filters": ["clarty"]}, "unknown filter 'clarty'; did you mean 'clarity'?"),
        ({"filters": ["luma", "luma"]}, "'luma' is named twice"),
        ({"filters": []}, "at least 1 item"),
        ({}, "Field required"),
        ({"filters": ["luma"], "workers": 0}, "greater than or equal to 1"),
        ({"filters": ["luma"], "row_timeout_s": 0}, "greater than 0"),
        ({"filters": ["luma"], "nothing": 1}, "Extra inputs"),
    ],
)
def test_wrong_parameters(params, message):
    with pytest.raises(ValidationError, match=message.replace("?", r"\?")):
        ComputeFilters.Params.model_validate(params)


def test_a_dataset_without_image_column():
    op = ComputeFilters(ComputeFilters.Params(filters=("luma",)))
    with pytest.raises(ConfigError, match="image_column"):
        op.validate(picture_dataset(image_column=None))


def test_a_column_s_fingerprint_depends_on_its_own_filter():
    def params(columns, **changes):
        settings = {"filters": ["luma", "texture"], **changes}
        return ComputeFilters(ComputeFilters.Params.model_validate(settings)).fingerprint_params(columns)

    assert params(["filter_luma"]) == params(["filter_luma"], filters=["luma", "clarity"])
    assert params(["filter_luma"]) == params(["filter_luma"], workers=7, row_timeout_s=3)
    assert params(["filter_luma"]) != params(["filter_luma"], max_pixels=5)
    assert params(["filter_status"]) != params(["filter_status"], filters=["luma"])


def test_reasons_stand_in_the_status():
    op = ComputeFilters(ComputeFilters.Params(filters=("luma",)))
    assert op.reason_columns() == {"filter_status": "filter_status.status"}
