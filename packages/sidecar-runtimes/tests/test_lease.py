"""One writer for a prefix, shown with real processes, on a disk and on a server of the S3 protocol."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace

import boto3
import pytest
from moto.server import ThreadedMotoServer
from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.lease import LEASE_PATH, LeaseLostError, LeaseRecord, find_lease, live_lease
from sidecar_core.pipeline import load_pipeline
from sidecar_core.storage import LocalStorage, open_storage
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.lease import LeaseOptions, RunLeases, refuse_held
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.ray_tasks import RayTaskRuntime
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

SHARDS = {f"part-{n}.parquet": [b"x" * k for k in range(20)] for n in range(8)}
BETWEEN_COMMITS_S = 0.25  # a row: a shard is committed every 5 s, so that a pause after the first meets none under way
DRIVER = """
import sys
from sidecar_core.pipeline import load_pipeline
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run
options = RunOptions(output_prefix=sys.argv[2], skip_existing=True, lease_stale_s=float(sys.argv[3]))
execute_run(prepare_run(load_pipeline(sys.argv[1]), options), runtime=LocalRuntime(workers=1, shards_at_once=1))
"""


@pytest.fixture(scope="module")
def s3_endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["disk", "s3"])
def out(request, tmp_path, monkeypatch):
    """An output prefix that nobody wrote to yet."""
    if request.param == "disk":
        return f"{tmp_path}/out/"
    endpoint = request.getfixturevalue("s3_endpoint")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="example-bucket")
    client.close()
    return f"s3://example-bucket/{uuid.uuid4().hex}/"


@pytest.fixture
def slow(tmp_path):
    """The YAML of a pipeline that needs some seconds."""
    write_main(tmp_path / "main", SHARDS)
    (tmp_path / "dataset.yaml").write_text(
        f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/yaml-out/\n"
        "key_column: image_key\nimage_column: image\n"
    )
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "dataset: dataset.yaml\nplugins: [sidecar_core.testing.ops]\n"
        "operations:\n  - {type: measure_bytes, delay_s: 0.02}\n"
    )
    return path


class Writer:
    """A run in a process of its own."""

    def __init__(self, pipeline, out, *, stale_s=60.0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(pipeline), out, str(stale_s)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until(self, holds):
        deadline = time.monotonic() + 60
        while not holds():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def pause(self):
        """Stops the process, and returns when it has stopped: a signal is only on its way when it has been sent."""
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status

    def end(self, number):
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[1]

    def stop(self):
        """Ends it in any state."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def start(slow, out):
    writers = []

    def begin(*, delay_s=None, **options):
        pipeline = slow
        if delay_s:
            pipeline = slow.with_name("slower.yaml")
            pipeline.write_text(re.sub(r"delay_s: [\d.]+", f"delay_s: {delay_s}", slow.read_text()))
        writer = Writer(pipeline, out, **options)
        writers.append(writer)
        output = open_storage(out)
        writer.wait_until(lambda: output.list_shards(missing_ok=True) and live_lease(output))
        return writer

    yield begin
    for writer in writers:
        writer.stop()


def run_here(slow, out, **options):
    wanted = RunOptions(output_prefix=out, workers=1, skip_existing=True, **options)
    return execute_run(prepare_run(load_pipeline(slow), wanted))


def versions(out):
    return {info.rel_path: info for info in open_storage(out).list_shards()}


def test_a_second_writer_is_refused_and_told_who_writes(slow, out, start):
    writer = start()
    holder = live_lease(open_storage(out))
    with pytest.raises(RefusedError) as refused:
        run_here(slow, out)
    assert f"process {writer.process.pid} on {holder.host}" in str(refused.value)
    assert f"run {holder.run_id}" in str(refused.value)
    assert f"since {holder.since}, last heartbeat" in str(refused.value)
    assert "--wait-lease" in str(refused.value)
    assert "--steal-lease" in str(refused.value)
    assert writer.process.wait(timeout=60) == 0
    assert find_lease(open_storage(out)) is None
    assert len(versions(out)) == len(SHARDS)


