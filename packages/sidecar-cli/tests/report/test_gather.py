"""What is gathered, against Arrow on the same rows."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from sidecar_cli.report.figures import RowPlace
from sidecar_cli.report.gather import ReportOptions, gather_report
from sidecar_cli.report.shown_text import shown
from sidecar_core.errors import UsageError
from sidecar_core.storage import open_storage
from sidecar_runtimes.verify import verify_dataset

OPTIONS = ReportOptions(workers=1)


def gathered(dirty, **options):
    return gather_report(open_storage(f"{dirty.out}/"), ReportOptions(workers=1, **options))


def measure(data, path):
    return next(each for each in data.measures if each.path == path)


def test_figures_equal_arrow_s_on_all_rows(dirty):
    data = gathered(dirty)
    finite = dirty.finite("mean")
    mean = measure(data, "filter_x.mean")
    assert (mean.rows, mean.null, mean.nan, mean.infinite) == (24, 8, 1, 1)
    assert (mean.minimum, mean.maximum, mean.count) == (min(finite), max(finite), len(finite))
    assert mean.mean == pytest.approx(sum(finite) / len(finite))
    assert mean.quantiles[0.5] == pc.quantile(pa.array(finite), q=0.5)[0].as_py()
    assert [row.place.row for row in mean.lowest][:1] == [6]
    assert measure(data, "filter_x.level").distinct == {0: 8, 1: 8}
    assert [each.path for each in data.measures] == ["filter_x.mean", "filter_x.level", "filter_status.failed (items)"]
    columns = {column.name: (column.rows, column.null, column.nan) for column in data.columns}
    assert columns == {
        "image_key": (24, 0, 0),
        "caption": (24, 6, 0),
        "filter_x": (24, 8, 2),
        "filter_status": (24, 0, 0),
    }
    assert (data.shards, data.shards_read, data.rows, data.rows_read) == (2, 2, 24, 24)
    status = next(each for each in data.values if each.path == "filter_status.status")
    assert dict(status.top) == {"ok": 16, "truncated": 6, shown("<script>window.hacked=1</script>"): 2}


def test_reasons_failures_and_pictures(dirty):
    data = gathered(dirty)
    assert data.reasons == {"filter_x": {"truncated": 6, "<script>window.hacked=1</script>": 2}}
    assert (data.reasons_from, data.invalid_rows, data.invalid_of) == ("all shards", 8, 24)
    assert next((group.reason, group.rows) for group in data.failures) == ("truncated", 6)
    assert data.failed_filters == (("\"'><img src=x onerror=window.hacked=1>", "truncated", 8),)
    shard = "deep <x>/part-0.parquet"
    assert data.main_prefix == f"{dirty.main}/"
    assert data.pictures[RowPlace(shard, 2)].note.startswith("not_an_image: ")
    assert data.pictures[RowPlace(shard, 5)].note == "missing: the picture is null"
    cut = data.pictures[RowPlace(shard, 8)]
    assert (cut.content is not None, cut.size) == (True, "600 × 400 px")
    assert max(cut.width, cut.height) == 144


def test_runs_receipt_and_what_stands_out(dirty):
    data = gathered(dirty)
    assert data.title.startswith("data <script>")
    assert [run.state for run in data.status.runs] == ["done", "interrupted"]
    assert data.verdict.state == "none"
    out = open_storage(f"{dirty.out}/")
    verify_dataset(open_storage(f"{dirty.main}/"), out, key_column="image_key")
    data = gathered(dirty)
    assert data.verdict.state == "failed"  # NaN
    words = [finding.words for finding in data.findings if finding.level == "bad"]
    assert any("NaN or infinity in filter_x" in each for each in words)
    assert any("1 shard failed" in each or "2 shards failed" in each for each in words)
    shard = dirty.out / "deep <x>/part-1.parquet"
    pq.write_table(pq.read_table(shard), shard)
    assert gathered(dirty).verdict.state == "stale"


def test_a_shard_that_cannot_be_read_is_named_and_the_rest_is_shown(dirty):
    (dirty.out / "deep <x>/part-0.parquet").write_bytes(b"PAR1 no")
    data = gathered(dirty)
    assert [(path, data.rows) for path, _ in data.unreadable] == [("deep <x>/part-0.parquet", 12)]
    assert data.shards_read == 1


def test_rows_of_another_main_dataset_are_not_shown(dirty):
    shard = dirty.main / "deep <x>/part-0.parquet"
    table = pq.read_table(shard)
    pq.write_table(table.take([1, 0, *range(2, 12)]), shard)
    note = gathered(dirty).pictures[RowPlace("deep <x>/part-0.parquet", 0)].note
    assert note.startswith("the row has another key there: 0-1 ")


def test_what_limits_leave_out(dirty):
    data = gathered(dirty, sample_shards=1, picture_bytes=0)
    assert (data.shards_read, data.rows, data.rows_read, data.sampled) == (1, 24, 12, True)
    assert data.invalid_of == 24  # the footers of all shards are read
    assert any("--sample-shards 2" in note for note in data.notes)
    assert {picture.note.split(":")[0] for picture in data.pictures.values()} == {"left out"}
    none = gathered(dirty, thumbnails=0)
    assert (none.pictures, none.failures[0].examples) == ({}, ())


def test_without_a_main_dataset(dirty):
    shutil.rmtree(dirty.main)
    data = gathered(dirty)
    assert measure(data, "filter_x.mean").count == 14
    assert all(picture.content is None for picture in data.pictures.values())


def test_pictures_of_the_output_itself_come_first(tmp_path, pictures):
    path = tmp_path / "resized/a.parquet"
    path.parent.mkdir()
    images = pa.array([pictures[0], None, pictures[1]], pa.large_binary())
    pq.write_table(pa.table({"image_key": [1, 2, 3], "image": images, "width": [60, None, 40]}), path)
    data = gather_report(open_storage(f"{tmp_path}/resized/"), OPTIONS)
    assert [data.pictures[row.place].width for row in measure(data, "width").lowest] == [40, 60]
    image = next(column for column in data.columns if column.name == "image")
    assert (image.rows, image.null, image.from_statistics) == (3, 1, True)


def test_every_kind_of_column(tmp_path):
    nested = pa.struct([("deep", pa.struct([("list", pa.list_(pa.int8())), ("flag", pa.bool_())]))])
    table = pa.table(
        {
            "when": pa.array([1, None], pa.timestamp("ns", "UTC")),
            "span": pa.array([1, None], pa.duration("us")),
            "day": pa.array([1, None], pa.date32()),
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())),
            "nested": pa.array([{"deep": {"list": [1, 2], "flag": True}}, None], nested),
            "category": pa.array(["a", None]).dictionary_encode(),
            "nothing": pa.nulls(2),
            "key.with.dots": pa.array([math.inf, 1.5]),
            "half": pa.array([1, 2], pa.float32()).cast(pa.float16()),
            "bytes": pa.array([b"\xff", None]),
            "bool_reason": pa.array([None, "why"]),
            "bool_valid": pa.array([True, False]),
            "list_view": pa.array([[1.5], None], pa.list_view(pa.float32())),
            "fixed": pa.array([[1.5], None], pa.list_(pa.float32(), 1)),
            "maps": pa.array([[[("a", 1.5)]], None], pa.list_(pa.map_(pa.string(), pa.float32()))),
            "tensor": pa.ExtensionArray.from_storage(
                pa.fixed_shape_tensor(pa.float32(), (2,)), pa.array([[1, 2], None], pa.list_(pa.float32(), 2))
            ),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    data = gather_report(open_storage(f"{tmp_path}/"), OPTIONS)
    assert (data.rows, data.shards_read, data.is_output) == (2, 2, False)
    assert {column.name: column.null for column in data.columns} == {
        name: 2 if name == "nothing" else 1 if name not in ("half", "key.with.dots", "bool_valid") else 0
        for name in table.column_names
    }
    items = measure(data, "nested.deep.list (items)")
    assert (items.rows, items.null, items.distinct) == (2, 1, {2: 1})
    assert data.reasons == {"bool": {"why": 1}}


def test_no_rows_at_all(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.float32()), "b": pa.array([], pa.string())}), tmp_path / "a.parquet")
    data = gather_report(open_storage(f"{tmp_path}/"), OPTIONS)
    assert [(column.name, column.rows) for column in data.columns] == [("a", 0), ("b", 0)]


def test_nothing_there_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="nothing is at"):
        gather_report(open_storage(f"{tmp_path}/nowhere/"), OPTIONS)
    with pytest.raises(UsageError, match="no shards at"):
        gather_report(open_storage(f"{tmp_path}/"), OPTIONS)


def test_the_parent_loads_no_image_library(dirty):
    code = (
        "import sys, json\n"
        "from sidecar_cli.report.gather import ReportOptions, gather_report\n"
        "from sidecar_core.storage import open_storage\n"
        "data = gather_report(open_storage(sys.argv[1]), ReportOptions(workers=1))\n"
        "assert any(picture.content for picture in data.pictures.values())\n"
        "print(json.dumps([name for name in ('PIL', 'cv2', 'pyvips') if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, f"{dirty.out}/"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
