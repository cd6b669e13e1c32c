from __future__ import annotations

import json

import pytest
from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.lease import find_lease
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.lease import LeaseOptions, RunLeases
from sidecar_runtimes.retry import RetryOptions, parse_reasons, retry_rows
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

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


def test_reasons_are_those_of_the_closed_list():
    assert parse_reasons(["timeout,crashed", " partial "]) == {"timeout", "crashed", "partial"}
    with pytest.raises(UsageError, match=r"'timeouts'.*did you mean 'timeout'"):
        parse_reasons(["timeouts"])
    with pytest.raises(UsageError, match="no --reason"):
        parse_reasons([" , "])
