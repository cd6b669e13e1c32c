"""What others may import changes only on purpose, can be imported, and is told in docstrings: see docs/api."""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("PIL", "boto3", "cv2", "pyvips", "ray", "rich", "typer")
PACKAGES = {  # and what importing any public name must not load
    **dict.fromkeys(["sidecar-core", "sidecar-filters", "sidecar-resize", "sidecar-runtimes"], HEAVY),
    "sidecar-cli": ("PIL", "boto3", "cv2", "numpy", "pyarrow", "pyvips", "ray"),
}
LOAD = """
import importlib, sys
for name in sys.argv[2:]:
    module, _, attribute = name.rpartition(".")
    getattr(importlib.import_module(module), attribute)
print(*sorted({*sys.argv[1].split()} & {*sys.modules}))
"""


@dataclass(frozen=True)
class Api:
    """What a package offers, as `ci/api_reader.py` reads it, and the file and the modules that it is held to."""

    modules: list
    text: str
    agreed: Path
    must_not_load: tuple[str, ...]

    def names(self):
        """Yields each public name with its place, and the members of classes after them."""
        for module in self.modules:
            for each in module.names:
                yield f"{module.name}.{each.name}", each
                for member in each.members:
                    yield f"{module.name}.{each.name}.{member.name}", member


def check_what_was_agreed_to(api, caplog):
    """A name, a parameter, a default or a field that comes, goes or changes shows here first."""
    agreed, found = api.agreed.read_text(encoding="utf-8").splitlines(), api.text.splitlines()
    changes = "\n".join(difflib.unified_diff(agreed, found, api.agreed.name, "the source", lineterm="", n=2))
    assert agreed == found, (
        f"the public API of {api.modules[0].name} changed:\n{changes}\n\n"
        "If that is meant, write it down with: uv run python ci/public_api.py\n"
        "and add a line to the package's CHANGELOG."
    )


def check_imports(api, caplog):
    """Every name can be imported from where it is public, and is what the source says."""
    for module in api.modules:
        loaded = importlib.import_module(module.name)
        for each in module.names:
            assert each.name in dir(loaded), f"{module.name} does not list {each.name}"
            at_home = getattr(importlib.import_module(each.home), each.name)
            assert getattr(loaded, each.name) is at_home, f"{module.name}.{each.name} is not that of {each.home}"


def check_what_is_loaded(api, caplog):
    """Parents load no image library, and a slim environment has neither Ray nor a terminal."""
    names = [f"{module.name}.{each.name}" for module in api.modules for each in module.names]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, " ".join(api.must_not_load), *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "", f"loaded: {done.stdout}"


def check_docstrings(api, caplog):
    """Each name, method and property has one, its own or that of the base's; what `__len__` does needs no words."""
    told = [(place, each.doc) for place, each in api.names() if each.kind not in {"field", "value"}]
    silent = [place for place, doc in told if not doc and not place.endswith("__")]
    assert not silent, f"no docstring: {', '.join(silent)}"


def check_what_docstrings_name(api, caplog):
    """Arguments and fields that were renamed or removed would stay in the text for ever."""
    wrong = []
    caplog.clear()
    for place, each in api.names():
        for section in each.doc.parse() if each.doc else ():  # griffe logs what is no parameter and what is no item
            if section.kind.value == "attributes":
                members = {member.name for member in each.members}
                wrong += [f"{place}: {found.name}" for found in section.value if found.name not in members]
    wrong += caplog.messages
    assert not wrong, f"documented, but not there: {', '.join(wrong)}"


def check_fields(api, caplog):
    """A type says neither unit nor range nor what None means: a docstring does, perhaps that of another field."""
    silent = [
        f"{place}.{member.name}"
        for place, each in api.names()
        for member in each.members
        if member.kind in {"field", "value"} and member.name != "model_config"
        if not member.told and f"`{member.name}`" not in (each.doc.value if each.doc else "")
    ]
    assert not silent, f"fields that no docstring tells of: {', '.join(silent)}"


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]


