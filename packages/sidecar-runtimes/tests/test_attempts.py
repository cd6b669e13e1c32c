from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from sidecar_core.errors import ConflictError, ShardError, StorageError
from sidecar_core.execute import RunCancelledError, ShardResources, run_shard
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.attempts import failed_attempt, try_shard
from sidecar_runtimes.run import RunOptions, prepare_run


@pytest.fixture
def prepared(tmp_path, make_pipeline):
    write_main(tmp_path / "main", {"a.parquet": [b"x", b"yy"]})
    return prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "out"), workers=1))


@pytest.fixture
def resources(prepared):
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        yield ShardResources(
            main=prepared.main,
            outputs=prepared.outputs,
            isolation=pool,
            staging=tuple(output.staging_dir("test") for output in prepared.outputs),
        )


def test_a_later_attempt_replaces_what_this_run_committed(prepared, resources, tmp_path):
    (shard,) = prepared.to_do
    assert try_shard(prepared.plan, shard, resources).report.status == "done"
    again = try_shard(prepared.plan, shard, resources, number=2)
    assert (again.report.status, again.report.attempts) == ("done", 2)
    assert read_dataset(tmp_path / "out")["a.parquet"].num_rows == 2


def test_what_an_attempt_that_was_given_up_commits_meanwhile_is_replaced(prepared, resources, tmp_path):
    (shard,) = prepared.to_do

    def overtaken(plan, shard, resources):
        run_shard(plan, shard, resources)
        return run_shard(plan, shard, resources)

    attempt = try_shard(prepared.plan, shard, resources, number=2, work=overtaken)
    assert (attempt.report.error_type, attempt.may_pass) == ("ConflictError", True)
    assert try_shard(prepared.plan, shard, resources, number=3).report.status == "done"


def test_what_another_run_committed_is_a_conflict(prepared, resources, tmp_path):
    (shard,) = prepared.to_do
    assert try_shard(replace(prepared.plan, run_id="other"), shard, resources).report.status == "done"
    before = (tmp_path / "out/a.parquet").read_bytes()
    for number in (1, 2):
        attempt = try_shard(prepared.plan, shard, resources, number=number)
        assert (attempt.report.error_type, attempt.may_pass) == ("ConflictError", False)
    assert (tmp_path / "out/a.parquet").read_bytes() == before


def test_a_file_that_is_no_shard_is_a_conflict(prepared, resources, tmp_path):
    (shard,) = prepared.to_do
    (tmp_path / "out/a.parquet").write_bytes(b"precious")
    assert try_shard(prepared.plan, shard, resources, number=2).report.error_type == "ConflictError"
    assert (tmp_path / "out/a.parquet").read_bytes() == b"precious"


def test_a_stopped_run_is_no_failure(prepared, resources):
    (shard,) = prepared.to_do
    stop = threading.Event()
    stop.set()
    with pytest.raises(RunCancelledError):
        try_shard(prepared.plan, shard, replace(resources, cancelled=stop))


@pytest.mark.parametrize(
    ("error", "text", "may_pass"),
    [
        (StorageError("s3://b/a: 503", None, "wait"), "s3://b/a: 503\n  fix: wait", True),
        (ShardError("a: torn"), "a: torn", False),
        (KeyError("k"), "KeyError: 'k'", False),
        (ConflictError("s3://b/a: exists already"), "s3://b/a: exists already", False),
        (ConnectionResetError("gone"), "ConnectionResetError: gone", True),
    ],
)
def test_an_error_says_whether_it_may_pass(prepared, error, text, may_pass):
    attempt = failed_attempt(prepared.to_do[0], error, number=3)
    assert (attempt.report.error, attempt.report.attempts, attempt.may_pass) == (text, 3, may_pass)
