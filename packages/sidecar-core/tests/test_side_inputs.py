from __future__ import annotations

import pickle

import pytest
from sidecar_core.errors import UsageError
from sidecar_core.side_inputs import (
    LOADERS,
    SideInputSpec,
    installed_side_input_loaders,
    register_side_input_loader,
    side_input_loader,
)


@pytest.fixture(autouse=True)
def _no_traces():
    before = dict(LOADERS._objects)
    yield
    LOADERS._objects.clear()
    LOADERS._objects.update(before)


def test_a_registered_loader_is_found_by_its_name():
    @register_side_input_loader("lookup_table")
    def load(params, dataset):
        return params["x"]

    assert side_input_loader("lookup_table") is load
    assert side_input_loader("lookup_table")({"x": 3}, None) == 3
    assert installed_side_input_loaders()["lookup_table"].endswith("load")


def test_one_name_twice_is_an_error_that_names_both():
    @register_side_input_loader("lookup_table")
    def first(params, dataset): ...

    def second(params, dataset): ...

    with pytest.raises(UsageError, match=r"side-input loader 'lookup_table' is registered twice: .*first .*second"):
        register_side_input_loader("lookup_table")(second)


def test_unknown_loaders_name_the_nearest():
    register_side_input_loader("lookup_table")(lambda params, dataset: None)
    with pytest.raises(UsageError, match="unknown side-input loader 'lookup_tabel'; did you mean 'lookup_table'"):
        side_input_loader("lookup_tabel")


def test_specs_are_plain_data():
    spec = SideInputSpec("lookup_table", {"path": "x"})
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert SideInputSpec("lookup_table").params == {}
