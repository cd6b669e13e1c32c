"""docs/reference/ says what the code says, and a page that does not is found out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from sidecar_core.pipeline import check_columns, load_pipeline

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/reference"
COLUMNS = (PAGES / "columns.md").read_text(encoding="utf-8")


# in a process of its own, which knows no op and no filter that other tests registered
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
import reference
reference.ROOT = Path(sys.argv[2])
reference.PAGES = reference.ROOT / "docs/reference"
sys.exit(reference.main(sys.argv[3:]))
"""


@pytest.fixture
def reference(tmp_path):
    """Runs the script about a copy of the pages; returns its exit status and what it said."""
    shutil.copytree(PAGES, tmp_path / "docs/reference")

    def run(*arguments):
        command = [sys.executable, "-c", SCRIPT, ROOT / "ci/reference.py"]
        done = subprocess.run([*command, tmp_path, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
        return done.returncode, done.stderr

    return run


def test_the_pages_are_current_and_a_stale_one_is_named_and_mended(reference, tmp_path):
    assert reference("--check") == (0, "")
    page = tmp_path / "docs/reference/reasons.md"
    before = page.read_text(encoding="utf-8")
    page.write_text(before.replace("| `timeout` |", "| `timed_out` |"), encoding="utf-8")
    status, told = reference("--check")
    assert status == 1
    assert "reasons.md" in told
    assert "+| `timeout` |" in told
    assert reference()[0] == 0
    assert page.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("mark", ["<!-- end of reasons -->\n", "<!-- generated: reasons -->\n"])
def test_a_lost_mark_is_an_error_and_nothing_is_lost_with_it(reference, tmp_path, mark):
    page = tmp_path / "docs/reference/reasons.md"
    text = page.read_text(encoding="utf-8").replace(mark, "")
    page.write_text(text, encoding="utf-8")
    status, told = reference()
    assert status == 1
    assert "reasons.md" in told
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("path", sorted(ROOT.glob("configs/pipelines/*.yaml")), ids=lambda path: path.stem)
def test_every_column_that_a_shipped_pipeline_makes_is_in_columns_md(path):
    pipeline = load_pipeline(path)
    made_here = re.compile(r"(filter_|bbox_|.*_process_|image_\d|caption_source|structured_description_crop_)")
    for output in check_columns(pipeline).outputs:
        for field, (_, table_column) in zip(output.schema, output.columns, strict=True):
            if not made_here.match(table_column):
                continue
            shown = re.sub(r"^.*_process_", "_", table_column)
            shown = re.sub(r"(image|crop)_\d+$", r"\1_<", shown)
            assert f"`{shown}" in COLUMNS or f"### {shown}\n" in COLUMNS, table_column
            for leaf in field.type if isinstance(field.type, pa.StructType) else ():
                known = f"| `{leaf.name}` |" in COLUMNS or f"`{leaf.name}." in COLUMNS
                assert known or re.fullmatch(r"target_\d+", leaf.name), f"{table_column}.{leaf.name}"


def test_every_variable_that_the_programs_read_is_in_commands_md():
    named = set()
    for path in ROOT.glob("packages/*/src/**/*.py"):
        if "testing" not in path.parts:
            named |= set(re.findall(r"\"(SIDECAR_[A-Z_]+)\"", path.read_text(encoding="utf-8")))
    named.remove("SIDECAR_TORTURE")  # no setting: it marks the processes of `doctor --torture`
    told = (PAGES / "commands.md").read_text(encoding="utf-8")
    assert {name for name in named if name not in told} == set()
