"""Every command of docs/own-images.md is run as it stands there, in its order, on datasets such as it speaks of."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.isolation import submit_call
from sidecar_resize.testing.pictures import encoded_scene

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "own-images.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own-images")
    picture = submit_call(encoded_scene, 200, 150, "JPEG")
    (folder / "pets").mkdir()
    for number in range(6):
        (folder / f"pets/pet-{number}.jpg").write_bytes(picture if number else picture[:300])
    pictures = [{"bytes": picture, "path": f"{number}.jpg"} for number in range(6)]
    for part in range(2):
        ids = [f"bird-{part}-{number}" for number in range(6)]
        shard = folder / f"birds/data/train-{part:05}-of-00002.parquet"
        write(shard, {"image": pictures, "label": [1] * 6, "image_id": ids})
    write(folder / "flowers/data/train-00000-of-00001.parquet", {"image": pictures, "label": [1, 2] * 3})
    pages = [f"page {number}" for number in range(4)]
    scans = [picture] * 4
    write(folder / "scans/a.parquet", {"page": pages, "note": pages, "scan": scans, "mask": scans})
    return folder


def write(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def run(folder, command):
    programs = str(Path(sys.executable).parent)
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "RAY_ADDRESS": "", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_every_command_of_the_page_works_in_its_order(folder):
    refused = run(folder, ["sidecar", "init", "flowers", "--main-prefix", "flowers/"])
    assert refused.returncode == 2
    assert "'label': only 2 of 6 values are different" in refused.stderr
    shown = ""
    for language, block in BLOCKS:
        commands = [shlex.split(line) for line in block.splitlines()]
        for command in commands if language == "sh" else [[sys.executable, "-c", block]]:
            done = run(folder, command)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            shown += done.stdout
    for sidecar in ("pets_parquet_sidecar", "birds_sidecar", "flowers_sidecar", "scans_512", "scans_1024"):
        assert list((folder / sidecar).rglob("*.parquet")), sidecar
    # what the page shows of `init` is what was shown
    (example,) = re.findall(r"```console\nmain dataset.*?\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in example.replace("/home/me", str(folder)).splitlines():
        if not line.startswith("shards "):
            assert line in shown, line


def test_what_it_says_of_a_dataset_that_leaves_a_choice(folder):
    done = run(folder, ["sidecar", "init", "choice", "--main-prefix", "scans/"])
    assert done.returncode == 2
    assert "fix: --key-column page" in done.stderr
