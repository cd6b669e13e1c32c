"""Filters of others: registered by a module, offered by a package, and refused with a reason."""

import subprocess
import sys

import pytest
from sidecar_core.errors import UsageError
from sidecar_filters import registry
from sidecar_filters.base import Filter, Need
from sidecar_filters.filters.luma import LUMA, measure_luma
from sidecar_filters.registry import find_filter, register_filter
from sidecar_filters.testing.hostile_filters import HOSTILE, measure_raising

PLUGIN = """
from sidecar_filters import Filter, Need, register_filter

def measure_width(picture):
    return {{"fraction": float(picture.header.width), "fraction_auto": None}}

register_filter(Filter({name!r}, struct="filter_edge_density_v1", needs=Need.HEADER, measure=measure_width))
"""


def run(code, folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def offer(folder, name="team_width", entry="team_filters:measure_width"):
    """Puts a module and a distribution that offers its filter on a path."""
    (folder / "team_filters.py").write_text(PLUGIN.format(name=name))
    info = folder / "team_filters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team-filters\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sidecar.filters]\nteam_width = {entry}\n")


USE = """
from sidecar_filters import filter_names, score
from sidecar_filters.testing.pictures import encoded, scene
print("team_width" in filter_names(), score(encoded(scene(33, 20)), ["team_width"])["team_width"])
"""


def test_a_package_offers_a_filter(tmp_path):
    offer(tmp_path)
    result = run(USE, tmp_path)
    assert result.stdout == "True {'fraction': 33.0, 'fraction_auto': None}\n", result.stderr


def test_a_module_registers_a_filter(tmp_path):
    (tmp_path / "team_filters.py").write_text(PLUGIN.format(name="team_width"))
    result = run("import team_filters" + USE, tmp_path)
    assert result.stdout == "True {'fraction': 33.0, 'fraction_auto': None}\n", result.stderr


def test_an_entry_point_whose_module_registers_another_name(tmp_path):
    offer(tmp_path, name="team_height")
    result = run(USE, tmp_path)
    assert "UsageError: filter 'team_width'" in result.stderr
    assert "registers no filter of that name" in result.stderr


def test_an_entry_point_that_cannot_be_imported(tmp_path):
    offer(tmp_path, entry="nowhere:measure_width")
    result = run(USE, tmp_path)
    assert "filter 'team_width' (nowhere:measure_width) cannot be imported: ModuleNotFoundError" in result.stderr


def test_a_name_that_is_taken_names_both():
    with pytest.raises(UsageError, match=r"filters.luma:measure_luma and by sidecar_filters.testing.hostile") as caught:
        register_filter(Filter("luma", struct="filter_luma_v1", needs=Need.ANALYSIS, measure=measure_raising))
    assert "registered twice" in str(caught.value)
    assert find_filter("luma") is LUMA


def test_registering_the_same_again_is_fine():
    assert register_filter(LUMA) is LUMA
    assert find_filter("raising") is HOSTILE["raising"]


def local_filter():
    def measure_locally(picture):
        return {}

    return measure_locally


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "no noun!"}, "is no name for a filter"),
        ({"measure": lambda picture: {}}, "a child process cannot import"),
        ({"measure": local_filter()}, "a child process cannot import"),
        ({"version": "2"}, "its version is '2'"),
        ({"version": True}, "its version is True"),
        ({"name": "status"}, r"filter 'status': its column would be filter_status(.|\n)*another name"),
        ({"needs": "x"}, r"filter 'fine': needs is 'x'(.|\n)*Need\.BYTES"),
    ],
)
def test_what_cannot_be_registered(changes, message):
    fields = {"name": "fine", "struct": "filter_luma_v1", "needs": Need.ANALYSIS, "measure": measure_luma, **changes}
    with pytest.raises(UsageError, match=message):
        register_filter(Filter(**fields))
    assert not {"fine", "status"} & set(registry.filter_names())


def test_a_filter_of_the_program_itself_is_refused(tmp_path):
    result = run(PLUGIN.format(name="mine"), tmp_path)
    assert "a child process cannot import __main__:measure_width" in result.stderr
