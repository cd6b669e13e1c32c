"""`build-*` and `verify-resized` on a few real pictures, drawn in isolated children."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.demo_pictures import PictureRecipe, draw_picture
from sidecar_core.isolation import IsolationOptions, IsolationPool


@pytest.fixture(scope="module")
def pictures():
    recipes = [
        PictureRecipe(90, 60, "JPEG"),
        PictureRecipe(60, 90, "PNG", "RGBA"),
        PictureRecipe(600, 600, "JPEG"),
        PictureRecipe(90, 60, "JPEG", damage="truncated"),
    ]
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        return [*pool.map_rows(draw_picture, recipes), None, b"<html>"]


@pytest.fixture
def main(pictures, tmp_path):
    folder = tmp_path / "main"
    (folder / "ü=1").mkdir(parents=True)
    keys = [f"é {row}" for row in range(len(pictures))]
    pq.write_table(pa.table({"id": keys, "pixels": pa.array(pictures, pa.binary())}), folder / "ü=1/a.parquet")
    return folder


COLUMNS = ["--key-column", "id", "--image-column", "pixels", "--workers", "1"]


def test_one_dataset_with_its_audit(sidecar_here, main, tmp_path):
    done = sidecar_here("build-0-262mp", "--main-prefix", main, "--output-prefix", "a=b ü", *COLUMNS)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^sidecar +not_an_image|^512 +not_an_image +1$", done.stdout, re.MULTILINE)
    table = pq.read_table(tmp_path / "a=b ü/ü=1/a.parquet", partitioning=None)
    assert table.schema.names[:3] == ["id", "pixels", "0_26mp_process_valid"]
    assert table["0_26mp_process_reason"].to_pylist() == [None, None, None, "truncated", "missing", "not_an_image"]
    assert table["0_26mp_process_width"].to_pylist()[:3] == [640, 416, 512]


def test_flags_reach_the_pictures(sidecar_here, main, tmp_path):
    done = sidecar_here(
        *("build-1-05mp", "--main-prefix", main, "--output-prefix", "out", *COLUMNS),
        *("--no-upscale", "--output-format", "png", "--audit-prefix", "mine", "--patch-size", "64"),
        *("--max-pixels", "20000"),
    )
    assert done.returncode == 0, done.stderr
    reasons = pq.read_table(tmp_path / "out/ü=1/a.parquet", partitioning=None)["mine_reason"].to_pylist()
    assert reasons == ["too_small", "too_small", "too_many_pixels", "truncated", "missing", "not_an_image"]


def test_without_a_prefix_it_writes_a_new_folder_and_says_how_to_go_on(sidecar_here, main, tmp_path):
    done = sidecar_here("build-0-262mp", "--main-prefix", main, *COLUMNS)
    assert done.returncode == 0, done.stderr
    (new,) = tmp_path.glob("main_512_run_*")
    assert f"--output-prefix {new}/ --skip-existing" in done.stderr


def test_several_datasets_in_one_pass_and_their_verifier(sidecar_here, main, tmp_path):
    targets = ["--target", "512=small", "--target", "1024=big"]
    done = sidecar_here("build-resized", "--main-prefix", main, *targets, *COLUMNS, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"] == {"512": f"{tmp_path}/small/", "1024": f"{tmp_path}/big/"}
    proof = sidecar_here("verify-resized", "--main-prefix", main, *targets, *COLUMNS, "--all", "--json")
    assert proof.returncode == 0, proof.stdout
    report = json.loads(proof.stdout)["targets"]["1024"]
    assert (report["valid"], report["invalid"]) == (3, {"truncated": 1, "missing": 1, "not_an_image": 1})
    text = sidecar_here("verify-resized", "--main-prefix", main, *targets, *COLUMNS)
    assert text.stdout.splitlines()[-1] == "1 sampled shard aligned"
    assert "ü=1/a.parquet row 5" in text.stdout


def test_the_verifier_finds_a_dataset_of_another_area(sidecar_here, main):
    assert sidecar_here("build-0-262mp", "--main-prefix", main, "--output-prefix", "out", *COLUMNS).returncode == 0
    done = sidecar_here("verify-resized", "--main-prefix", main, "--target", "1024=out", *COLUMNS)
    assert done.returncode == 1
    assert "not within 10 % of 1048576 px" in done.stdout


@pytest.mark.parametrize("prefix", ["main", "main/inside", "."])
def test_the_main_dataset_is_never_touched(sidecar_here, main, prefix):
    before = (main / "ü=1/a.parquet").stat().st_mtime_ns
    done = sidecar_here("build-0-262mp", "--main-prefix", main, "--output-prefix", prefix, *COLUMNS)
    assert done.returncode == 3, done.stderr
    assert [path.stat().st_mtime_ns for path in main.rglob("*.parquet")] == [before]


@pytest.mark.parametrize("prefix", ["main_sidecar", "main_sidecar/512"])
def test_the_sidecar_is_never_touched(sidecar_here, main, prefix):
    done = sidecar_here("build-0-262mp", "--main-prefix", main, "--output-prefix", prefix, *COLUMNS)
    assert (done.returncode, "sidecar" in done.stderr) == (3, True), done.stderr


def test_targets_may_not_lie_in_each_other(sidecar_here, main):
    flags = ["--target", "512=out", "--target", "1024=out/big"]
    assert sidecar_here("build-resized", "--main-prefix", main, *flags, *COLUMNS).returncode == 3


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--quality", "0"], "--quality: "),
        (["--patch-size", "0"], "--patch-size: "),
        (["--background", "bleu"], "--background: "),
        (["--output-format", "bmp"], "--output-format"),
        (["--webp-method", "9"], "--webp-method: "),
        (["--image-column", "nope"], "'nope'"),
        (["--key-column", "nope"], "'nope'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_values_are_named_by_their_flag(sidecar_here, main, tmp_path, flags, said):
    done = sidecar_here("build-0-262mp", "--main-prefix", main, "--output-prefix", "out", *COLUMNS, *flags)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_area_that_cannot_be_is_told_by_its_flag(sidecar_here, main):
    targets = ["--target", "512=small", "--target", "10=tiny"]
    done = sidecar_here("build-resized", "--main-prefix", main, *targets, *COLUMNS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "--target 10=tiny: found 10\n  expected: greater than or equal to 32\n"


def test_a_target_without_an_area_is_told_what_a_target_is(sidecar_here, main):
    done = sidecar_here("build-resized", "--main-prefix", main, "--target", "r512", *COLUMNS)
    assert done.returncode == 2
    assert "--target 'r512' is not AREA=PREFIX" in done.stderr


def test_a_dry_run_of_a_build(sidecar_here, main, tmp_path):
    done = sidecar_here("build-0-262mp", "--main-prefix", main, "--output-prefix", "out", *COLUMNS, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^shards +1: 0 done, 0 stale, 0 partial, 1 missing$", done.stdout, re.MULTILINE)
    assert not (tmp_path / "out").exists()
