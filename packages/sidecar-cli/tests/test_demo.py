"""`demo`: the real thing on the demo's dataset, in a process of its own."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.demo import find_surprises
from sidecar_cli.demo_annotations import find_annotation_surprises
from sidecar_cli.demo_boxes import find_box_surprises
from sidecar_core.dataset import StorageOptions
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.storage import open_storage


@pytest.fixture
def demo(sidecar, tmp_path, monkeypatch):
    monkeypatch.delenv("SIDECAR_CACHE_DIR", raising=False)
    folder = tmp_path / "the demo ü=1"
    return folder, sidecar("demo", folder, "--json", env={"RAY_ADDRESS": "ray://127.0.0.1:1"})


def look_at_pages(report, folder):
    """It ends with pages: the boxes on their pictures, and what was measured."""
    pages = [folder / "boxes/_sidecar/report.html", folder / "filters/_sidecar/report.html"]
    assert report["reports"] == [str(page) for page in pages]
    assert 'id="overlays"' in pages[0].read_text()
    assert "filter_luma" in pages[1].read_text()
    return pages


def test_each_row_comes_out_as_it_must_and_everything_is_verified(demo, sidecar):
    folder, done = demo
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["ok"], report["surprises"], report["problems"]) == (True, [], [])
    assert [(step["name"], step["rows"], step["verified"]) for step in report["steps"]] == [
        ("0_262mp", 96, True),
        ("1_05mp", 96, True),
        ("boxes", 96, True),
        ("filters", 96, True),
        ("annotated", 96, True),
    ]
    receipts = (
        "0_262mp/_sidecar/verify-resized.json",
        "boxes/_sidecar/verify.json",
        "filters/_sidecar/verify.json",
        "annotated/_sidecar/verify.json",
    )
    for receipt in receipts:
        assert json.loads((folder / receipt).read_text())["passed"] is True

    assert list(folder.glob("cache/parquet_index/*-*"))  # and not in the user's cache

    pages = look_at_pages(report, folder)

    # a second time, nothing is made again
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    again = sidecar("demo", folder)
    assert again.returncode == 0, again.stderr
    assert "Each broken picture was marked with the right reason" in again.stdout
    assert again.stdout.splitlines()[-1] == str(pages[1])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before

    # the commands that it suggests work
    checked = sidecar("check", *sorted((folder / "configs/pipelines").glob("*.yaml")))
    assert checked.returncode == 0, checked.stderr

    # a box that sits elsewhere is noticed, and one that is none
    spoil_two_boxes(folder / "boxes/part-00000.parquet")
    pictures = {512: open_storage(f"{folder}/0_262mp/", StorageOptions())}
    with IsolationPool(IsolationOptions(workers=1)) as isolation:
        surprises = find_box_surprises(open_storage(f"{folder}/boxes/", StorageOptions()), pictures, isolation)
    assert len(surprises) == 2
    assert any("is on " in each for each in surprises)
    assert any(" shapes are drawn" in each for each in surprises)
    verified = sidecar("verify", folder / "boxes", "--all")
    assert verified.returncode == 1
    assert "is not within 0-1000" in " ".join(verified.stdout.split())

    # boxes are not moved into pictures that changed since they were verified
    again = ("run", folder / "configs/pipelines/boxes.yaml", "--output-prefix", folder / "again", "--dry-run")
    assert sidecar(*again).returncode == 0
    shard = folder / "0_262mp/part-00000.parquet"
    pq.write_table(pq.read_table(shard), shard)
    refused = sidecar(*again)
    assert refused.returncode == 3
    assert "is of other shards than are there now, 3 shards" in refused.stderr
    assert "sidecar verify-resized --main-prefix " in refused.stderr

    # a row that came out otherwise is noticed
    shard = folder / "0_262mp/part-00000.parquet"
    table = pq.read_table(shard)
    index = table.schema.get_field_index("0_26mp_process_reason")
    changed = ["timeout", *table["0_26mp_process_reason"].to_pylist()[1:]]
    pq.write_table(table.set_column(index, "0_26mp_process_reason", pa.array(changed, pa.string())), shard)
    (surprise,) = find_surprises(open_storage(f"{folder}/0_262mp/", StorageOptions()), "512")
    assert "is 'timeout', and must be" in surprise

    # so are captions that came to another row
    shard = folder / "annotated/part-00001.parquet"
    table = pq.read_table(shard)
    assert {*table["caption_source"].to_pylist()} == {"editors", "model", "main", None}
    index = table.schema.get_field_index("caption")
    pq.write_table(table.set_column(index, "caption", pa.chunked_array([table["caption"].to_pylist()[::-1]])), shard)
    surprises = find_annotation_surprises(open_storage(f"{folder}/annotated/", StorageOptions()))
    assert len(surprises) > 10
    assert all("caption of " in surprise for surprise in surprises)


def spoil_two_boxes(shard):
    """Rewrites a shard with a box of one row elsewhere, and one of another row out of its picture."""
    table = pq.read_table(shard)
    name = "structured_description_crop_512"
    texts = table[name].to_pylist()
    rows = [row for row, text in enumerate(texts) if text is not None]
    for row, box in zip(rows, ([0, 0, 12, 12], [0, 0, 12, 1200]), strict=False):
        value = json.loads(texts[row])
        value["objects"][0]["box_2d"] = box
        texts[row] = json.dumps(value)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, pa.array(texts, pa.string())), shard)


def test_a_folder_with_something_else_is_left_alone(sidecar_here, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("x")
    done = sidecar_here("demo", tmp_path / "mine")
    assert done.returncode == 3
    assert "did not make" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]
