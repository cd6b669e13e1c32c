from __future__ import annotations

import sys
import uuid

import pytest
from sidecar_core.errors import UsageError
from sidecar_core.op import BaseOp
from sidecar_core.registry import OPS, installed_ops, op_class, register_op


def new_op(name, qualname):
    class Op(BaseOp):
        def apply(self, table, ctx):
            return table

    Op.__qualname__ = qualname
    return register_op(name)(Op)


@pytest.fixture
def name():
    name = f"op_{uuid.uuid4().hex}"
    yield name
    OPS._objects.pop(name, None)


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Puts fake installed packages onto sys.path: name, entry points, and modules with their text."""
    modules_before = set(sys.modules)

    def make(package, entry_points, folder="site", **modules):
        site = tmp_path / folder
        info = site / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(site))

    yield make
    for module in set(sys.modules) - modules_before:
        if module.startswith("fake_"):
            del sys.modules[module]


OP_MODULE = """\
from sidecar_core.op import BaseOp
from sidecar_core.registry import register_op

@register_op({name!r})
class Mine(BaseOp):
    def apply(self, table, ctx):
        return table
"""


def test_a_registered_op_is_found_by_its_name(name):
    cls = new_op(name, "Mine")
    assert op_class(name) is cls
    assert cls.type_name == name
    assert installed_ops()[name].endswith(":Mine")


def test_one_name_twice_is_an_error_that_names_both_classes(name):
    new_op(name, "First")
    with pytest.raises(UsageError, match=r"registered twice: by \S+:First and by \S+:Second"):
        new_op(name, "Second")


def test_the_same_class_imported_again_replaces_itself(name):
    new_op(name, "Mine")
    again = new_op(name, "Mine")
    assert op_class(name) is again


def test_installed_ops_are_imported_only_when_asked_for(distribution, name):
    distribution(
        "fake-ops",
        f"[sidecar.ops]\n{name} = fake_ops_module:Mine\nother_op = fake_absent_module:Other\n",
        fake_ops_module=OP_MODULE.format(name=name),
    )
    assert installed_ops()[name] == "fake_ops_module:Mine"
    assert "fake_ops_module" not in sys.modules
    assert op_class(name).type_name == name
    assert "fake_ops_module" in sys.modules


def test_a_package_that_cannot_be_imported_is_named(distribution):
    distribution("fake-broken", "[sidecar.ops]\nbroken_op = fake_absent_module:Broken\n")
    with pytest.raises(UsageError, match=r"'broken_op' \(fake_absent_module:Broken\) cannot be imported: ModuleNotF"):
        op_class("broken_op")


def test_two_packages_with_one_name_are_an_error_that_names_both(distribution, name):
    for package in ("one", "two"):
        distribution(f"fake-{package}", f"[sidecar.ops]\n{name} = fake_{package}:Mine\n", folder=package)
    with pytest.raises(UsageError, match=r"registered twice: by fake_(one|two):Mine and by fake_(one|two):Mine"):
        op_class(name)


def test_a_plugin_cannot_take_the_name_of_an_installed_op(distribution, name):
    distribution("fake-ops", f"[sidecar.ops]\n{name} = fake_ops_module:Mine\n")
    new_op(name, "Plugin")
    with pytest.raises(UsageError, match=r"registered twice: by fake_ops_module:Mine and by \S+:Plugin"):
        op_class(name)


def test_a_package_may_offer_what_a_module_of_it_defines(distribution, name):
    distribution(
        "fake-ops",
        f"[sidecar.ops]\n{name} = fake_ops_module:Mine\n",
        fake_ops_module="from fake_ops_inside import Mine",
        fake_ops_inside=OP_MODULE.format(name=name),
    )
    op = op_class(name)
    assert op.__module__ == "fake_ops_inside"
    assert op_class(name) is op


def test_a_package_found_twice_on_the_path_counts_once(distribution, name):
    for folder in ("one", "two"):
        distribution(
            "fake-ops",
            f"[sidecar.ops]\n{name} = fake_ops_module:Mine\n",
            folder=folder,
            fake_ops_module=OP_MODULE.format(name=name),
        )
    assert op_class(name).__name__ == "Mine"


def test_an_entry_point_must_name_what_is_registered(distribution, name):
    distribution(
        "fake-ops",
        f"[sidecar.ops]\n{name} = fake_ops_module:Mine\n",
        fake_ops_module=OP_MODULE.format(name="z_" + name),
    )
    try:
        with pytest.raises(UsageError, match="fake_ops_module:Mine is not registered under that name"):
            op_class(name)
    finally:
        OPS._objects.pop("z_" + name, None)


def test_unknown_ops_name_the_nearest_and_all():
    with pytest.raises(UsageError, match="unknown operation 'extract_scafold'; did you mean 'extract_scaffold'") as got:
        op_class("extract_scafold")
    known = str(got.value).partition("expected: ")[2].split(", ")
    assert known == sorted(known)
    assert {"cast_columns", "drop_columns", "extract_scaffold", "rename_columns"} <= set(known)


@pytest.mark.parametrize(
    ("op", "package"),
    [
        ("compute_filters", "sidecar-filters"),
        ("resize_image", "sidecar-resize"),
        ("crop_structured_description", "sidecar-resize"),
    ],
)
def test_an_op_whose_package_is_missing_says_which_to_install(op, package, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # nothing is installed here
    monkeypatch.delitem(OPS._objects, op, raising=False)
    with pytest.raises(UsageError, match=f"comes with the package '{package}', which is not installed") as caught:
        op_class(op)
    assert caught.value.fix == f"uv add {package}"


def test_unfinished_classes_are_refused():
    class NoApply(BaseOp):
        pass

    class OddParams(BaseOp):
        Params = dict

        def apply(self, table, ctx):
            return table

    class OddVersion(BaseOp):
        version = "1"

        def apply(self, table, ctx):
            return table

    for cls, message in (
        (NoApply, "has no apply"),
        (OddParams, "Params of"),
        (OddVersion, "version of"),
        (int, "BaseOp"),
    ):
        with pytest.raises(UsageError, match=message):
            register_op("unfinished")(cls)
    assert "unfinished" not in installed_ops()
    with pytest.raises(UsageError, match="no name for an op"):
        new_op("not a name", "Mine")
