"""`sidecar init`: what it sees, what it asks, and that what it writes and proposes works."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.dataset_yaml import dataset_yaml, yaml_scalar
from sidecar_cli.init.write import STANDARD_FILTERS
from sidecar_core.dataset import load_dataset
from sidecar_core.pipeline import load_pipeline
from sidecar_core.yaml_document import read_yaml
from sidecar_filters.registry import filter_names

HF_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
JPEG = b"\xff\xd8\xff\xe0" + bytes(40)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def main(tmp_path):
    folder = tmp_path / "data/pets"
    for shard in range(3):
        write(
            folder / f"deep/part-{shard}.parquet",
            row=list(range(5)),  # begins anew in each shard
            caption=[f"text {shard} {row}" for row in range(5)],
            image=[None, JPEG, JPEG, PNG, b"<html>"],
            md5=[f"{shard}-{row}" for row in range(5)],
            mask=[b"\x00" * 9] * 5,
        )
    return folder


def test_key_and_image_are_found_by_type_content_and_name(sidecar_here, main, tmp_path):
    done = sidecar_here("init", "pets", "--main-prefix", "data/pets", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["key_column"], report["image_column"], report["shards"]) == ("md5", "image", 3)
    dataset = load_dataset(tmp_path / "configs/datasets/pets.yaml")
    assert (dataset.name, dataset.main_prefix) == ("pets", f"{main}/")
    assert (dataset.key_column, dataset.image_column) == ("md5", "image")
    assert dataset.sidecar_prefix == f"{tmp_path}/data/pets_sidecar/"
    assert "main_prefix: ../../data/pets/\n" in (tmp_path / "configs/datasets/pets.yaml").read_text()
    pipeline = load_pipeline(tmp_path / "configs/pipelines/pets.yaml")
    assert [op.type_name for op in pipeline.operations] == ["compute_filters"]
    assert sorted(path.name for path in (tmp_path / "configs").rglob("*")) == [
        "datasets", "pets.yaml", "pets.yaml", "pipelines"
    ]  # fmt: skip


def test_a_key_that_begins_anew_in_each_shard_is_none(sidecar_here, main):
    done = sidecar_here("init", "pets", "--main-prefix", main, "--key-column", "row")
    assert done.returncode == 0
    assert "warning: key column 'row': only 5 of 10 values are different in the first and the last" in done.stderr


def test_the_layout_of_hugging_face_datasets(sidecar_here, tmp_path):
    pictures = [{"bytes": JPEG, "path": f"{row}.jpg"} for row in range(4)]
    for split in ("train-00000-of-00002", "train-00001-of-00002"):
        ids = [f"{split}/{row}" for row in range(4)]
        write(tmp_path / f"hf/data/{split}.parquet", image=pictures, label=[1] * 4, image_id=ids)
    write(tmp_path / "hf/.cache/huggingface/x.parquet", other=[1])
    done = sidecar_here("init", "hf", "--main-prefix", "hf")
    assert done.returncode == 0, done.stderr
    assert "image_id (string, unique" in done.stdout
    assert "image (struct {bytes, path} with JPEG)" in done.stdout
    assert load_dataset(tmp_path / "configs/datasets/hf.yaml").image_column == "image"


@pytest.mark.parametrize("rows", [2, 200])
def test_pictures_that_are_elsewhere_are_said_to_be(sidecar_here, tmp_path, rows):
    pictures = [None, *({"bytes": None, "path": f"{row}.jpg"} for row in range(1, rows))]
    write(tmp_path / "hf/a.parquet", id=list(range(rows)), image=pa.array(pictures, HF_IMAGE))
    done = sidecar_here("init", "hf", "--main-prefix", "hf")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'image' (only paths among its first " in done.stderr
    assert "the pictures are elsewhere" in done.stderr
    assert "fix: download the pictures themselves, and make a dataset of them: sidecar pack FOLDER " in done.stderr
    assert "--image-column" not in done.stderr
    done = sidecar_here("init", "hf", "--main-prefix", "hf", "--image-column", "image")
    assert done.returncode == 0
    assert "warning: image column 'image': only paths among its first" in done.stderr


def test_a_column_of_paths_does_not_hide_one_that_may_hold_pictures(sidecar_here, tmp_path):
    paths = pa.array([{"bytes": None, "path": "a.jpg"}], HF_IMAGE)
    write(tmp_path / "hf/a.parquet", id=[1], image=paths, other=[b"no picture"])
    done = sidecar_here("init", "hf", "--main-prefix", "hf")
    assert done.returncode == 2
    assert "'image' (only paths among its first 1 row" in done.stderr
    assert "expected: other\n  fix: --image-column other" in done.stderr


def test_a_column_s_name_is_quoted_for_the_shell(sidecar_here, tmp_path):
    keys = {"Foto ID": ["a", "b"], "Ort & Tag": ["c", "d"]}
    write(tmp_path / "odd/a.parquet", **keys, **{"my mask": [b"no", b"no"], "other": [b"x", b"y"]})
    done = sidecar_here("init", "odd", "--main-prefix", "odd")
    assert "fix: --key-column 'Foto ID'\n" in done.stderr
    done = sidecar_here("init", "odd", "--main-prefix", "odd", "--key-column", "Foto ID")
    assert "fix: --image-column 'my mask'\n" in done.stderr
    done = sidecar_here("init", "odd", "--main-prefix", "odd", "--sidecar-prefix", ".")
    assert f"fix: --sidecar-prefix {tmp_path}/odd_sidecar/\n" in done.stderr
    (tmp_path / "odd").rename(tmp_path / "my odd")
    done = sidecar_here("init", "odd", "--main-prefix", "my odd", "--sidecar-prefix", ".")
    assert f"fix: --sidecar-prefix '{tmp_path}/my odd_sidecar/'\n" in done.stderr


def test_a_dataset_without_a_key_is_told_how_to_get_one(sidecar_here, tmp_path):
    write(tmp_path / "hf/data/train-00000-of-00001.parquet", image=[{"bytes": JPEG, "path": "a"}] * 2, label=[7, 7])
    done = sidecar_here("init", "hf", "--main-prefix", "hf")
    assert done.returncode == 2
    assert "'label': only 1 of 2 values are different" in done.stderr
    assert "docs/own-images.md" in done.stderr
    assert not (tmp_path / "configs").exists()


@pytest.mark.parametrize("pipeline", ["filters", "resized", "scaffold"])
def test_every_command_that_it_proposes_works_as_typed(sidecar, tmp_path, pipeline):
    for shard in range(2):
        write(tmp_path / f"ü 1/{shard}.parquet", id=[shard], image=[b"\xff\xd8\xff"])
    options = ["--filters", "luma,exif_metadata"] if pipeline == "filters" else []
    done = sidecar("init", "pets", "--main-prefix", "ü 1", "--pipeline", pipeline, *options)
    assert done.returncode == 0, done.stderr
    commands = [line.strip() for line in done.stdout.splitlines() if line.startswith("  sidecar ")]
    verifier = "verify-resized" if pipeline == "resized" else "verify"
    assert [shlex.split(command)[1] for command in commands] == ["check", "run", "run", "run", verifier]
    for command in commands:
        step = sidecar(*shlex.split(command)[1:])
        assert step.returncode == 0, f"{command}\n{step.stdout}\n{step.stderr}"
    assert "aligned" in step.stdout


def test_files_that_are_there_are_kept_unless_forced(sidecar_here, main, tmp_path):
    path = tmp_path / "configs/pipelines/pets.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    refused = sidecar_here("init", "pets", "--main-prefix", main)
    assert refused.returncode == 3
    assert "pipelines/pets.yaml' exists" in refused.stderr
    assert "--force" in refused.stderr
    assert path.read_text() == "mine"
    assert not (tmp_path / "configs/datasets").exists()
    assert sidecar_here("init", "pets", "--main-prefix", main, "--force").returncode == 0
    assert path.read_text() != "mine"


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_neither_file_is_there_when_one_cannot_be_written(sidecar_here, main, tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/pipelines").write_text("in the way")
    failed = sidecar_here("init", "pets", "--main-prefix", main)
    assert failed.returncode == 1
    assert "pipelines/pets.yaml' cannot be written" in failed.stderr
    assert files_below(tmp_path / "configs") == ["pipelines"]
    (tmp_path / "configs/pipelines").unlink()
    assert sidecar_here("init", "pets", "--main-prefix", main).returncode == 0


@pytest.mark.parametrize("force", [False, True])
def test_a_full_disk_leaves_what_was_there(sidecar_limited, main, tmp_path, force):
    kept = tmp_path / "configs/datasets/pets.yaml"
    if force:
        kept.parent.mkdir(parents=True)
        kept.write_text("mine")
    failed = sidecar_limited("init", "pets", "--main-prefix", main, *(["--force"] if force else []))
    assert failed.returncode == 1
    assert "datasets/pets.yaml' cannot be written: File too large" in failed.stderr
    assert files_below(tmp_path / "configs") == (["datasets/pets.yaml"] if force else [])
    assert not force or kept.read_text() == "mine"


@pytest.fixture
def sidecar_limited(tmp_path):
    """Runs `sidecar` in a process that can write no byte into a file."""

    def run(*arguments):
        words = [sys.executable, "-m", "sidecar_cli.main", *map(str, arguments)]
        return subprocess.run(
            ["sh", "-c", f"ulimit -f 0; exec {shlex.join(words)}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


def test_the_schema_for_editors_is_named_where_it_is(sidecar_here, main, tmp_path):
    for kind in ("dataset", "pipeline"):
        (tmp_path / "conf/json-schema").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"conf/json-schema/{kind}.json").write_text("{}")
    assert sidecar_here("init", "pets", "--main-prefix", main, "--configs", "conf").returncode == 0
    for kind in ("dataset", "pipeline"):
        first = (tmp_path / f"conf/{kind}s/pets.yaml").read_text().splitlines()[0]
        assert first == f"# yaml-language-server: $schema=../json-schema/{kind}.json"


def test_storage_options_are_written(sidecar_here, main, tmp_path):
    done = sidecar_here("init", "pets", "--main-prefix", main, "--profile", "team: a", "--region", "eu-west-1")
    assert done.returncode == 0, done.stderr
    storage = load_dataset(tmp_path / "configs/datasets/pets.yaml").storage
    assert (storage.profile, storage.region, storage.endpoint_url) == ("team: a", "eu-west-1", None)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["init", "pets"], 2, "fix: --main-prefix"),
        (["init", "my pets", "--main-prefix", "data/pets"], 2, "sidecar init my_pets"),
        (["init", "pets", "--main-prefix", "nowhere"], 2, "no folder"),
        (["init", "pets", "--main-prefix", "ftp://x/y"], 2, "'ftp'"),
        (["init", "pets", "--main-prefix", "data/pets/deep/part-0.parquet"], 2, "is a file"),
        (["init", "pets", "--main-prefix", "with space/a.parquet"], 2, "with space'\n"),
        (["init", "pets", "--main-prefix", "jpegs"], 2, "sidecar pack"),
        (["init", "pets", "--main-prefix", "damaged"], 2, "not a readable Parquet file"),
        (["init", "pets", "--main-prefix", "two"], 2, "fix: --key-column"),
        (["init", "pets", "--main-prefix", "data/pets", "--key-column", "md6"], 2, "did you mean 'md5'?"),
        (["init", "pets", "--main-prefix", "data/pets", "--key-column", "image"], 2, "is binary, not text"),
        (["init", "pets", "--main-prefix", "data/pets", "--image-column", "md5"], 2, "is string, not binary"),
        (["init", "pets", "--main-prefix", "blind"], 2, "fix: --image-column mask"),
        (["init", "pets", "--main-prefix", "text"], 2, "--pipeline scaffold"),
        (["init", "pets", "--main-prefix", "data/pets", "--filters", "lumma"], 2, "did you mean 'luma'?"),
        (["init", "pets", "--main-prefix", "data/pets", "--filters", ","], 2, "--filters luma,clarity"),
        (["init", "pets", "--main-prefix", "data/pets", "--pipeline", "resized", "--filters", "luma"], 2, "leave one"),
        (["init", "pets", "--main-prefix", "data/pets", "--sidecar-prefix", "data"], 3, "around the main dataset"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_answered_with_help(sidecar_here, main, tmp_path, arguments, status, said):
    (tmp_path / "jpegs").mkdir()
    (tmp_path / "jpegs/a.JPG").write_bytes(JPEG)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/a.parquet").write_bytes(b"no")
    write(tmp_path / "two/a.parquet", first=["a", "b"], second=["c", "d"], image=[JPEG, JPEG])
    write(tmp_path / "with space/a.parquet", id=[1], image=[JPEG])
    write(tmp_path / "blind/a.parquet", id=[1], mask=[b"no picture"], other=[b"neither"])
    write(tmp_path / "text/a.parquet", id=[1], text=["x"])
    done = sidecar_here(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "configs").exists()


def test_an_unreadable_first_shard_is_passed_over_and_said(sidecar_here, main):
    (main / "aaa.parquet").write_bytes(b"no")
    done = sidecar_here("init", "pets", "--main-prefix", main)
    assert done.returncode == 0
    assert "warning: aaa.parquet: " in done.stderr


def on_terminal(cwd, answers, *arguments):
    """Runs the program with a terminal as stdin and stderr, and types; returns the status, stdout and the terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar_cli.main", *map(str, arguments)],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100"},
    )
    os.close(slave)
    os.write(master, answers.encode())
    seen = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    out = process.stdout.read().decode()
    process.stdout.close()
    status = process.wait(timeout=60)
    os.close(master)
    return status, out, seen.decode()


