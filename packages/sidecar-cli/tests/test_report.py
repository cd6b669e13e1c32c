"""`report`: the program, on outputs that real runs made."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest


@pytest.fixture
def output(sidecar_here, team):
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out")
    assert done.returncode == 0, done.stderr
    return team.root / "out"


def test_of_an_output(sidecar, sidecar_here, team, output):
    assert sidecar_here("verify", output, "--all").returncode == 0
    before = {path: path.stat().st_mtime_ns for path in team.root.rglob("*.parquet")}
    done = sidecar("report", output)
    assert done.returncode == 0, done.stderr
    page = output / "_sidecar/report.html"
    assert done.stdout.splitlines()[-1] == str(page)
    assert "Verified by" in page.read_text()
    assert {path: path.stat().st_mtime_ns for path in team.root.rglob("*.parquet")} == before
    again = json.loads(sidecar_here("report", output, "--json").stdout)
    assert (again["path"], again["bytes"]) == (str(page), page.stat().st_size)
    assert (again["rows"], again["verified"], again["columns"]["score"]["null"]) == (10, "passed", 10)
    assert [each["words"] for each in again["findings"] if each["level"] == "warn"] == [
        "Null in every row that was read: score."
    ]
    assert sidecar_here("verify", output, "--all").returncode == 0  # the page is no shard


def test_one_shard_is_no_shards(sidecar_here, output):
    assert "of 1 shard\n" in sidecar_here("report", output, "--sample-shards", "1").stdout


def test_where_it_goes(sidecar_here, team, output):
    elsewhere = sidecar_here("report", output, "-o", "pages/r.html")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert (team.root / "pages/r.html").exists()
    assert sidecar_here("report", output, "-o", team.main / "r.html").returncode == 3
    assert sidecar_here("report", output, "-o", "r.parquet").returncode == 2
    of_main = sidecar_here("report", team.main)
    assert of_main.returncode == 0, of_main.stderr
    assert (team.root / "sidecar-report-main ü=1.html").exists()
    assert sorted(path.name for path in team.main.rglob("*")) == ["deep", "part-0.parquet", "part-1.parquet"]
    assert sidecar_here("report", team.main, "-o", team.main / "r.html").returncode == 3


def test_a_damaged_shard_ends_with_1_and_the_page_is_there(sidecar_here, output):
    (output / "deep/part-0.parquet").write_bytes(b"no parquet")
    done = sidecar_here("report", output, "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert [each["shard"] for each in result["unreadable"]] == ["deep/part-0.parquet"]
    assert "not a readable Parquet file" in (output / "_sidecar/report.html").read_text()


def test_nothing_there_and_wrong_numbers_are_wrong_usage(sidecar_here, output):
    missing = sidecar_here("report", "nowhere")
    assert missing.returncode == 2
    assert "nothing is at" in missing.stderr
    assert sidecar_here("report", output, "--sample-shards", "0").returncode == 2
    assert sidecar_here("report", output, "--picture-gib", "-1").returncode == 2


def test_open(sidecar, output, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    done = sidecar("report", output, "--open", env={"BROWSER": f"{browser} %s"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opened").read_text() == (output / "_sidecar/report.html").as_uri()


def test_runs_without_any_shard_have_a_report_too(sidecar_here, output):
    for shard in (output / "deep").iterdir():
        shard.unlink()
    done = sidecar_here("report", output)
    assert done.returncode == 0, done.stderr
    assert "There are no shards." in done.stdout


def test_columns_of_shards_that_disagree(sidecar_here, output):
    shard = output / "deep/part-1.parquet"
    table = pq.read_table(shard)
    pq.write_table(table.drop_columns(["score"]), shard)
    result = json.loads(sidecar_here("report", output, "--json").stdout)
    assert result["columns"]["score"]["rows"] == 5