def test_the_lease_of_a_dead_writer_is_taken_over_at_once(slow, out, start):
    start().end(signal.SIGKILL)
    assert find_lease(open_storage(out)) is not None
    assert run_here(slow, out).ok
    assert find_lease(open_storage(out)) is None
    assert len(versions(out)) == len(SHARDS)


def test_ctrl_c_gives_the_lease_back(out, start):
    assert "KeyboardInterrupt" in start().end(signal.SIGINT)
    assert find_lease(open_storage(out)) is None


def test_a_writer_that_waits_goes_on_where_the_other_ended(slow, out, start):
    writer = start()
    report = run_here(slow, out, wait_lease=60)
    assert writer.process.wait(timeout=60) == 0
    assert report.shards == {"done": 0, "skipped": len(SHARDS), "failed": 0, "not_reached": 0}


def test_a_writer_that_wakes_up_after_a_takeover_commits_nothing(slow, out, start):
    writer = start(delay_s=BETWEEN_COMMITS_S, stale_s=5.0)
    writer.pause()
    assert len(versions(out)) < len(SHARDS)
    assert run_here(slow, out, lease_stale_s=1.5, wait_lease=30).ok
    before = versions(out)
    said = writer.end(signal.SIGCONT)
    assert writer.process.returncode != 0
    assert "LeaseLostError" in said
    assert versions(out) == before


def test_a_writer_that_wakes_up_under_anothers_lease_commits_nothing(slow, out, start):
    writer = start(delay_s=BETWEEN_COMMITS_S)
    writer.pause()
    before = versions(out)
    storage = open_storage(out)
    with RunLeases("another", [storage], LeaseOptions(steal=True)):
        said = writer.end(signal.SIGCONT)
        assert "held by run another" in said
        assert versions(out) == before
        assert live_lease(storage).run_id == "another"


def test_a_writer_that_slept_too_long_commits_nothing_though_nobody_came(out, start):
    writer = start(delay_s=BETWEEN_COMMITS_S, stale_s=5.0)
    writer.pause()
    before = versions(out)
    time.sleep(6.0)
    assert "no heartbeat" in writer.end(signal.SIGCONT)
    assert versions(out) == before
    assert find_lease(open_storage(out)) is None


def test_a_lease_is_renewed_while_it_is_held(tmp_path):
    storage = LocalStorage(f"{tmp_path}/")
    with RunLeases("one", [storage], LeaseOptions(stale_s=6.0)) as leases:
        deadline = time.monotonic() + 60
        while find_lease(storage).record.beats < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        leases.check()


def test_a_lease_that_is_taken_away_is_noticed_by_its_heartbeat(tmp_path):
    storage = LocalStorage(f"{tmp_path}/")
    lost = threading.Event()
    with RunLeases("one", [storage], LeaseOptions(stale_s=1.0), on_lost=lost.set) as leases:
        with RunLeases("two", [storage], LeaseOptions(steal=True)):
            assert lost.wait(60)
            with pytest.raises(LeaseLostError, match="held by run two"):
                leases.check()
        assert find_lease(storage) is None
    assert find_lease(storage) is None


def test_of_several_outputs_all_leases_are_taken_or_none(tmp_path):
    first, second = (LocalStorage(f"{tmp_path}/{name}/") for name in "ab")
    with RunLeases("one", [second], LeaseOptions()):
        with pytest.raises(RefusedError, match="held by run one"), RunLeases("two", [second, first], LeaseOptions()):
            pass
        assert find_lease(first) is None
    with RunLeases("two", [second, first], LeaseOptions()):
        assert live_lease(first).run_id == live_lease(second).run_id == "two"


