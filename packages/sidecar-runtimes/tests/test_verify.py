"""The verifier, on outputs that were made by hand."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import UsageError
from sidecar_core.footer import FooterInfo
from sidecar_core.lease import LEASE_PATH, LeaseRecord
from sidecar_core.proof import read_receipt
from sidecar_core.shard_writer import ShardWriter
from sidecar_core.storage import open_storage
from sidecar_runtimes.verify import verify_dataset

KEYS = [f"k{row}" for row in range(40)]
IMAGES = [None if row % 10 == 3 else os.urandom(20_000) for row in range(40)]
FOOTER = FooterInfo(
    fingerprint="f", run_id="r", version="0", inputs=(), rows=0, key_digest="", key_digest_row_groups=(), invalid={}
)


@pytest.fixture
def datasets(tmp_path):
    """Writes a main dataset of one shard beside an empty output; returns their folders."""
    for name in ("main", "out"):
        (tmp_path / name).mkdir()
    pq.write_table(pa.table({"key": KEYS}), tmp_path / "main/a.parquet")
    return tmp_path / "main", tmp_path / "out"


def write_output(path, keys=KEYS):
    table = pa.table({"key": keys, "image": pa.array(IMAGES, pa.binary())})
    with ShardWriter(path, table.schema, image_columns=["image"]) as writer:
        writer.write(table)
        writer.close(FOOTER)


def verify(datasets, **options):
    main, output = (open_storage(str(folder)) for folder in datasets)
    return verify_dataset(main, output, key_column="key", **options)


def test_pictures_are_counted_and_not_read(datasets):
    path = datasets[1] / "a.parquet"
    write_output(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF  # whoever reads that page finds its checksum wrong
    path.write_bytes(data)
    report = verify(datasets)
    assert report.ok
    assert (report.columns["image"].rows, report.columns["image"].null) == (40, 4)


def test_nulls_of_bytes_without_statistics_are_counted(datasets):
    table = pa.table({"key": KEYS, "image": pa.array(IMAGES, pa.binary())})
    pq.write_table(table, datasets[1] / "a.parquet", write_statistics=False)
    assert verify(datasets).columns["image"].null == 4


def test_a_footer_of_other_keys_is_found(datasets):
    path = datasets[1] / "a.parquet"
    write_output(path)
    others = pa.table({"key": KEYS[::-1], "image": pa.array(IMAGES, pa.binary())})
    metadata = pq.read_metadata(path).metadata
    pq.write_table(others.replace_schema_metadata(metadata), path)
    pq.write_table(pa.table({"key": KEYS[::-1]}), datasets[0] / "a.parquet")
    (problem,) = verify(datasets).problems
    assert problem.kind == "misaligned"
    assert "its footer tells" in problem.message


def test_nan_in_any_leaf_is_a_problem(datasets):
    scores = pa.array(
        [{"a": [float("nan")]} if row == 7 else {"a": [0.5, None]} for row in range(40)],
        pa.struct([("a", pa.list_(pa.float32()))]),
    )
    pq.write_table(pa.table({"key": KEYS, "score": scores}), datasets[1] / "a.parquet")
    report = verify(datasets)
    assert [problem.kind for problem in report.problems] == ["nan"]
    assert report.columns["score"].nan == 1


def test_columns_of_every_type_that_parquet_holds_are_looked_through(datasets):
    rows = {7: [1.0, float("nan")], 8: [float("inf"), float("nan")], 9: None}
    lists = [rows.get(row, [0.5, None]) for row in range(40)]
    number = pa.float32()
    columns = {
        "list": pa.array(lists, pa.list_(number)),
        "large": pa.array(lists, pa.large_list(number)),
        "fixed": pa.array(lists, pa.list_(number, 2)),
        "view": pa.array(lists, pa.list_view(number)),
        "large_view": pa.array(lists, pa.large_list_view(number)),
        "map": pa.array([each and [("a", each[0]), ("b", each[1])] for each in lists], pa.map_(pa.string(), number)),
        "keys": pa.array(
            [each and [(each[0], "a"), (each[1] or 1.0, "b")] for each in lists], pa.map_(number, pa.string())
        ),
    }
    others = {
        "map_of_text": pa.array([None, *[[("a", "nan")]] * 39], pa.map_(pa.string(), pa.string())),
        "text": pa.array([None, *[["nan"]] * 39], pa.list_(pa.string_view())),
        "document": pa.ExtensionArray.from_storage(pa.json_(), pa.array([None, *["{}"] * 39])),
    }
    pq.write_table(pa.table({"key": KEYS, **columns, **others}), datasets[1] / "a.parquet", row_group_size=9)
    report = verify(datasets)
    assert {name: (each.null, each.nan) for name, each in report.columns.items()} == {
        **dict.fromkeys(columns, (1, 2)),
        **dict.fromkeys(others, (1, 0)),
    }
    assert [problem.message for problem in report.problems] == [
        f"column {name!r} holds NaN or infinity in 2 of 40 rows" for name in columns
    ]


def test_a_column_that_cannot_be_read_is_a_problem_of_its_shard(datasets):
    path = datasets[1] / "a.parquet"
    pq.write_table(pa.table({"key": KEYS, "numbers": [0.5] * 40}), path)
    codec = b"\x07numbers\x15\x02"  # the column's name in the footer, and after it SNAPPY
    assert path.read_bytes().count(codec) == 1
    path.write_bytes(path.read_bytes().replace(codec, codec[:-1] + b"\x06"))  # LZO
    (problem,) = verify(datasets).problems
    assert (problem.rel_path, problem.kind) == ("a.parquet", "unreadable")
    assert problem.message.startswith("a.parquet: ")
    assert "LZO" in problem.message


def test_the_receipt_is_that_of_the_report_and_of_the_content(datasets):
    write_output(datasets[1] / "a.parquet")
    verify(datasets, seed=7)
    output = open_storage(str(datasets[1]))
    receipt = read_receipt(output, "verify")
    assert (receipt.passed, receipt.shards, receipt.checked_shards, receipt.rows) == (True, 1, 1, 40)
    assert (receipt.all_shards, receipt.checked_rows, receipt.seed) == (True, 40, 7)
    assert receipt.covers(output.list_shards())
    write_output(datasets[1] / "b.parquet")
    assert not receipt.covers(output.list_shards())


@pytest.mark.parametrize("change", [{"passed": "no"}, {"all_shards": "false"}, {"problems": 5}, {"more": 1}, None])
def test_a_receipt_that_is_none_counts_as_none(datasets, change):
    write_output(datasets[1] / "a.parquet")
    verify(datasets)
    path = datasets[1] / "_sidecar/verify.json"
    path.write_text("[" * 100_000 if change is None else json.dumps({**json.loads(path.read_text()), **change}))
    assert read_receipt(open_storage(str(datasets[1])), "verify") is None


def test_no_receipt_is_left_while_a_run_is_writing(datasets, caplog):
    write_output(datasets[1] / "a.parquet")
    output = open_storage(str(datasets[1]))
    lease = LeaseRecord.of_this_process("other", stale_after_s=120, beat_every_s=10)
    output.write_bytes(LEASE_PATH, lease.to_bytes())
    assert verify(datasets).ok
    assert read_receipt(output, "verify") is None
    assert "run other" in caplog.text
    output.delete(LEASE_PATH)
    verify(datasets)
    assert read_receipt(output, "verify").passed


@pytest.mark.parametrize("where", ["empty", "absent"])
def test_a_main_dataset_without_shards_is_wrong_usage(tmp_path, where):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no shards"):
        verify((tmp_path / where, tmp_path / "empty"))
