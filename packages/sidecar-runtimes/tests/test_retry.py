from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from sidecar_core.errors import RefusedError, StorageError, UsageError
from sidecar_core.footer import read_footer
from sidecar_core.lease import find_lease
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.storage import open_storage
from sidecar_core.storage.local import LocalStorage
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.lease import LeaseOptions, RunLeases
from sidecar_runtimes.retry import RetryOptions, parse_reasons, retry_rows
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

KILLED = """
import json, os, signal, sys
from sidecar_core.pipeline import Pipeline
from sidecar_core.storage.local import LocalStorage
from sidecar_runtimes.retry import RetryOptions, retry_rows
commit_file, numbers = LocalStorage.commit_file, iter(range(1, 1000))
def commit(self, *args, **options):
    if next(numbers) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return commit_file(self, *args, **options)
LocalStorage.commit_file = commit
with open(sys.argv[1]) as file:
    pipeline = Pipeline.from_json(json.load(file))
retry_rows(pipeline, RetryOptions(reasons=frozenset(["timeout"]), workers=1))
"""
SHARDS = {f"part-{n}.parquet": [b"x"] * 12 for n in range(4)}


@pytest.fixture
def pipeline(tmp_path, make_pipeline):
    """A pipeline with two outputs whose rows fail as `failing.json` says."""
    write_main(tmp_path / "main", SHARDS)
    fail(tmp_path, {})
    plain = make_pipeline()
    return build_pipeline(
        plain.dataset,
        [{"type": "fail_listed", "folder": str(tmp_path)}],
        outputs=[
            OutputSpec("images", f"{tmp_path}/images/", {"image": "picture", "why": "picture_reason"}),
            OutputSpec("scores", f"{tmp_path}/scores/", {"score": "score", "why": "score_reason"}),
        ],
        plugins=("sidecar_core.testing.failing_ops",),
    )


def fail(folder, rows, generation=1):
    (folder / "failing.json").write_text(json.dumps(rows))
    (folder / "generation").write_text(str(generation))
    (folder / "calls.jsonl").write_text("")


def run(pipeline, **options):
    return execute_run(prepare_run(pipeline, RunOptions(workers=1, **options)))


def retry(pipeline, *reasons, **options):
    return retry_rows(pipeline, RetryOptions(reasons=frozenset(reasons), workers=2, **options))


def test_rows_are_retried_where_they_failed(tmp_path, pipeline):
    both = {"score": "timeout", "picture": "timeout"}
    fail(tmp_path, {"part-1.parquet#3": both, "part-1.parquet#7": {"score": "crashed"}, "part-3.parquet#0": both})
    run(pipeline)
    before = read_dataset(tmp_path / "scores")
    fail(tmp_path, {"part-3.parquet#0": {"score": "timeout"}}, generation=2)
    report = retry(pipeline, "timeout")
    assert report.ok
    assert (report.run.shards["done"], report.without, report.not_there, report.run.rows) == (2, 2, 0, 2)
    assert report.before == {"images": {"timeout": 2}, "scores": {"timeout": 2}}
    assert report.run.invalid == {"images": {}, "scores": {"timeout": 1}}
    after = read_dataset(tmp_path / "scores")
    assert after["part-0.parquet"] == before["part-0.parquet"]
    assert after["part-1.parquet"]["score"].to_pylist() == [{3: 2, 7: None}.get(row, 1) for row in range(12)]
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert sorted(calls) == [["part-1.parquet", 3, 1], ["part-3.parquet", 0, 1]]
    assert prepare_run(pipeline, RunOptions()).states == {"done": 4, "stale": 0, "partial": 0, "missing": 0}


def test_a_retry_is_recorded_and_leaves_the_run_folder_as_a_run_does(tmp_path, pipeline):
    fail(tmp_path, {"part-1.parquet#3": {"score": "timeout"}})
    run(pipeline)
    fail(tmp_path, {})
    report = retry(pipeline, "timeout", "crashed")
    manifest = json.loads((tmp_path / f"scores/_sidecar/runs/{report.run.run_id}.json").read_text())
    assert (manifest["kind"], manifest["retried_reasons"]) == ("retry", ["crashed", "timeout"])
    assert (manifest["outcome"], manifest["rows"]) == ("done", 1)
    for name in ("images", "scores"):
        assert find_lease(open_storage(f"{tmp_path}/{name}/")) is None
        assert (tmp_path / name / "_sidecar/SUCCESS").exists()
        assert not list((tmp_path / name / "_sidecar").glob("tmp/*"))


def test_shards_that_are_not_there_are_counted(tmp_path, pipeline):
    fail(tmp_path, {"part-1.parquet#3": {"score": "timeout"}})
    run(pipeline)
    (tmp_path / "images/part-0.parquet").unlink()
    fail(tmp_path, {})
    report = retry(pipeline, "timeout")
    assert (report.run.shards["done"], report.not_there) == (1, 1)
    assert not (tmp_path / "images/_sidecar/SUCCESS").exists()


def test_stale_shards_are_refused(tmp_path, pipeline):
    run(pipeline)
    write_main(tmp_path / "main", {"part-2.parquet": [b"other"] * 12})
    with pytest.raises(RefusedError, match=r"stale: 1 of 4 shards; part-2\.parquet(.|\n)*--redo-stale"):
        retry(pipeline, "timeout")


