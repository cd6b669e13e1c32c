"""Runs the real program in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.main import main

LOUD = (
    "FORCE_COLOR",
    "RAY_ADDRESS",
    "NO_COLOR",
    "PY_COLORS",
    "SIDECAR_DEBUG_PROGRESS_ROWS",
    "SIDECAR_OPS_DEBUG_PROGRESS_ROWS",
)


def clean_environment(**changes):
    kept = {name: value for name, value in os.environ.items() if name not in LOUD}
    return {**kept, "COLUMNS": "100", **changes}


@pytest.fixture
def sidecar(tmp_path):
    """Returns a function that runs `sidecar` with arguments and returns what it did."""

    def run(*arguments, env=None, cwd=None):
        return subprocess.run(
            [sys.executable, "-m", "sidecar_cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=240,
            env=clean_environment(**(env or {})),
            cwd=cwd or tmp_path,
            check=False,
        )

    return run


@pytest.fixture
def sidecar_here(tmp_path, monkeypatch, capsys):
    """Like `sidecar`, in this process: for tests of which there are many."""

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setattr("sys.argv", ["sidecar", *map(str, arguments)])
            capsys.readouterr()
            status = main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(status), out, err)

    return run


@pytest.fixture
def team(tmp_path):
    """A folder as a team has it: a main dataset of two shards, a dataset YAML and a pipeline YAML."""
    main = tmp_path / "main ü=1"
    for number in range(2):
        shard = main / f"deep/part-{number}.parquet"
        shard.parent.mkdir(parents=True, exist_ok=True)
        keys = [f"{number}/é {row}.jpg" for row in range(5)]
        pq.write_table(pa.table({"image_key": keys, "image": [b"x"] * 5, "caption": ["a"] * 5}), shard)
    datasets, pipelines = tmp_path / "configs/datasets", tmp_path / "configs/pipelines"
    datasets.mkdir(parents=True)
    pipelines.mkdir()
    (datasets / "team.yaml").write_text(
        f'name: team\nmain_prefix: "{main}"\nsidecar_prefix: ../../sidecar\nkey_column: image_key\n'
        "image_column: image\ncarry_columns: [caption]\nschema_extensions:\n  - {name: score, type: float32}\n",
        encoding="utf-8",
    )
    (pipelines / "scaffold.yaml").write_text("dataset: team\noperations:\n  - type: extract_scaffold\n")
    return Team(tmp_path, main, pipelines / "scaffold.yaml")


class Team:
    def __init__(self, root: Path, main: Path, pipeline: Path):
        self.root = root
        self.main = main
        self.pipeline = pipeline


CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


@pytest.fixture
def chromium_page():
    """A page of a real headless Chromium, for reports.

    The test fails when, while it is open, the page writes an error or a warning to the console, throws, or asks
    for anything but local files. Open a report with `chromium_page.goto(path.as_uri())`.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed: neither chromium, chromium-browser nor google-chrome is on the PATH")
    from playwright.sync_api import sync_playwright

    complaints = []

    def on_console(said):
        if said.type in ("error", "warning"):
            complaints.append(f"console: {said.text}")

    def on_request(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            complaints.append(f"the page asked for {request.url}")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", on_console)
        page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        page.on("request", on_request)
        yield page
        browser.close()
    assert complaints == []


@pytest.fixture
def images_shown():
    """Returns a function: for each `<img>` of a page, whether it can be decoded and has pixels."""
    decoded = "image => image.decode().then(() => image.naturalWidth > 0, () => false)"
    return lambda page: page.evaluate(f"Promise.all([...document.images].map({decoded}))")