def test_a_person_is_asked_until_the_answer_is_right(tmp_path):
    write(tmp_path / "two/a.parquet", first=["a", "b"], second=["c", "d"], one=[b"?", b"!"], two=[b"?", b"!"])
    answers = "nowhere\ntwo\n3\nsecnd\nsecond\n9\n2\n"
    status, out, seen = on_terminal(tmp_path, answers, "init", "pets")
    assert status == 0, seen
    assert "no folder" in seen
    assert "did you mean 'second'?" in seen
    assert "a number from 1 to 2" in seen
    dataset = load_dataset(tmp_path / "configs/datasets/pets.yaml")
    assert (dataset.key_column, dataset.image_column) == ("second", "two")
    assert "second (as you said)" in out


def test_no_answer_ends_with_the_flag_to_give(tmp_path):
    status, out, seen = on_terminal(tmp_path, "\x04", "init", "pets")
    assert (status, out) == (2, "")
    assert "fix: give --main-prefix" in seen
    assert "Traceback" not in seen


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "s3://b/c_d/",
        "../../x/",
        "/abs/olute/",
        "1.5",
        "2024-01-01",
        "null",
        "No",
        "~",
        "a: b",
        "ü #",
        "",
        "-",
        "x:",
    ],
)
def test_a_string_stays_a_string_in_yaml(text, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(f"a: {yaml_scalar(text)}\nb: {{c: {yaml_scalar(text, inside=True)}, d: 1}}\n", encoding="utf-8")
    assert read_yaml(path).data == {"a": text, "b": {"c": text, "d": 1}}


def test_the_standard_filters_are_installed():
    assert set(STANDARD_FILTERS) <= set(filter_names())


def test_a_dataset_without_pictures_has_no_image_column(tmp_path):
    path = Path(tmp_path / "x.yaml")
    path.write_text(
        dataset_yaml(
            name="x",
            main_prefix="/m/",
            sidecar_prefix="/s/",
            key_column="k",
            image_column=None,
            string_extensions=["note"],
        )
    )
    dataset = load_dataset(path)
    assert dataset.image_column is None
    assert [field.name for field in dataset.extension_fields] == ["note"]
