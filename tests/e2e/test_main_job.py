"""The main job as its users do it: pack a folder, build both resized datasets, verify them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.isolation import submit_call
from sidecar_core.reasons import Reason
from sidecar_core.testing.datasets import read_dataset
from sidecar_resize.testing.pictures import encoded_scene

FORMATS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "tif": "TIFF", "gif": "GIF", "avif": "AVIF"}


@pytest.fixture(scope="session")
def drawn():
    return {suffix: submit_call(encoded_scene, 300, 200, name) for suffix, name in FORMATS.items()}


def build_both(sidecar, main, out):
    targets = ["--target", f"512={out}/r512", "--target", f"1024={out}/r1024"]
    sidecar("build-resized", "--main-prefix", main, *targets, "--workers", 2)
    return sidecar("verify-resized", "--main-prefix", main, *targets, "--all", "--json")


def test_a_folder_of_every_format_becomes_two_verified_datasets(sidecar, drawn, tmp_path):
    for suffix, data in drawn.items():
        (tmp_path / "photos" / suffix).mkdir(parents=True)
        (tmp_path / "photos" / suffix / f"ein bild=1 é.{suffix}").write_bytes(data)
    sidecar("pack", "photos", "main")
    build_both(sidecar, "main", tmp_path)
    for side, area_px in (("r512", 512 * 512), ("r1024", 1024 * 1024)):
        (table,) = read_dataset(tmp_path / side).values()
        assert table.num_rows == len(FORMATS)
        prefix = "0_26mp_process" if side == "r512" else "1_05mp_process"
        assert table[f"{prefix}_valid"].to_pylist() == [True] * len(FORMATS)
        audit = {name.removeprefix(f"{prefix}_"): table[name].to_pylist() for name in table.column_names}
        assert set(audit["source_width"]) == {300}
        assert set(audit["source_height"]) == {200}
        areas_px = [width * height for width, height in zip(audit["width"], audit["height"], strict=True)]
        assert all(abs(found / area_px - 1) <= 0.1 for found in areas_px)
        assert all(image[:4] == b"RIFF" and image[8:12] == b"WEBP" for image in table["image"].to_pylist())


def test_the_fused_build_equals_two_builds(sidecar, drawn, tmp_path):
    (tmp_path / "photos").mkdir()
    for suffix, data in drawn.items():
        (tmp_path / f"photos/x.{suffix}").write_bytes(data)
    sidecar("pack", "photos", "main")
    build_both(sidecar, "main", tmp_path / "fused")
    sidecar("build-0-262mp", "--main-prefix", "main", "--output-prefix", "alone/r512", "--workers", 1)
    assert read_dataset(tmp_path / "fused/r512") == read_dataset(tmp_path / "alone/r512")
    done = sidecar(
        *("build-0-262mp", "--main-prefix", "main", "--output-prefix", tmp_path / "fused/r512"),
        *("--skip-existing", "--dry-run", "--json"),
    )
    assert json.loads(done.stdout)["states"] == {"done": 1, "stale": 0, "partial": 0, "missing": 0}


def test_every_file_of_the_corpus_keeps_its_row(sidecar, corpus, tmp_path):
    files = sorted(path for path in corpus.iterdir() if path.suffix not in {".md", ".tsv"})
    shard = pa.table(
        {
            "image_key": [path.name for path in files],
            "image": pa.array([path.read_bytes() for path in files], pa.binary()),
        }
    )
    (tmp_path / "main").mkdir()
    pq.write_table(shard, tmp_path / "main/corpus.parquet")
    build_both(sidecar, "main", tmp_path)
    for side, prefix in (("r512", "0_26mp_process"), ("r1024", "1_05mp_process")):
        table = read_dataset(tmp_path / side)["corpus.parquet"]
        assert table["image_key"].to_pylist() == [path.name for path in files]
        valid, reasons = table[f"{prefix}_valid"].to_pylist(), table[f"{prefix}_reason"].to_pylist()
        assert {reason for reason in reasons if reason is not None} <= {reason.value for reason in Reason}
        assert [reason is None for reason in reasons] == valid
        assert [image is not None for image in table["image"].to_pylist()] == valid
        assert 100 < sum(valid) < len(files)


def test_the_image_column_of_hugging_face(sidecar, drawn, tmp_path):
    images = pa.array(
        [{"bytes": data, "path": f"x.{suffix}"} for suffix, data in drawn.items()],
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    (tmp_path / "main/data").mkdir(parents=True)
    pq.write_table(
        pa.table({"id": range(len(drawn)), "image": images}), tmp_path / "main/data/train-00000-of-00001.parquet"
    )
    sidecar(
        *("build-0-262mp", "--main-prefix", "main", "--output-prefix", "out"),
        *("--key-column", "id", "--image-column", "image", "--workers", 1),
    )
    table = read_dataset(tmp_path / "out")["data/train-00000-of-00001.parquet"]
    assert table["id"].to_pylist() == list(range(len(drawn)))
    assert table["0_26mp_process_valid"].to_pylist() == [True] * len(drawn)
