"""The example of docs/adding-a-filter.md is built as it stands there, used, and tested as it says."""

from __future__ import annotations

import re
import sys

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory, doc_page, run_python):
    """The package of the page, on a path, with the entry points of the page."""
    page = doc_page("docs/adding-a-filter.md")
    folder = tmp_path_factory.mktemp("example")
    package = folder / "warm_filters"
    (package / "schemas").mkdir(parents=True)
    function, init, use, test = page.of("python")
    (package / "warmth.py").write_text(function)
    (package / "__init__.py").write_text(init)
    (package / "schemas" / "warmth.yaml").write_text(page.of("yaml")[0])
    (folder / "test_warmth.py").write_text(test)
    (folder / "use.py").write_text(f"image_bytes = open('warm.png', 'rb').read()\n{use}")
    info = folder / "warm_filters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: warm-filters\nVersion: 1.0\n")
    entries = page.of("toml")[0].replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "")
    (info / "entry_points.txt").write_text(entries)
    code = """
import numpy as np
from sidecar_filters.testing.pictures import encoded
open("warm.png", "wb").write(encoded(np.full((20, 30, 3), (10, 20, 110), np.uint8), "PNG"))
"""
    run_python(folder, "-c", code)
    return folder


@pytest.fixture(scope="module")
def run_python(run_in):
    """Returns a function that runs Python where the package can be imported, and returns what it showed."""
    return lambda folder, *words: run_in(folder, [sys.executable, *words], env={"PYTHONPATH": str(folder)}).stdout


def test_it_scores(folder, run_python):
    assert run_python(folder, "use.py") == "{'red_minus_blue': 100.0, 'is_warm': True}\n"


def test_it_works_in_a_pipeline(folder, run_python):
    code = """
from sidecar_filters.compute_filters import ComputeFilters
from sidecar_core.types import StructTypes
op = ComputeFilters(ComputeFilters.Params(filters=("luma", "warmth")))
print(StructTypes.installed().struct("filter_warmth_v1").names)
"""
    assert run_python(folder, "-c", code) == "['red_minus_blue', 'is_warm']\n"


def test_it_passes_the_conformance_tests(folder, run_python):
    output = run_python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_warmth.py")
    assert re.search(r"\d passed", output)