@pytest.fixture(scope="module")
def api_of(api_reader):
    """Returns a function that reads a package: its import name, the agreed text, what it must not load."""

    @functools.cache
    def read(package, agreed, must_not_load):
        modules = api_reader.public_modules(package)
        return Api(modules, api_reader.api_text(modules), agreed, must_not_load)

    return read


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package(package, check, api_of, caplog):
    check(api_of(package.replace("-", "_"), ROOT / f"docs/api/{package}.txt", PACKAGES[package]), caplog)


def test_all_packages_are_held_to_it():
    assert sorted(PACKAGES) == sorted(path.name for path in (ROOT / "packages").iterdir() if path.is_dir())


# What follows holds the checks themselves to a small package, in which each fault is made once.

INIT = '''
"""A package."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toy_package import extras
    from toy_package.inner import Box, Color, LIMIT, Made, make

    __version__: str

__all__ = ["Box", "Color", "LIMIT", "Made", "__version__", "extras", "make"]


def __getattr__(name):
    from importlib import import_module

    if name == "extras":
        return import_module(f"{__name__}.extras")
    return getattr(import_module(f"{__name__}.inner"), name)


def __dir__():
    return __all__
'''
INNER = '''
"""What it has."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Literal, Union

Side = Literal["left", "right"]
Pair = tuple[Side, int]
LIMIT: int = 3
"""As many as there may be."""

_SHOWN = 16_384


class Color(StrEnum):
    """Of what.

    Attributes:
        RED: like this.
    """

    RED = "red"


class _Hidden:
    inherited: int = 1

    def from_hidden(self) -> int:
        """Returns what a base has that nobody may import."""
        return self.inherited


@dataclass(frozen=True)
class Box(_Hidden):
    """A box, and what was `inherited`; side and rows are told below.

    Attributes:
        kind: of all boxes.
        side: where.
        rows: how many.
        names: by number.
    """

    kind: ClassVar[str] = "box"
    side: Side
    rows: int = _SHOWN
    names: dict[int, str] = field(default_factory=dict[int, str])
    _private: int = 0

    @property
    def pair(self) -> Pair:
        """Both."""
        return (self.side, self.rows)

    @classmethod
    def of(cls, *sides: Side, last: None | int = None) -> Box:
        """Makes one.

        Args:
            sides: of these.
            last: the last one.
        """
        return cls(sides[0])

    def from_hidden(self) -> int:
        return 2


class Made:
    """Made by others only.

    Attributes:
        size: in bytes.
        whole: whether it is.
    """

    def __init__(self, hidden: _Hidden, size: int) -> None:
        self.size = size
        self.whole: bool = bool(hidden)
        self.counter = 0

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def __enter__(self) -> Made:
        return self


@lru_cache(maxsize=8)
def make(first: str, /, second: float = 0.5, *, third_side: Union[Side, None] = "left") -> Box:
    """Makes a box.

    Raises:
        ValueError: never.
    """
    return Box("left")
'''
EXTRAS = '''
"""More."""

__all__ = ["more"]


def more(**options: object) -> None:
    """Does more."""
'''
TEXT = """\
# toy_package

@dataclass(frozen=True)
class Box(_Hidden):
    kind: ClassVar[str] = "box"
    side: Literal["left", "right"]
    rows: int = 16_384
    names: dict[int, str] = {}
    @property
    def pair(self) -> tuple[Literal["left", "right"], int]: ...
    @classmethod
    def of(cls, *sides: Literal["left", "right"], last: None | int = None) -> Box: ...
    def from_hidden(self) -> int: ...
    inherited: int = 1

class Color(StrEnum):
    RED = "red"

LIMIT: int = 3

class Made:
    size: int
    whole: bool
    def close(self) -> None: ...
    def __enter__(self) -> Made: ...

def make(
    first: str,
    /,
    second: float = 0.5,
    *,
    third_side: Union[Literal["left", "right"], None] = "left",
) -> Box: ...

# toy_package.extras

def more(**options: object) -> None: ...
"""


