"""What docs/deploying.md cannot run in a test is at least taken by `sidecar-run`; scripts that docs name are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from sidecar_core.overrides import parse_overrides
from sidecar_core.pipeline import load_pipeline
from sidecar_runtimes.argparse_options import OptionParser
from sidecar_runtimes.job_options import SET, VERIFY_OPTIONS, VERIFY_RESIZED_OPTIONS
from sidecar_runtimes.options import RUN_OPTIONS
from sidecar_runtimes.resized_targets import parse_targets
from sidecar_runtimes.run_job import run_options
from sidecar_runtimes.run_options import check_options

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text()
SHELL = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
COMMANDS = [shlex.split(line) for line in SHELL.splitlines() if line.startswith("sidecar-run ")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_is_taken(words, monkeypatch):
    monkeypatch.chdir(ROOT)
    job = words[1]
    if job == "verify-resized":
        values = OptionParser(VERIFY_RESIZED_OPTIONS, prog="x", description="y").values(words[2:])
        assert list(parse_targets(values["target"])) == [512, 1024]
        return
    table = VERIFY_OPTIONS if job == "verify" else (SET, *RUN_OPTIONS)
    parser = OptionParser(table, prog="x", description="y", positional=("PIPELINE", "it"))
    values = parser.values(words[2:] if job == "verify" else words[1:])
    pipeline = load_pipeline(values["what"], overrides=parse_overrides(values["set"]))
    assert pipeline.dataset.main_prefix == "s3://example-bucket/main/"
    if job != "verify":
        check_options(run_options(values))


def test_the_page_shows_every_job():
    assert {words[1] for words in COMMANDS} >= {"verify", "verify-resized", "configs/pipelines/resized.yaml"}


def test_scripts_that_docs_name_exist():
    for page in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("packages/*/README.md")]:
        for name in re.findall(r"\b((?:ci|deploy)/\w+\.(?:sh|py))\b", page.read_text()):
            assert (ROOT / name).is_file(), f"{page.name}: {name}"
