"""`retry`: pictures that timed out, once more, with pipelines that resize and measure."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.isolation import submit_call
from sidecar_resize.testing.pictures import encoded_scene

PIPELINE = """
dataset: pictures
operations:
  - type: resize_image
    targets: [{{area: 256, audit_prefix: small}}, {{area: 320, audit_prefix: large}}]
    row_timeout_s: {seconds}
  - {{type: compute_filters, filters: [luma], row_timeout_s: {seconds}}}
outputs:
  - {{name: small, prefix: ../../small, columns: {{image: image_256, "small_*": "small_*"}}}}
  - {{name: large, prefix: ../../large, columns: {{image: image_320, "large_*": "large_*"}}}}
  - {{name: measures, prefix: ../../measures, columns: {{"filter_*": "filter_*"}}}}
"""


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline with three outputs, over one shard of two pictures and two rows that are none."""
    picture = submit_call(encoded_scene, 4000, 3000, "JPEG")  # no machine measures it in a millisecond
    (tmp_path / "main").mkdir()
    table = pa.table({"image_key": list("abcd"), "image": pa.array([picture, None, picture, b"no picture"])})
    pq.write_table(table, tmp_path / "main/s.parquet")
    for folder in ("datasets", "pipelines"):
        (tmp_path / "configs" / folder).mkdir(parents=True)
    (tmp_path / "configs/datasets/pictures.yaml").write_text(
        "name: pictures\nmain_prefix: ../../main\nsidecar_prefix: ../../sidecar\n"
        "key_column: image_key\nimage_column: image\n"
    )
    path = tmp_path / "configs/pipelines/all.yaml"
    path.write_text(PIPELINE.format(seconds=60))
    return path


def tables(folder):
    return {name: pq.ParquetFile(folder / name / "s.parquet").read() for name in ("small", "large", "measures")}


def test_pictures_that_timed_out(sidecar_here, pipeline, tmp_path):
    assert sidecar_here("run", pipeline, "--workers", 2).returncode == 0
    good = {name: table.replace_schema_metadata(None) for name, table in tables(tmp_path).items()}
    pipeline.write_text(PIPELINE.format(seconds=0.001))
    assert sidecar_here("run", pipeline, "--workers", 2, "--overwrite").returncode == 0
    broken = tables(tmp_path)
    assert broken["small"]["small_reason"].to_pylist()[0] == "timeout"
    assert broken["measures"]["filter_status"].to_pylist()[0]["status"] == "timeout"
    pipeline.write_text(PIPELINE.format(seconds=60))
    done = sidecar_here("retry", pipeline, "--reason", "timeout,crashed", "--workers", 2, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"]
    assert report["before"]["small"]["timeout"] >= 2
    assert report["after"]["small"].get("timeout") is None
    made = {name: table.replace_schema_metadata(None) for name, table in tables(tmp_path).items()}
    assert made == good
    again = sidecar_here("retry", pipeline, "--reason", "timeout", "--json")
    assert json.loads(again.stdout)["rows"] == 0
    assert sidecar_here("verify", pipeline, "--all").returncode == 0


def test_what_it_says_and_refuses(sidecar_here, pipeline):
    unknown = sidecar_here("retry", pipeline, "--reason", "timeouts")
    assert unknown.returncode == 2
    assert "did you mean 'timeout'" in unknown.stderr
    assert sidecar_here("retry", pipeline).returncode == 2
    assert sidecar_here("retry", pipeline, "--reason", "timeout").returncode == 2
    assert sidecar_here("run", pipeline, "--workers", 1).returncode == 0
    said = sidecar_here("retry", pipeline, "--reason", "not_an_image")
    assert said.returncode == 0, said.stderr
    assert "rows computed again  1" in said.stdout
    assert [line.split() for line in said.stdout.splitlines() if line.startswith("small")] == [
        ["small", "not_an_image", "1", "1"]
    ]
    pipeline.write_text(PIPELINE.format(seconds=60).replace("area: 256", "area: 288, column: image_256"))
    stale = sidecar_here("retry", pipeline, "--reason", "timeout")
    assert stale.returncode == 3
    assert "--redo-stale" in stale.stderr
