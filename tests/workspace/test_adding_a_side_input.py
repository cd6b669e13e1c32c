"""The example of docs/adding-a-side-input.md is built as it stands there, used, and tested as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.testing.datasets import read_dataset

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding-a-side-input.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """The module and the YAML of the page, with a dataset to use them on."""
    module, test = blocks("python")
    (tmp_path / "my_team").mkdir()
    (tmp_path / "my_team/__init__.py").touch()
    (tmp_path / "my_team/domains.py").write_text(module)
    (tmp_path / "test_domains.py").write_text(test)
    for text in blocks("yaml"):
        path = tmp_path / text.split("\n", 1)[0].removeprefix("# ")
        path.parent.mkdir()
        path.write_text(text)
    (tmp_path / "main").mkdir()
    domains = pa.array(["b.org", None, "c.org", "a.org"])
    pq.write_table(pa.table({"image_key": list("wxyz"), "domain": domains}), tmp_path / "main/part-0.parquet")
    pq.write_table(pa.table({"domain": ["a.org", "b.org", None], "rating": [1, 2, 3]}), tmp_path / "ratings.parquet")
    return tmp_path


def run(folder: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "RAY_ADDRESS": ""}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == status, result.stdout + result.stderr
    return result


def sidecar(folder: Path, command: str, *more: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "sidecar_cli.main", command, "pipelines/domains.yaml", *more, status=status)


def test_it_works_in_a_pipeline_and_a_change_of_the_source_makes_it_stale(folder):
    sidecar(folder, "run", "--output-prefix", "out")
    (made,) = read_dataset(folder / "out").values()
    assert made.to_pydict() == {"image_key": list("wxyz"), "domain_rating": [2, None, None, 1]}
    assert made.schema.field("domain_rating").type == pa.int8()
    pq.write_table(pa.table({"domain": ["c.org"], "rating": [9]}), folder / "ratings.parquet")
    refused = sidecar(folder, "run", "--output-prefix", "out", "--skip-existing", status=3)
    assert "ratings.parquet changed" in refused.stderr
    sidecar(folder, "run", "--output-prefix", "out", "--skip-existing", "--redo-stale")
    (made,) = read_dataset(folder / "out").values()
    assert made.column("domain_rating").to_pylist() == [None, None, 9, None]


def test_what_does_not_load_ends_the_run(folder):
    pq.write_table(pa.table({"domains": ["a.org"], "rating": [1]}), folder / "ratings.parquet")
    ended = sidecar(folder, "run", "--output-prefix", "out", status=1)
    assert "'rate_domain': side input 'ratings' did not load" in ended.stderr
    (folder / "ratings.parquet").unlink()
    ended = sidecar(folder, "run", "--output-prefix", "out", status=1)
    assert "ratings.parquet" in ended.stderr
    assert not list((folder / "out").glob("*.parquet"))


def test_the_runtime_that_cannot_have_it_says_so(folder):
    refused = sidecar(folder, "run", "--output-prefix", "out", "--runtime", "ray", status=2)
    assert "'rate_domain' declares 'ratings'" in refused.stderr
    assert "--runtime actor" in refused.stderr


def test_it_passes_the_conformance_tests(folder):
    output = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_domains.py").stdout
    assert re.search(r"\d\d passed", output)