@pytest.fixture
def toy(tmp_path, monkeypatch, api_of):
    """Returns a maker of what such a package offers; of each file one text can be changed: before and after."""

    def make(**changed):
        folder = tmp_path / "toy_package"
        folder.mkdir()
        for file, text in {"__init__": INIT, "inner": INNER, "extras": EXTRAS}.items():
            before, after = changed.get(file, ("", ""))
            assert before in text
            (folder / f"{file}.py").write_text(text.replace(before, after, 1))
        (tmp_path / "agreed.txt").write_text(TEXT)
        return api_of("toy_package", tmp_path / "agreed.txt", ("decimal",))

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    for module in [name for name in sys.modules if name.startswith("toy_package")]:
        del sys.modules[module]


def test_the_text_has_what_a_caller_needs_and_nothing_private(toy):
    assert toy().text == TEXT
    assert "toy_package" not in sys.modules  # nothing is imported for it


@pytest.mark.parametrize("check", CHECKS)
def test_a_package_without_fault(check, toy, caplog):
    check(toy(), caplog)


@pytest.mark.parametrize(
    ("check", "changed", "said"),
    [
        (check_what_was_agreed_to, ("second: float = 0.5", "second: float = 0.25"), r"\+    second: float = 0.25,"),
        (check_what_was_agreed_to, ("second: float", "middle: float"), r"-    second: float(.|\n)*ci/public_api.py"),
        (check_what_was_agreed_to, ("_SHOWN = 16_384", "_SHOWN = 5"), r"\+    rows: int = 5"),
        (check_what_was_agreed_to, ('["left", "right"]', '["left", "top"]'), r'\+    side: Literal\["left", "top"\]'),
        (check_what_was_agreed_to, ("    side: Side\n", "    side: Side\n    more: int\n"), r"\+    more: int"),
        (check_docstrings, ('        """Both."""\n', ""), r"no docstring: toy_package.Box.pair\n"),
        (check_docstrings, ('"""As many as there may be."""', ""), r"no docstring: toy_package.LIMIT\n"),
        (check_docstrings, ('"""Returns what a base', 'f"""Returns what a base'), r"toy_package.Box.from_hidden\n"),
        (check_what_docstrings_name, ("            last: ", "            latest: "), "Parameter 'latest' does not"),
        (check_what_docstrings_name, ("        names: by", "        titles: by"), r"toy_package.Box: titles\n"),
        (check_what_docstrings_name, ("        ValueError: never", "        never"), "description' pair from 'never"),
        (check_fields, ("        names: by", "        side: by"), r"tells of: toy_package.Box.names\n"),
        (check_fields, ("what was `inherited`", "more"), r"tells of: toy_package.Box.inherited\n"),
        (check_fields, ("        RED: like", "        red: like"), r"tells of: toy_package.Color.RED\n"),
        (check_what_is_loaded, ("from abc import", "import decimal\nfrom abc import"), "loaded: decimal"),
    ],
)
def test_each_fault_is_named(check, changed, said, toy, caplog):
    api = toy(inner=changed)
    with pytest.raises(AssertionError, match=said):
        check(api, caplog)


def test_a_name_that_python_does_not_offer_is_named(toy, caplog):
    with pytest.raises(AssertionError, match="does not list Color"):
        check_imports(toy(__init__=("    return __all__", '    return ["Box"]')), caplog)


def test_a_name_that_is_another_object_is_named(toy, caplog):
    other = ("    return getattr(import", '    if name == "make":\n        return print\n    return getattr(import')
    with pytest.raises(AssertionError, match=r"toy_package.make is not that of toy_package.inner"):
        check_imports(toy(__init__=other), caplog)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"extras": ('__all__ = ["more"]', "")}, "extras has no __all__"),
        ({"extras": ('["more"]', '["more", "less"]')}, "names 'less', which is not defined"),
        ({"inner": ("def make(", "def other(")}, "names 'make', which is not defined"),
    ],
)
def test_what_cannot_be_read_is_named(changed, said, toy):
    with pytest.raises(LookupError, match=said):
        toy(**changed)
