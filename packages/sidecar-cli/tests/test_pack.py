from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_cli import pack as pack_module
from sidecar_cli.pack import pack_folder, plan_shards
from sidecar_core.errors import RefusedError, SidecarError, UsageError


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "bilder ü=1"
    for number in range(5):
        path = folder / f"é {number % 2}/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * (number * 10))
    return folder


def read(prefix):
    return pa.concat_tables([pq.read_table(path) for path in sorted(Path(prefix).glob("*.parquet"))])


def test_rows_are_the_files_untouched_and_in_order(pictures, tmp_path):
    report = pack_folder(pictures, str(tmp_path / "out"), shard_rows=2)
    assert report.shards == ("part-00000.parquet", "part-00001.parquet", "part-00002.parquet")
    assert (report.rows, report.image_bytes) == (5, 100)
    table = read(report.prefix)
    assert table.schema == pa.schema({"image_key": pa.string(), "image": pa.binary()})
    keys = table["image_key"].to_pylist()
    assert keys == sorted(path.relative_to(pictures).as_posix() for path in pictures.rglob("*.jpg"))
    assert table["image"].to_pylist() == [(pictures / key).read_bytes() for key in keys]


def test_nothing_but_shards_is_left(pictures, tmp_path):
    pack_folder(pictures, str(tmp_path / "out"), shard_rows=3)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["part-00000.parquet", "part-00001.parquet"]


def test_captions_make_columns_only_when_there_are_any(pictures, tmp_path):
    (pictures / "é 0/0.txt").write_bytes("\ufeffEine Möwe\r\n".encode())
    text = '{ "objects": [ 1.50 ],\n "ß": "\\u00df" }'
    (pictures / "é 1/1.json").write_text(text, encoding="utf-8")
    table = read(pack_folder(pictures, str(tmp_path / "out")).prefix)
    rows = {row["image_key"]: row for row in table.to_pylist()}
    assert rows["é 0/0.jpg"]["caption"] == "Eine Möwe"
    assert rows["é 1/1.jpg"]["structured_description"] == text
    assert rows["é 1/3.jpg"]["caption"] is None
    assert table.schema.names == ["image_key", "image", "caption", "structured_description"]


def test_shards_are_bounded_by_bytes_too(pictures, tmp_path):
    report = pack_folder(pictures, str(tmp_path / "out"), shard_bytes=45)
    sizes = [
        sum(len(image) for image in pq.read_table(Path(report.prefix) / s)["image"].to_pylist()) for s in report.shards
    ]
    assert max(sizes) <= 45
    assert sum(sizes) == 100


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 40))
def test_every_picture_is_in_one_shard_and_no_shard_is_too_big(sizes, rows, most_bytes):
    shards = plan_shards(sizes, rows, most_bytes)
    assert [position for start, end in shards for position in range(start, end)] == list(range(len(sizes)))
    for start, end in shards:
        assert 1 <= end - start <= rows
        assert end - start == 1 or sum(sizes[start:end]) <= most_bytes


def test_a_prefix_with_shards_is_never_touched(pictures, tmp_path):
    out = tmp_path / "out/sub"
    out.mkdir(parents=True)
    (out / "old.parquet").write_bytes(b"precious")
    with pytest.raises(RefusedError, match=r"sub/old\.parquet"):
        pack_folder(pictures, str(tmp_path / "out"))
    assert [path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")] == [b"precious"]


def test_one_unreadable_file_and_nothing_is_written(pictures, tmp_path):
    (pictures / "broken.jpg").symlink_to("nowhere")
    with pytest.raises(SidecarError, match=r"1 file .* nothing was written(.|\n)*broken\.jpg: No such file"):
        pack_folder(pictures, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_file_that_vanishes_while_packing_leaves_nothing_behind(pictures, tmp_path, monkeypatch):
    scan = pack_module.scan_folder(pictures)
    scan.pictures[-1].path.unlink()
    monkeypatch.setattr(pack_module, "scan_folder", lambda folder: scan)
    with pytest.raises(SidecarError, match="changed while it was packed"):
        pack_folder(pictures, str(tmp_path / "out"), shard_rows=1)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("content", [None, "notes.md"])
def test_a_folder_without_pictures_is_wrong_usage(content, tmp_path):
    folder = tmp_path / "in"
    if content:
        folder.mkdir()
        (folder / content).write_text("x")
    with pytest.raises(UsageError):
        pack_folder(folder, str(tmp_path / "out"))


def test_the_command_prints_what_to_type_next(sidecar, pictures, tmp_path):
    yaml = tmp_path / "configs/datasets/bilder.yaml"
    done = sidecar("pack", pictures, tmp_path / "out x", "--dataset-yaml", yaml)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        f"sidecar build-0-262mp --main-prefix '{tmp_path}/out x/' --output-prefix '{tmp_path}/out x_512/'"
        in done.stdout
    )
    assert yaml.exists()
    assert "sidecar init" not in done.stdout
    proposed = sidecar("pack", pictures, tmp_path / "out y")
    line = next(line.strip() for line in proposed.stdout.splitlines() if line.startswith("  sidecar init "))
    assert sidecar(*shlex.split(line)[1:]).returncode == 2  # its pictures are none, and it says so
    again = sidecar("pack", pictures, tmp_path / "out x")
    assert again.returncode == 3
    assert "already holds 1 shard," in again.stderr


def test_the_command_checks_the_yaml_before_it_packs(sidecar, pictures, tmp_path):
    (tmp_path / "x.yaml").write_text("mine")
    done = sidecar("pack", pictures, tmp_path / "out", "--dataset-yaml", tmp_path / "x.yaml")
    assert done.returncode == 3
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "x.yaml").read_text() == "mine"


def test_the_result_as_json(sidecar, pictures):
    done = sidecar("pack", pictures, "out", "--json")
    report = json.loads(done.stdout)
    assert (report["rows"], report["columns"]) == (5, ["image_key", "image"])


def test_unreadable_files_end_with_1(sidecar, pictures):
    (pictures / "broken.jpg").symlink_to("nowhere")
    done = sidecar("pack", pictures, "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert "broken.jpg" in done.stderr


def test_names_that_are_too_long_are_said_to_be(sidecar_here, tmp_path):
    name = "x" * 500
    for command in (("pack", name, "x"), ("pack", tmp_path, name), ("init", "pets", "--main-prefix", name)):
        done = sidecar_here(*command)
        assert done.returncode in (1, 2)
        assert "File name too long" in done.stderr
        assert "unexpected" not in done.stderr
