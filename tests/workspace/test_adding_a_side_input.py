"""The example of docs/adding-a-side-input.md is built as it stands there, used, and tested as it says."""

from __future__ import annotations

import re
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.testing.datasets import read_dataset


@pytest.fixture
def folder(tmp_path, doc_page):
    """The module and the YAML of the page, with a dataset to use them on."""
    page = doc_page("docs/adding-a-side-input.md")
    page.write_files(tmp_path)
    module, test = page.of("python")
    (tmp_path / "my_team").mkdir()
    (tmp_path / "my_team/__init__.py").touch()
    (tmp_path / "my_team/domains.py").write_text(module)
    (tmp_path / "test_domains.py").write_text(test)
    (tmp_path / "main").mkdir()
    domains = pa.array(["b.org", None, "c.org", "a.org"])
    pq.write_table(pa.table({"image_key": list("wxyz"), "domain": domains}), tmp_path / "main/part-0.parquet")
    pq.write_table(pa.table({"domain": ["a.org", "b.org", None], "rating": [1, 2, 3]}), tmp_path / "ratings.parquet")
    return tmp_path


@pytest.fixture
def run_python(folder, run_in):
    """Returns a function that runs Python where the module can be imported, and returns what it did."""

    def run(*words, status=0):
        return run_in(folder, [sys.executable, *words], env={"PYTHONPATH": str(folder)}, status=status)

    return run


@pytest.fixture
def sidecar(run_python):
    """Returns a function that runs `sidecar COMMAND pipelines/domains.yaml …`."""

    def run(command, *more, status=0):
        return run_python("-m", "sidecar_cli.main", command, "pipelines/domains.yaml", *more, status=status)

    return run


def test_it_works_in_a_pipeline_and_a_change_of_the_source_makes_it_stale(folder, sidecar):
    sidecar("run", "--output-prefix", "out")
    (made,) = read_dataset(folder / "out").values()
    assert made.to_pydict() == {"image_key": list("wxyz"), "domain_rating": [2, None, None, 1]}
    assert made.schema.field("domain_rating").type == pa.int8()
    pq.write_table(pa.table({"domain": ["c.org"], "rating": [9]}), folder / "ratings.parquet")
    refused = sidecar("run", "--output-prefix", "out", "--skip-existing", status=3)
    assert "ratings.parquet changed" in refused.stderr
    sidecar("run", "--output-prefix", "out", "--skip-existing", "--redo-stale")
    (made,) = read_dataset(folder / "out").values()
    assert made.column("domain_rating").to_pylist() == [None, None, 9, None]


def test_what_does_not_load_ends_the_run(folder, sidecar):
    pq.write_table(pa.table({"domains": ["a.org"], "rating": [1]}), folder / "ratings.parquet")
    ended = sidecar("run", "--output-prefix", "out", status=1)
    assert "'rate_domain': side input 'ratings' did not load" in ended.stderr
    (folder / "ratings.parquet").unlink()
    ended = sidecar("run", "--output-prefix", "out", status=1)
    assert "ratings.parquet" in ended.stderr
    assert not list((folder / "out").glob("*.parquet"))


def test_the_runtime_that_cannot_have_it_says_so(sidecar):
    refused = sidecar("run", "--output-prefix", "out", "--runtime", "ray", status=2)
    assert "'rate_domain' declares 'ratings'" in refused.stderr
    assert "--runtime actor" in refused.stderr


def test_it_passes_the_conformance_tests(run_python):
    output = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_domains.py").stdout
    assert re.search(r"\d\d passed", output)
