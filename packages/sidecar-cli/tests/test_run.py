"""`run`: real runs of a small pipeline, each in a process of its own."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.demo_data import make_demo_dataset


def written(prefix):
    return sorted(
        path.relative_to(prefix).as_posix()
        for path in Path(prefix).rglob("*.parquet")
        if not path.relative_to(prefix).parts[0].startswith("_")
    )


def test_a_run_says_what_it_did_and_progress_stays_off_stdout(sidecar, team):
    done = sidecar("run", team.pipeline, "--output-prefix", team.root / "aus=gabe ü")
    assert done.returncode == 0, done.stderr
    assert written(team.root / "aus=gabe ü") == ["deep/part-0.parquet", "deep/part-1.parquet"]
    assert re.search(r"^shards +2 done, 0 skipped, 0 failed", done.stdout, re.MULTILINE)
    assert re.search(r"^rows +10$", done.stdout, re.MULTILINE)
    assert "Shard progress: completed=2/2 rows=10 " in done.stderr
    assert "Shard progress" not in done.stdout
    assert "Runtime: local: no Ray cluster is named" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_run_goes_on_when_nothing_can_be_written_to_stderr(team):
    command = [sys.executable, "-m", "sidecar_cli.main", "run", str(team.pipeline), "--output-prefix", "out", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=full, text=True, cwd=team.root, timeout=240, check=False
        )
    assert done.returncode == 0
    assert json.loads(done.stdout)["shards"]["done"] == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_changes_nothing(team, closed):
    command = [sys.executable, "-m", "sidecar_cli.main", "run", str(team.pipeline), "--output-prefix", "out"]
    done = subprocess.run(["/bin/sh", "-c", f"{shlex.join(command)} {closed}"], cwd=team.root, timeout=240, check=False)
    assert done.returncode == 0
    assert written(team.root / "out") == ["deep/part-0.parquet", "deep/part-1.parquet"]
    for path in (team.root / "out/deep").iterdir():
        assert pq.read_table(path).num_rows == 5


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such names")
def test_a_pipeline_whose_name_is_not_utf8(sidecar_here, team):
    odd = team.pipeline.rename(team.pipeline.with_name("caf\udce9.yaml"))
    done = sidecar_here("run", odd, "--output-prefix", "out")
    assert done.returncode == 0, done.stderr
    assert (team.root / "out/_sidecar/SUCCESS").is_file()
    (manifest,) = (team.root / "out/_sidecar/runs").iterdir()
    assert str(odd) in json.loads(manifest.read_text(encoding="utf-8"))["command"]
    (team.main / "deep/part-0.parquet").write_bytes(b"no parquet")
    assert sidecar_here("run", odd, "--output-prefix", "out", "--overwrite").returncode == 1
    for arguments in (
        ("status", "out"),
        ("inspect", "out"),
        ("report", "out"),
        ("verify", odd, "--output-prefix", "out"),
    ):
        done = sidecar_here(*arguments, "--json")
        json.loads(done.stdout)
        assert "unexpected" not in done.stderr


def test_json_is_all_that_stdout_gets(sidecar_here, team):
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--json", "--limit", "1")
    report = json.loads(done.stdout)
    assert (report["ok"], report["rows"], report["shards"]["done"]) == (True, 5, 1)
    assert report["outputs"] == {"sidecar": f"{team.root}/out/"}


def test_without_a_prefix_it_writes_beside_and_says_how_to_go_on(sidecar_here, team):
    done = sidecar_here("run", team.pipeline, "--limit", "1")
    assert done.returncode == 0, done.stderr
    (new,) = team.root.glob("sidecar_run_*")
    assert re.fullmatch(r"sidecar_run_\d{8}_\d{6}", new.name)
    assert not (team.root / "sidecar").exists()
    line = next(line for line in done.stderr.splitlines() if "to go on with it later:" in line)
    words = shlex.split(line.partition(": sidecar ")[2])
    words.remove("--limit")
    words.remove("1")
    again = sidecar_here(*words)
    assert again.returncode == 0, again.stderr
    assert re.search(r"^shards +1 done, 1 skipped", again.stdout, re.MULTILINE)
    assert len(written(new)) == 2


def test_what_is_there_is_refused_resumed_or_replaced_as_told(sidecar_here, team):
    flags = ["run", team.pipeline, "--output-prefix", "out", "--json"]
    assert sidecar_here(*flags, "--limit", "1").returncode == 0
    before = (team.root / "out/deep/part-0.parquet").stat().st_mtime_ns
    refused = sidecar_here(*flags)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "--skip-existing" in refused.stderr
    resumed = json.loads(sidecar_here(*flags, "--skip-existing").stdout)
    assert (resumed["shards"]["done"], resumed["shards"]["skipped"]) == (1, 1)
    assert (team.root / "out/deep/part-0.parquet").stat().st_mtime_ns == before
    replaced = json.loads(sidecar_here(*flags, "--overwrite").stdout)
    assert replaced["shards"]["done"] == 2
    assert (team.root / "out/deep/part-0.parquet").stat().st_mtime_ns > before


def test_a_dry_run_counts_states_and_writes_nothing(sidecar_here, team):
    sidecar_here("run", team.pipeline, "--output-prefix", "out", "--limit", "1")
    before = {path: path.stat().st_mtime_ns for path in team.root.rglob("*")}
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["states"] == {"done": 1, "stale": 0, "partial": 0, "missing": 1}
    assert result["runtime"]["name"] == "local"
    assert "no Ray cluster" in result["runtime"]["why"]
    assert result["outputs"]["sidecar"] == {
        "sidecar_prefix (yaml)": f"{team.root}/sidecar/",
        "effective output": f"{team.root}/out/",
    }
    assert "already holds 1" in result["refused"]
    assert result["bytes_to_read"] > 0
    text = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--dry-run", "--skip-existing").stdout
    assert re.search(r"^shards +2: 1 done, 0 stale, 0 partial, 1 missing$", text, re.MULTILINE)
    assert "refused" not in text
    assert {path: path.stat().st_mtime_ns for path in team.root.rglob("*")} == before


@pytest.mark.parametrize("inside", ["", "deep", ".."], ids=["same", "inside", "around"])
def test_the_main_dataset_is_never_an_output(sidecar_here, team, inside):
    done = sidecar_here("run", team.pipeline, "--output-prefix", team.main / inside)
    assert done.returncode == 3
    assert "main" in done.stderr
    assert written(team.main) == ["deep/part-0.parquet", "deep/part-1.parquet"]


def test_a_broken_shard_is_reported_and_the_others_are_made(sidecar_here, team):
    (team.main / "deep/part-0.parquet").write_bytes(b"no parquet")
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [failed["shard"] for failed in report["failed_shards"]] == ["deep/part-0.parquet"]
    assert written(team.root / "out") == ["deep/part-1.parquet"]
    table = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--skip-existing")
    assert table.returncode == 1
    assert "Failed shards" in table.stdout
    assert f"{team.root}/out/_sidecar/failed_shards.jsonl" in table.stdout
    assert "Traceback" not in table.stderr


def test_bad_yaml_ends_with_2_and_every_problem(sidecar_here, team):
    bad = team.pipeline.parent / "bad.yaml"
    bad.write_text("dataset: team\noperations:\n  - type: extract_scafold\n  - {type: drop_columns, columns: 3}\n")
    done = sidecar_here("run", bad)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{bad}:3:" in done.stderr
    assert f"{bad}:4:" in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ["--skip-existing", "--overwrite"],
        ["--limit", "0"],
        ["--workers", "0"],
        ["--max-invalid-fraction", "2"],
        ["--output", "other=out"],
        ["--output", "out"],
        ["--redo-stale"],
        ["--use-ray", "--use-actor"],
        ["--num-actors", "2", "--runtime", "local"],
    ],
    ids=" ".join,
)
def test_flags_that_make_no_sense_end_with_2(sidecar_here, team, flags):
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out", *flags)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert not (team.root / "out").exists()


def test_a_part_of_the_main_dataset(sidecar_here, team):
    (team.main / "b").mkdir()
    pq.write_table(pa.table({"image_key": ["z"], "image": [b"x"], "caption": ["a"]}), team.main / "b/part-9.parquet")
    done = sidecar_here("run", team.pipeline, "--output-prefix", "out", "--input-subprefix", "b/", "--json")
    assert json.loads(done.stdout)["rows"] == 1
    assert written(team.root / "out") == ["b/part-9.parquet"]


@pytest.mark.parametrize(
    "command",
    [
        ("run", "PIPELINE", "--output-prefix", "out"),
        ("build-0-262mp", "--main-prefix", "MAIN", "--output-prefix", "out"),
        ("build-resized", "--main-prefix", "MAIN", "--target", "512=out"),
        ("retry", "PIPELINE", "--output-prefix", "out", "--reason", "timeout"),
        ("verify", "PIPELINE", "--output-prefix", "out"),
        ("verify-resized", "--main-prefix", "MAIN", "--target", "512=out"),
        ("inspect", "MAIN"),
        ("inspect", "MAIN", "--sql", "select 1"),
    ],
    ids=" ".join,
)
def test_a_part_of_the_main_dataset_given_as_a_whole_path(sidecar_here, team, command):
    places = {"PIPELINE": team.pipeline, "MAIN": team.main}
    given = team.main / "deep"
    refused = sidecar_here(*(places.get(word, word) for word in command), "--input-subprefix", given)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr == (
        f"{str(given)!r}: no path below {team.main}/ begins with this\n"
        "  expected: the beginning of a path below it, such as 'flickr/'\n"
        "  fix: --input-subprefix deep/\n"
    )
    assert not (team.root / "out").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_an_interrupted_run_leaves_whole_shards_and_says_how_to_go_on(tmp_path, sidecar_here, sent):
    make_demo_dataset(str(tmp_path / "main"))
    command = ["build-1-05mp", "--main-prefix", "main", "--output-prefix", "out 1", "--workers", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "sidecar_cli.main", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not list((tmp_path / "out 1").rglob("part-*")):  # a shard is being written
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    shards = written(tmp_path / "out 1")
    assert all(pq.read_metadata(tmp_path / "out 1" / shard).num_rows == 32 for shard in shards)
    line = next(line for line in err.splitlines() if line.startswith("  sidecar "))
    assert shlex.split(line)[1:] == [*command, "--skip-existing"]
    resumed = sidecar_here(*shlex.split(line)[1:], "--json", "--workers", "2")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["shards"]["skipped"] == len(shards)
    assert len(written(tmp_path / "out 1")) == 3


def test_a_value_that_is_set_stands_in_place_of_the_files(sidecar_here, team):
    elsewhere = team.root / "elsewhere"
    team.main.rename(elsewhere)
    given = ("--set", f"dataset.main_prefix={elsewhere}", "--output-prefix", "out")
    assert sidecar_here("run", team.pipeline, *given).returncode == 0
    assert sidecar_here("verify", team.pipeline, *given, "--all").returncode == 0
    wrong = sidecar_here("run", team.pipeline, "--set", "dataset.main_prefx=x")
    assert wrong.returncode == 2
    assert (
        "--set dataset.main_prefx=x: main_prefx: unknown key 'main_prefx'; did you mean 'main_prefix'?" in wrong.stderr
    )