def test_an_output_that_is_being_written_is_refused(tmp_path, pipeline):
    run(pipeline)
    with (
        RunLeases("other", [open_storage(f"{tmp_path}/scores/")], LeaseOptions()),
        pytest.raises(RefusedError, match="held by run other"),
    ):
        retry(pipeline, "timeout")
    assert find_lease(open_storage(f"{tmp_path}/images/")) is None


def test_a_failing_shard_is_reported_and_the_others_are_retried(tmp_path, pipeline):
    fail(tmp_path, {f"part-{n}.parquet#1": {"score": "timeout"} for n in range(4)})
    run(pipeline)
    path = tmp_path / "main/part-2.parquet"
    data = bytearray(path.read_bytes())
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little") - 4
    data[4 : 4 + pages] = b"\xff" * pages
    path.write_bytes(data)
    fail(tmp_path, {}, generation=2)
    report = retry(pipeline, "timeout")
    assert not report.ok
    assert [failed.rel_path for failed in report.run.failed] == ["part-2.parquet"]
    assert report.run.shards["done"] == 3
    assert read_dataset(tmp_path / "scores")["part-2.parquet"]["score"].to_pylist()[1] is None


def test_nothing_there_and_nothing_with_reasons(tmp_path, pipeline):
    with pytest.raises(UsageError, match="no shard is there"):
        retry(pipeline, "timeout")
    without = build_pipeline(
        pipeline.dataset,
        [{"type": "fail_listed", "folder": str(tmp_path)}],
        outputs=[OutputSpec("images", f"{tmp_path}/only/", {"image": "picture"})],
        plugins=("sidecar_core.testing.failing_ops",),
    )
    run(without)
    with pytest.raises(UsageError, match="no output of this pipeline has a column with reasons"):
        retry(without, "timeout")


@pytest.fixture
def commits(monkeypatch):
    """Returns a function that has something done instead of one commit of a shard, the one with that number."""
    commit_file = LocalStorage.commit_file

    def instead(number, act):
        numbers = iter(range(1, 1000))

        def commit(self, local, rel_path, **options):
            if next(numbers) == number:
                act()
            return commit_file(self, local, rel_path, **options)

        monkeypatch.setattr(LocalStorage, "commit_file", commit)

    return instead


def with_two_rows_failed(tmp_path, pipeline):
    """Runs the pipeline with its reasons in an output of their own, which counts nothing; returns that pipeline."""
    columns = [{"why": "score_reason"}, {"score": "score"}, {"score": "score", "image": "picture"}]
    apart = build_pipeline(
        pipeline.dataset,
        [{"type": "fail_listed", "folder": str(tmp_path)}],
        outputs=[OutputSpec(f"out{n}", f"{tmp_path}/out{n}/", each) for n, each in enumerate(columns)],
        plugins=("sidecar_core.testing.failing_ops",),
    )
    fail(tmp_path, {"part-1.parquet#3": {"score": "timeout"}, "part-1.parquet#7": {"score": "timeout"}})
    run(apart)
    return apart


def assert_mended(tmp_path):
    tables = [read_dataset(tmp_path / f"out{n}")["part-1.parquet"] for n in range(3)]
    assert tables[0]["why"].to_pylist() == [None] * 12
    assert tables[1]["score"].to_pylist() == tables[2]["score"].to_pylist()
    assert [row for row, value in enumerate(tables[1]["score"].to_pylist()) if value != 1] == [3, 7]
    for n in range(1, 3):
        footer = read_footer(open_storage(f"{tmp_path}/out{n}/"), "part-1.parquet")
        assert not any(footer.invalid.values())


def refuse():
    raise StorageError("503 Slow Down")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_commit_that_fails_once_is_made_up_for(tmp_path, pipeline, commits, number):
    pipeline = with_two_rows_failed(tmp_path, pipeline)
    fail(tmp_path, {}, generation=2)
    commits(number, refuse)
    report = retry(pipeline, "timeout", retries=1)
    assert (report.ok, report.run.rows) == (True, 2)
    assert_mended(tmp_path)
    assert (tmp_path / "out0/_sidecar/SUCCESS").exists()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_retry_whose_commit_fails_says_so_and_the_next_makes_up_for_it(tmp_path, pipeline, commits, number):
    pipeline = with_two_rows_failed(tmp_path, pipeline)
    fail(tmp_path, {}, generation=2)
    commits(number, refuse)
    assert not retry(pipeline, "timeout", retries=0).ok
    assert retry(pipeline, "timeout").run.rows == 2
    assert_mended(tmp_path)
    assert retry(pipeline, "timeout").run.shards["done"] == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_retry_that_is_killed_between_its_commits_is_ended_by_the_next(tmp_path, pipeline, number):
    pipeline = with_two_rows_failed(tmp_path, pipeline)
    fail(tmp_path, {"part-1.parquet#7": {"score": "crashed"}}, generation=3)
    (tmp_path / "pipeline.json").write_text(json.dumps(pipeline.to_json()))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pipeline.json"), str(number)]
    killed = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    assert killed.returncode == -signal.SIGKILL
    fail(tmp_path, {}, generation=2)
    report = retry(pipeline, "timeout")
    assert (report.ok, report.run.rows) == (True, 2)
    assert_mended(tmp_path)
    assert retry(pipeline, "timeout").run.shards["done"] == 0


def test_reasons_are_those_of_the_closed_list():
    assert parse_reasons(["timeout,crashed", " partial "]) == {"timeout", "crashed", "partial"}
    with pytest.raises(UsageError, match=r"'timeouts'.*did you mean 'timeout'"):
        parse_reasons(["timeouts"])
    with pytest.raises(UsageError, match="no --reason"):
        parse_reasons([" , "])
