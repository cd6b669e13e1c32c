"""The contract of a package's public API as a pytest class that every package runs: subclass it in a test module."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from sidecar_core.testing.docstrings import Docstring
from sidecar_core.testing.public_api import api_text, public_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sidecar_core.testing.public_api import PublicModule, PublicName

REFRESH = "uv run python ci/public_api.py"
_LOAD = """
import importlib, sys
for name in sys.argv[2:]:
    module, _, attribute = name.rpartition(".")
    getattr(importlib.import_module(module), attribute)
print(*sorted({*sys.argv[1].split()} & {*sys.modules}))
"""


class ApiContract:
    """What others may import changes only on purpose, can be imported, and is told in docstrings.

    A subclass names the package and the file that holds its public names as they were agreed to.

    Attributes:
        package: the import name.
        recorded: the file, as `ci/public_api.py` writes it.
        must_not_load: modules that importing any public name must not load.
    """

    package: ClassVar[str]
    recorded: ClassVar[Path]
    must_not_load: ClassVar[tuple[str, ...]] = ("PIL", "boto3", "cv2", "pyvips", "ray", "rich", "typer")

    def test_it_is_what_was_agreed_to(self) -> None:
        """A name, a parameter, a default or a field that comes, goes or changes shows here first."""
        agreed = self.recorded.read_text(encoding="utf-8").splitlines()
        found = api_text(self.package).splitlines()
        changes = "\n".join(difflib.unified_diff(agreed, found, self.recorded.name, "the source", lineterm="", n=2))
        assert agreed == found, (
            f"the public API of {self.package} changed:\n{changes}\n\n"
            f"If that is meant, write it down with: {REFRESH}\nand add a line to the package's CHANGELOG."
        )

    def test_every_name_can_be_imported(self) -> None:
        """From where it is public, and nothing else is meant by it than what the source says."""
        for module in self._modules():
            loaded = import_module(module.name)
            for each in module.names:
                assert each.name in dir(loaded), f"{module.name} does not list {each.name}"
                value = getattr(loaded, each.name)
                assert each.kind == "constant" or value is getattr(import_module(each.home), each.name), each.name

    def test_importing_all_of_it_loads_nothing_heavy(self) -> None:
        """Parents load no image library, and a slim environment has neither Ray nor a terminal."""
        names = [f"{module.name}.{each.name}" for module in self._modules() for each in module.names]
        done = subprocess.run(
            [sys.executable, "-c", _LOAD, " ".join(self.must_not_load), *names],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "", f"loaded: {done.stdout}"

    def test_every_name_has_a_docstring(self) -> None:
        """Of each public name, and of each method and property that does not take over that of its base."""
        silent = [place for place, each in self._all_names() if not each.doc and _needs_docstring(each)]
        assert not silent, f"no docstring: {', '.join(silent)}"

    def test_docstrings_name_what_is_there(self) -> None:
        """Arguments and fields that were renamed or removed would stay in the text for ever."""
        wrong: list[str] = []
        for place, each in self._all_names():
            told = Docstring.parse(each.doc or "").items
            known = _parameters(each)
            wrong += [f"{place}: Args: {name}" for name in told.get("Args", {}) if name.lstrip("*") not in known]
            members = {member.name for member in each.members}
            wrong += [f"{place}: Attributes: {name}" for name in told.get("Attributes", {}) if name not in members]
            wrong += [f"{place}: Raises: {told['Raises']['']}"] if "" in told.get("Raises", {}) else []
        assert not wrong, f"documented, but not there: {', '.join(wrong)}"

    def test_every_field_and_value_is_told(self) -> None:
        """A type says neither unit nor range nor what None means; the text of another field may."""
        silent: list[str] = []
        for place, each in self._all_names():
            fields = [member.name for member in each.members if member.kind in {"field", "value"} and not member.doc]
            silent += [
                f"{place}.{name}" for name in fields if f"`{name}`" not in (each.doc or "") and name != "model_config"
            ]
        assert not silent, f"fields that no docstring tells of: {', '.join(silent)}"

    def _modules(self) -> list[PublicModule]:
        return public_modules(self.package)

    def _all_names(self) -> Iterator[tuple[str, PublicName]]:
        for module in self._modules():
            for each in module.names:
                yield f"{module.name}.{each.name}", each
                for member in each.members:
                    yield f"{module.name}.{each.name}.{member.name}", member


def _needs_docstring(each: PublicName) -> bool:
    is_special = each.name.startswith("__")  # what these do needs no words, or the class says it
    return each.kind not in {"field", "value"} and not is_special


def _parameters(each: PublicName) -> set[str]:
    """Returns the names that `Args:` may speak of: parameters, and those of a class's `__init__` or its fields."""
    constructor = next((member for member in each.members if member.name == "__init__"), None)
    if constructor is not None:
        return set(constructor.parameters)
    return {*each.parameters, *(member.name for member in each.members if member.kind == "field")}
