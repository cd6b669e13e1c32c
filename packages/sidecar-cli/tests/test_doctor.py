"""`sidecar doctor`: facts about this machine, what it calls wrong, and that it harms nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.doctor import machine
from sidecar_cli.doctor.finding import Level, guarded, ok
from sidecar_cli.doctor.prefix_access import prefix_findings
from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import StorageError

NOWHERE = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
}


def levels(findings):
    return {each.what.split(" ")[0]: each.level.value for each in findings}


@pytest.fixture
def main(tmp_path):
    folder = tmp_path / "pets"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "image": [b"x", b"y"]}), folder / "a.parquet")
    return folder


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_machine_that_runs_the_tests_has_nothing_that_fails(sidecar, main, tmp_path):
    before = everything_below(tmp_path)
    done = sidecar("doctor", "pets", "--json", env={"RAY_ADDRESS": ""})
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert (report["ok"], report["counts"]["fail"]) == (True, 0)
    facts = {each["what"]: each["fact"] for each in report["findings"]}
    assert {"python", "sidecar", "pyarrow", "pillow", "opencv", "cores", "memory", "temporary folder"} <= facts.keys()
    for name in ("JPEG", "PNG", "WEBP"):
        assert name in facts["decoders"]
    assert facts[f"read {main}/"] == "a.parquet: 2 rows; columns id, image"
    assert everything_below(tmp_path) == before


def test_lines_for_people_end_with_a_count(sidecar):
    done = sidecar("doctor", env={"RAY_ADDRESS": ""})
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[1].split()[:2] == ["ok", "python"]
    assert lines[-1].endswith(" 0 fail")


def test_a_cluster_that_does_not_answer_fails_with_what_to_check(sidecar):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        done = sidecar("doctor", "--ray-address", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "no Ray cluster answers" in done.stdout
    assert "--ray-address" in done.stdout.partition("What to do:")[2]
    assert "Traceback" not in done.stdout + done.stderr


def test_a_store_that_is_not_there_and_credentials_that_are_missing_fail(sidecar):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = sidecar("doctor", "s3://b/x/", "--endpoint-url", endpoint, "--region", "r-1", "--json", env=NOWHERE)
    assert done.returncode == 1
    wrong = {each["what"]: each for each in json.loads(done.stdout)["findings"] if each["level"] == "fail"}
    assert wrong.keys() == {"aws credentials", "list s3://b/x/"}
    assert endpoint in wrong["aws credentials"]["fact"]
    assert all(each["fix"] for each in wrong.values())


def test_secrets_are_never_shown(sidecar):
    secret = {"AWS_ACCESS_KEY_ID": "AKIAVISIBLE", "AWS_SECRET_ACCESS_KEY": "hushhush", "AWS_SESSION_TOKEN": "quiet"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = sidecar("doctor", "s3://b/x/", "--endpoint-url", endpoint, env={**NOWHERE, **secret})
    assert "found by way of 'env'" in done.stdout
    assert not any(value in done.stdout + done.stderr for value in secret.values())


@pytest.mark.parametrize("wrong", ["ftp://x/y", ""])
def test_a_prefix_that_is_none_is_bad_usage(sidecar_here, wrong):
    assert sidecar_here("doctor", wrong).returncode == 2


def test_a_write_test_never_touches_a_main_dataset(main, tmp_path):
    before = everything_below(tmp_path)
    found = list(prefix_findings(str(main), StorageOptions(), may_write=True))
    assert found[-1].what == f"write {tmp_path}/pets_sidecar/"
    assert found[-1].level is Level.OK
    assert everything_below(tmp_path) == before


def test_a_write_test_of_an_output_is_made_there_and_leaves_it_as_it_was(tmp_path):
    (tmp_path / "out/_sidecar/runs").mkdir(parents=True)
    (tmp_path / "out/_sidecar/runs/x.json").write_text("{}")
    before = everything_below(tmp_path)
    found = list(prefix_findings(str(tmp_path / "out"), StorageOptions(), may_write=True))
    assert found[-1].what == f"write {tmp_path}/out/"
    assert everything_below(tmp_path) == before


def test_a_dataset_whose_name_ends_like_that_of_an_output_is_a_main_dataset_all_the_same(main, tmp_path):
    main.rename(tmp_path / "x_sidecar")
    found = list(prefix_findings(str(tmp_path / "x_sidecar"), StorageOptions(), may_write=True))
    assert found[-1].what == f"write {tmp_path}/x_sidecar_sidecar/"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_fails(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert levels(machine.folder_findings("x", tmp_path / "closed/new", "y")) == {"x": "fail"}


def test_a_prefix_without_anything_is_only_remarked_on(tmp_path):
    found = list(prefix_findings(str(tmp_path / "new"), StorageOptions(), may_write=False))
    assert (found[0].level, found[0].fact) == (Level.WARN, "nothing is there")


def test_a_shard_that_cannot_be_read_is_remarked_on(main):
    (main / "a.parquet").write_bytes(b"no")
    found = list(prefix_findings(str(main), StorageOptions(), may_write=False))
    assert levels(found)["read"] == "warn"


def test_this_process_loads_no_decoder():
    code = (
        "import sys\nfrom sidecar_cli.doctor.decoders import decoder_findings\n"
        "print(*[each.level for each in decoder_findings()], [name for name in ('PIL', 'cv2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "ok []\n"


def test_an_error_of_one_look_hides_no_other():
    def broken():
        yield ok("first", "fine")
        raise StorageError("the store is gone", None, "look for it")

    found = list(guarded("store", broken))
    assert [(each.level.value, each.what, each.fix) for each in found] == [
        ("ok", "first", ""),
        ("fail", "store", "look for it"),
    ]
    with pytest.raises(StorageError):
        list(guarded("store", broken, debug=True))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runtime", "local"], "--runtime is for --torture"),
        (["--time-limit-s", "240"], "--time-limit-s is for --torture"),
        (["--write-test"], "--write-test is for a PREFIX"),
        (["--endpoint-url", "http://127.0.0.1:1"], "--endpoint-url is for a PREFIX"),
    ],
)
def test_an_option_that_nothing_would_heed_is_bad_usage(sidecar_here, arguments, said):
    done = sidecar_here("doctor", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{said}\n")
