"""A filter that aborts, hangs, eats or raises costs itself, on one row."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.reasons import Reason
from sidecar_core.types import StructTypes
from sidecar_filters import isolated
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec, plain_values, without_empty_lines
from sidecar_filters.registry import find_filters
from sidecar_filters.status import row_status
from sidecar_filters.testing.hostile_filters import HOSTILE, TRIGGER_WIDTH, measure_row_with_a_decoder_that_aborts
from sidecar_filters.testing.pictures import encoded, scene

GOOD = encoded(scene(60, 40))
TRIGGER = encoded(scene(TRIGGER_WIDTH, 40))
BESIDE = ("luma", "exif_rotation", "jpeg_artifact", "exif_metadata")
FINE = {"fraction": 0.5, "fraction_auto": 0.5}


@pytest.fixture(scope="module")
def pool():
    with IsolationPool(IsolationOptions(workers=2)) as pool:
        yield pool


@pytest.mark.parametrize(
    ("hostile", "reason", "fact"),
    [
        ("aborting", Reason.CRASHED, "SIGABRT"),
        ("killed", Reason.CRASHED, "SIGKILL"),
        ("loud", Reason.CRASHED, "SIGABRT"),
        ("hanging", Reason.TIMEOUT, "3.0"),
        ("hanging_loudly", Reason.TIMEOUT, "3.0"),
        ("eating", Reason.OUT_OF_MEMORY, "MemoryError"),
        ("raising", Reason.CRASHED, "KeyError"),
        ("raising_surrogate", Reason.CRASHED, r"bad name \udce9"),
        ("raising_no_text", Reason.CRASHED, "RuntimeError"),
        ("leaving", Reason.CRASHED, "SystemExit"),
    ],
)
def test_one_filter_of_one_row_is_null(pool, hostile, reason, fact):
    filters = find_filters([*BESIDE[:2], hostile, *BESIDE[2:]])
    images = [GOOD, TRIGGER, GOOD, TRIGGER]
    rows = measure_rows(pool, images, MeasureSpec(filters), timeout_s=3)
    expected = measure_rows(pool, images, MeasureSpec(find_filters(BESIDE)), timeout_s=60)
    for row, other in zip(rows, expected, strict=True):
        assert {name: row.values[name] for name in BESIDE} == other.values
    for index in (0, 2):
        assert rows[index].values[hostile] == FINE
        assert row_status(filters, rows[index]) == {"status": "ok", "failed": [], "detail": None}
    for index in (1, 3):
        status = row_status(filters, rows[index])
        assert status["status"] == "partial"
        assert status["failed"] == [{"filter": hostile, "reason": reason.value}]
        assert hostile in status["detail"]
        assert fact in status["detail"]
        pa.array([status], StructTypes.installed().struct("filter_status_v1"))


def test_several_hostile_filters_on_one_row(pool):
    filters = find_filters(["aborting", "luma", "killed", "raising", "exif_rotation"])
    (row,) = measure_rows(pool, [TRIGGER], MeasureSpec(filters), timeout_s=60)
    assert set(row.values) == {"luma", "exif_rotation"}
    assert set(row.failed) == {"aborting", "killed", "raising"}
    assert row_status(filters, row)["status"] == "partial"


def test_a_hostile_filter_alone_gives_its_reason_as_the_status(pool):
    filters = find_filters(["exif_rotation", "aborting"])
    (row,) = measure_rows(pool, [TRIGGER], MeasureSpec(filters), timeout_s=60)
    assert row_status(filters, row)["status"] == "crashed"
    assert row.values["exif_rotation"]["rotation_degrees"] == 0


def test_what_does_not_fit_into_memory_leaves_the_header_filters():
    filters = find_filters(["luma", "exif_metadata", "fingerprint", "jpeg_artifact"])
    small = encoded(scene(64, 64), "PNG")
    large = encoded(np.zeros((14_000, 14_000, 3), np.uint8), "PNG")
    with IsolationPool(IsolationOptions(workers=1, memory_cap_bytes=300 << 20)) as tight:
        rows = measure_rows(tight, [small, large, small], MeasureSpec(filters), timeout_s=60)
    assert rows[0] == rows[2]
    assert not rows[0].failed
    assert rows[1].failed == dict.fromkeys(("luma", "fingerprint", "jpeg_artifact"), Reason.OUT_OF_MEMORY)
    assert rows[1].values["exif_metadata"]["width"] == 14_000
    assert rows[1].values["fingerprint"] == {"sha256": hashlib.sha256(large).hexdigest()}
    assert row_status(filters, rows[1])["status"] == "out_of_memory"


def test_a_child_that_dies_while_decoding_leaves_the_header_filters(pool, monkeypatch):
    """The decoder is replaced by one that aborts, in the children."""
    filters = find_filters(["luma", "exif_metadata", "fingerprint", "texture"])
    monkeypatch.setattr(isolated, "measure_row", measure_row_with_a_decoder_that_aborts)
    (row,) = measure_rows(pool, [GOOD], MeasureSpec(filters), timeout_s=60)
    assert row.failed == dict.fromkeys(("luma", "fingerprint", "texture"), Reason.CRASHED)
    assert row.values["exif_metadata"]["width"] == 60
    assert row.values["fingerprint"] == {"sha256": hashlib.sha256(GOOD).hexdigest()}
    assert row_status(filters, row)["status"] == "crashed"
    assert "decoding: " in row.details[0]
    assert "SIGABRT" in row.details[0]


def test_what_is_not_finite_is_null(pool):
    (row,) = measure_rows(pool, [TRIGGER], MeasureSpec((HOSTILE["not_finite"],)), timeout_s=60)
    assert row.values == {"not_finite": {"fraction": None, "fraction_auto": None}}
    assert plain_values({"a": 1e39, "b": -3.4e38, "c": 3}) == {"a": None, "b": -3.4e38, "c": 3}


def test_results_do_not_depend_on_the_number_of_workers(pool):
    images = [encoded(scene(50 + seed, 40, seed)) for seed in range(12)]
    spec = MeasureSpec(find_filters(BESIDE))
    with IsolationPool(IsolationOptions(workers=1)) as single:
        assert measure_rows(single, images, spec, timeout_s=60) == measure_rows(pool, images, spec, timeout_s=60)


def test_empty_lines_of_native_output_are_left_out():
    assert without_empty_lines("libjpeg: bad\n\n  \nabort\n") == "libjpeg: bad\nabort"
