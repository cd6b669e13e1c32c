from __future__ import annotations

import pytest
from sidecar_core.errors import ShardError, UsageError
from sidecar_core.testing.datasets import write_main
from sidecar_runtimes.smoke import run_smoke

DELAY_S = 0.005


@pytest.fixture
def slow(make_pipeline):
    return make_pipeline([{"type": "measure_bytes", "delay_s": DELAY_S}])


def test_a_smoke_run_measures_and_leaves_nothing(tmp_path, slow):
    write_main(tmp_path / "main", {f"{n}.parquet": [b"x"] * 300 + [None] for n in range(4)})
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    report = run_smoke(slow, shards=3, workers=2)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (report.shards, report.rows, report.invalid_rows) == (3, 903, 3)
    assert report.rows_per_shard == 301
    assert 0 < report.rows_per_s_per_core <= 1 / DELAY_S
    assert report.rows_per_s == pytest.approx(2 * report.rows_per_s_per_core)
    assert report.main_peak_bytes > 20 * 2**20
    assert report.worker_peak_bytes > 5 * 2**20
    assert report.memory_bytes(3) == report.main_peak_bytes + 3 * report.worker_peak_bytes


def test_one_small_shard_is_measured_too(tmp_path, slow):
    write_main(tmp_path / "main", {"a.parquet": [b"x"] * 5})
    report = run_smoke(slow, shards=3, workers=1)
    assert (report.shards, report.rows) == (1, 5)
    assert report.rows_per_s > 0


def test_a_shard_that_fails_says_why(tmp_path, slow):
    write_main(tmp_path / "main", {"a.parquet": [b"x"] * 5})
    (tmp_path / "main/b.parquet").write_bytes(b"no parquet")
    with pytest.raises(ShardError, match=r"b\.parquet: .*not a readable Parquet file"):
        run_smoke(slow, shards=2, workers=1)
    for path in (tmp_path / "main").iterdir():
        path.unlink()
    with pytest.raises(UsageError, match="no shards"):
        run_smoke(slow, shards=2, workers=1)
