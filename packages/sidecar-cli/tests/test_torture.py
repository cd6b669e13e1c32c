"""`sidecar doctor --torture`: it shows what it says, it can fail, and it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest
from sidecar_cli.torture.drivers import MARK, Drivers, TooSlowError, marked
from sidecar_cli.torture.judge import find_differences, find_wrong_rows
from sidecar_cli.torture.material import Row

SLEEPS = "import time; time.sleep(600)"


@pytest.fixture
def temporary():
    """A folder for temporary files with a path short enough for Ray's sockets, which must be empty at the end."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    yield folder
    assert list(folder.iterdir()) == []
    folder.rmdir()


def test_local_isolation_resume_and_equal_output_hold(sidecar, temporary):
    environment = {"RAY_ADDRESS": "", "TMPDIR": str(temporary)}
    done = sidecar("doctor", "--torture", "--runtime", "local", "--json", env=environment)
    assert done.returncode == 0, done.stdout
    found = {each["what"]: each["fact"] for each in json.loads(done.stdout)["findings"] if "torture" in each["what"]}
    assert found.keys() == {
        "torture: local: isolation",
        "torture: local: resume",
        "torture: local: equal output",
        "torture: clean up",
    }
    assert "no process and no file is left" in found["torture: clean up"]


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["ray", "actor"])
def test_the_same_holds_on_ray(runtime, temporary):
    limit = ("--time-limit-s", "800")  # Ray starts slowly on a busy machine
    done = subprocess.run(
        [sys.executable, "-m", "sidecar_cli.main", "doctor", "--torture", "--runtime", runtime, "--json", *limit],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "RAY_ADDRESS": "", "TMPDIR": str(temporary)},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = {each["what"] for each in json.loads(done.stdout)["findings"] if each["level"] == "ok"}
    assert {f"torture: {runtime}: {each}" for each in ("isolation", "resume", "equal output")} <= found


def test_what_is_not_shown_in_time_has_failed_and_is_cleaned_up(sidecar, temporary):
    arguments = ("--torture", "--runtime", "local", "--time-limit-s", "0.5", "--json")
    done = sidecar("doctor", *arguments, env={"TMPDIR": str(temporary)})
    assert done.returncode == 1
    report = json.loads(done.stdout)
    (failed,) = [each for each in report["findings"] if each["level"] == "fail"]
    assert failed["what"] == "torture: local"
    assert "had not ended when time was up" in failed["fact"]
    assert "--time-limit-s" in failed["fix"]
    assert {each["what"] for each in report["findings"] if each["level"] == "ok"} >= {"torture: clean up"}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_an_interrupt_leaves_no_process_and_no_file(sent, temporary):
    with subprocess.Popen(
        [sys.executable, "-m", "sidecar_cli.main", "doctor", "--torture", "--runtime", "local"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        while "undisturbed" not in process.stderr.readline():
            assert process.poll() is None
        while not list(temporary.glob("sct-*/whole")):
            time.sleep(0.05)
        (folder,) = temporary.glob("sct-*")
        process.send_signal(sent)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert marked(f"RAY_TMPDIR={folder}") == {}


@pytest.mark.parametrize("flag", [["--time-limit-s", "0"], ["--runtime", "cloud"]], ids=" ".join)
def test_bad_numbers_and_names_are_bad_usage(sidecar_here, flag):
    assert sidecar_here("doctor", "--torture", *flag).returncode == 2


@pytest.fixture
def drivers(tmp_path):
    made = Drivers(tmp_path, "token-of-this-test", 60, {})
    yield made
    made.end_left()


def test_processes_are_found_by_their_mark_and_no_others(drivers):
    other = subprocess.Popen([sys.executable, "-c", SLEEPS], env={**os.environ, MARK: "other"})
    ours = subprocess.Popen([sys.executable, "-c", SLEEPS], env={**os.environ, MARK: "token-of-this-test"})
    try:
        deadline = time.monotonic() + 30
        while not drivers.left() and time.monotonic() < deadline:
            time.sleep(0.05)  # between fork and exec it does not have its environment
        assert drivers.left().keys() == {ours.pid}
        assert drivers.left(isolated_only=True) == {}
        assert drivers.end_left() == 1
        assert ours.wait(timeout=30) == -9
        assert other.poll() is None
    finally:
        for process in (other, ours):
            process.kill()
            process.wait()


def test_a_driver_that_does_not_get_so_far_is_given_up(tmp_path):
    drivers = Drivers(tmp_path, "token-of-another-test", 0.2, {})
    with pytest.raises(TooSlowError, match="no shard was there"):
        drivers.run_and_kill(["ops"], when=lambda: False)
    assert drivers.late
    assert drivers.wait_until_gone(30) == {}
    drivers.start_clock()
    assert not drivers.late


ROWS = {
    "a.parquet": [Row("whole picture", b"xy", picture=True), Row("op that aborts", b"!abort", "crashed")],
}


def output(**changes):
    columns = {
        "image_key": ["a.parquet/0", "a.parquet/1"],
        "byte_length": [2, None],
        "byte_length_reason": [None, "crashed"],
        "filter_status": [{"status": "ok"}, {"status": "not_an_image"}],
        "image_512": [b"made", None],
        **changes,
    }
    return {"a.parquet": pa.table(columns)}


def test_a_right_output_has_no_wrong_rows():
    assert find_wrong_rows(output(), ROWS) == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({}, "is missing"),
        ({"a.parquet": output()["a.parquet"].slice(1)}, "has 1 row,"),
        (output(image_key=["a.parquet/1", "a.parquet/0"]), "its key is 'a.parquet/1'"),
        (output(byte_length_reason=[None, "timeout"]), "with reason 'timeout'"),
        (output(byte_length=[None, None], byte_length_reason=["crashed", "crashed"]), "row 0 (whole picture)"),
        (output(filter_status=[{"status": "crashed"}, {"status": "not_an_image"}]), "filters say 'crashed'"),
        (output(image_512=[None, None]), "a resized picture is there: False"),
        (output(image_512=[b"made", b"made"]), "row 1 (op that aborts)"),
    ],
)
def test_a_wrong_output_is_called_wrong(made, said):
    (wrong, *_) = find_wrong_rows(made, ROWS)
    assert said in wrong


def test_differences_are_named():
    assert find_differences(output(), output()) == []
    assert find_differences(output(), {}) == ["different shards: a.parquet"]
    changed = output(image_512=[b"other", None])
    assert find_differences(output(), changed) == ["a.parquet: different values in image_512"]
    assert "different columns or types" in find_differences(output(), output(byte_length=["2", None]))[0]