def test_of_many_that_take_a_stale_lease_one_wins(tmp_path):
    storage = LocalStorage(f"{tmp_path}/")
    dead = LeaseRecord(
        "dead", "elsewhere", 1, "x", "m", "2020-01-01T00:00:00+00:00", "2020-01-01T00:00:00+00:00", 0, 10, 60
    )
    storage.write_bytes(LEASE_PATH, dead.to_bytes())
    began, held, end = threading.Barrier(8), [], threading.Event()

    def contend(number):
        began.wait()
        try:
            with RunLeases(str(number), [storage], LeaseOptions()):
                held.append(number)
                end.wait(30)
        except RefusedError:
            held.append(None)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while len(held) < 8:
        time.sleep(0.01)
    end.set()
    for thread in threads:
        thread.join()
    assert len([number for number in held if number is not None]) == 1


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b"{}", b'{"run_id": 1}', b"\xff"])
def test_a_file_that_is_no_lease_counts_until_it_is_old(tmp_path, content):
    storage = LocalStorage(f"{tmp_path}/")
    storage.write_bytes(LEASE_PATH, content)
    with pytest.raises(RefusedError, match="cannot be read"):
        refuse_held([storage], LeaseOptions())
    os.utime(tmp_path / LEASE_PATH, (1, 1))
    refuse_held([storage], LeaseOptions())
    with RunLeases("one", [storage], LeaseOptions()):
        assert live_lease(storage).run_id == "one"


def test_a_store_that_ignores_conditions_makes_the_lease_advisory(tmp_path, caplog):
    class Forgetful(LocalStorage):
        def honours_conditions(self):
            return False

    storage = Forgetful(f"{tmp_path}/")
    logging.getLogger("sidecar").propagate = True
    with RunLeases("one", [storage], LeaseOptions()):
        assert find_lease(storage).record.advisory
    assert "advisory" in caplog.text


@pytest.mark.parametrize("options", [LeaseOptions(stale_s=0.5), LeaseOptions(wait_s=-1)])
def test_numbers_that_make_no_sense_are_refused(tmp_path, options):
    with pytest.raises(UsageError, match="--"):
        RunLeases("one", [LocalStorage(f"{tmp_path}/")], options)


def test_no_shard_is_committed_for_a_run_without_lease(slow, tmp_path):
    prepared = prepare_run(load_pipeline(slow), RunOptions(output_prefix=f"{tmp_path}/out/"))
    leased = replace(prepared.plan, leased=True)
    reports = LocalRuntime(workers=1).run(leased, prepared.to_do[:1], SilentObserver(), stop=threading.Event())
    (report,) = reports
    assert report.error_type == "LeaseLostError"
    assert report.attempts == 1
    assert read_dataset(tmp_path / "out") == {}


@pytest.mark.parametrize("kind", [RayTaskRuntime, RayActorRuntime])
def test_workers_of_a_cluster_ask_for_the_lease_too(slow, tmp_path, ray_cluster, kind):
    del ray_cluster
    prepared = prepare_run(load_pipeline(slow), RunOptions(output_prefix=f"{tmp_path}/out/", limit=2))
    with RunLeases("another", prepared.outputs, LeaseOptions()):
        leased = replace(prepared.plan, leased=True)
        reports = list(kind(workers=1).run(leased, prepared.to_do, SilentObserver(), stop=threading.Event()))
    assert {report.error_type for report in reports} == {"LeaseLostError"}
    assert all("held by run another" in report.error for report in reports)
    assert read_dataset(tmp_path / "out") == {}


def test_a_worker_that_finds_the_lease_gone_ends_the_run(slow, tmp_path):
    class Robbed(LocalRuntime):
        def run(self, plan, shards, observer, *, stop):
            for report in super().run(plan, shards, observer, stop=stop):
                (tmp_path / "out" / LEASE_PATH).unlink(missing_ok=True)
                yield report

    prepared = prepare_run(load_pipeline(slow), RunOptions(output_prefix=f"{tmp_path}/out/"))
    with pytest.raises(LeaseLostError, match="commits nothing more"):
        execute_run(prepared, runtime=Robbed(workers=1))
    assert len(read_dataset(tmp_path / "out")) < len(SHARDS)
    (manifest,) = (tmp_path / "out/_sidecar/runs").glob("*.json")
    assert json.loads(manifest.read_text())["outcome"] == "lost_lease"
    assert not (tmp_path / "out/_sidecar/SUCCESS").exists()
