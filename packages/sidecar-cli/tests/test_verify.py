"""`verify`: on a real output, whole and then damaged."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def output(sidecar_here, team):
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out")
    assert done.returncode == 0, done.stderr
    return team.root / "out"


def test_of_a_pipeline(sidecar, sidecar_here, team, output):
    done = sidecar("verify", team.pipeline, "--output-prefix", output)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "All 2 sampled shards aligned"
    assert "score" in done.stdout
    everything = sidecar_here("verify", team.pipeline, "--output-prefix", output, "--all", "--json")
    report = json.loads(everything.stdout)["outputs"]["sidecar"]
    assert (report["ok"], report["checked_shards"], report["rows"]) == (True, 2, 10)


def test_of_a_prefix_whose_run_tells_its_main_dataset(sidecar_here, output):
    done = sidecar_here("verify", output, "--all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "All 2 shards aligned"


def test_of_a_prefix_without_a_run(sidecar_here, team, output):
    for run in (output / "_sidecar/runs").iterdir():
        run.unlink()
    unknown = sidecar_here("verify", output)
    assert unknown.returncode == 2
    assert "--main-prefix" in unknown.stderr
    assert sidecar_here("verify", output, "--main-prefix", team.main).returncode == 0


def test_a_sample_of_one(sidecar_here, output):
    done = sidecar_here("verify", output, "--sample", "1", "--seed", "3", "--json")
    assert json.loads(done.stdout)["outputs"]["output"]["checked_shards"] == 1
    assert sidecar_here("verify", output, "--sample", "0").returncode == 2


def test_rows_out_of_line_end_with_1_and_say_where(sidecar_here, team, output):
    path = output / "deep/part-1.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take([1, 0, 2, 3, 4]), path)
    done = sidecar_here("verify", team.pipeline, "--output-prefix", output)
    assert done.returncode == 1
    assert "deep/part-1.parquet" in done.stdout
    assert "misaligned" in done.stdout
    assert "aligned\n" not in done.stdout.splitlines()[-1]


def test_a_missing_and_a_surplus_shard_end_with_1(sidecar_here, output):
    (output / "deep/part-1.parquet").rename(output / "deep/part-7.parquet")
    report = json.loads(sidecar_here("verify", output, "--json").stdout)["outputs"]["output"]
    assert [(problem["kind"], problem["rel_path"]) for problem in report["problems"]] == [
        ("missing", "deep/part-1.parquet"),
        ("surplus", "deep/part-7.parquet"),
    ]


def test_another_schema_than_the_plan_ends_with_1(sidecar_here, team, output):
    for number in range(2):
        path = output / f"deep/part-{number}.parquet"
        table = pq.read_table(path)
        pq.write_table(table.set_column(2, "score", pa.array([1.0] * 5, pa.float64())), path)
    done = sidecar_here("verify", team.pipeline, "--output-prefix", output)
    assert done.returncode == 1
    assert "'score' is double" in done.stdout


def test_an_output_that_is_not_there(sidecar_here, team):
    done = sidecar_here("verify", team.pipeline, "--output-prefix", "nowhere")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_prefix_where_nothing_is(sidecar_here):
    done = sidecar_here("verify", "no_such_folder")
    assert done.returncode == 2
    assert done.stderr.startswith("nothing is at ")
    assert "fix: check the prefix" in done.stderr


def test_flags_of_the_other_kind_are_wrong_usage(sidecar_here, team, output):
    assert sidecar_here("verify", output, "--output-prefix", "x").returncode == 2
    for flag, value in (("--main-prefix", "/nonexistent"), ("--key-column", "image_key")):
        done = sidecar_here("verify", team.pipeline, "--output-prefix", output, flag, value)
        assert done.returncode == 2, done.stdout
        assert "--main-prefix and --key-column are for a prefix" in done.stderr
        assert "fix: --set dataset.main_prefix=PREFIX" in done.stderr


def test_what_was_found_is_said_where_no_receipt_can_be_left(sidecar_here, team, output):
    (output / "_sidecar/verify.json").mkdir()
    done = sidecar_here("verify", team.pipeline, "--output-prefix", output, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True
    assert done.stderr.startswith("warning: no receipt is left: ")
    assert "_sidecar/verify.json" in done.stderr
    (output / "deep/part-1.parquet").unlink()
    done = sidecar_here("verify", output)
    assert done.returncode == 1
    assert "missing" in done.stdout


def test_where_a_run_without_a_prefix_has_written_is_hinted_at(sidecar_here, team):
    assert sidecar_here("run", team.pipeline).returncode == 0
    (made,) = team.root.glob("sidecar_run_*")
    looked = sidecar_here("verify", team.pipeline)
    assert looked.returncode == 1
    assert f"--output-prefix {made}/" in looked.stderr
    found = sidecar_here("verify", team.pipeline, "--output-prefix", f"{made}/")
    assert (found.returncode, found.stderr) == (0, "")
