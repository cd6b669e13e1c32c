from __future__ import annotations

import itertools
import sys
import textwrap

import pytest
from sidecar_core.testing.api_contract import ApiContract
from sidecar_core.testing.docstrings import Docstring
from sidecar_core.testing.public_api import api_text, public_modules

NUMBERS = itertools.count()

INIT = '''
"""A package."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PACKAGE import extras
    from PACKAGE.inner import Box, Color, LIMIT, Made, make

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
from typing import Literal, TypeAlias, Union

Side = Literal["left", "right"]
Pair: TypeAlias = "tuple[Side, int]"
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
    """Not told."""

    def from_hidden(self) -> int:
        """Returns what a base has that nobody may import."""
        return self.inherited


@dataclass(frozen=True)
class Box(_Hidden):
    """A box, and what was `inherited`; side and rows are told below.

    Attributes:
        side: where.
        rows: how many.
        names: by number.
    """

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

    def _internal(self) -> None: ...


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
def make(first: str, /, second: float = 0.5, *, third: Union[Side, None] = "left") -> "Box":
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
# PACKAGE

@dataclass(frozen=True)
class Box(_Hidden)
    side: Literal["left", "right"]
    rows: int = 16_384
    names: dict[int, str] = {}
    @property pair: tuple[Literal["left", "right"], int]
    @classmethod
    def of(cls, *sides: Literal["left", "right"], last: None | int = None) -> Box
    inherited: int = 1
    def from_hidden(self) -> int

class Color(StrEnum)
    RED = "red"

LIMIT: int = 3

class Made
    self.size: int
    self.whole: bool
    def close(self) -> None
    def __enter__(self) -> Made

def make(first: str, /, second: float = 0.5, *, third: Union[Literal["left", "right"], None] = "left") -> Box

# PACKAGE.extras

def more(**options: object) -> None
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns a maker of packages, whose files can be changed: text before and after."""

    def make(**changed):
        name = f"example_{next(NUMBERS)}"
        (tmp_path / name).mkdir()
        for file, text in {"__init__": INIT, "inner": INNER, "extras": EXTRAS}.items():
            before, after = changed.get(file, ("", ""))
            assert before in text
            (tmp_path / name / f"{file}.py").write_text(text.replace(before, after, 1).replace("PACKAGE", name))
        return name

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    for module in [name for name in sys.modules if name.startswith("example_")]:
        del sys.modules[module]


@pytest.fixture
def contract(package, tmp_path):
    """Returns a maker of the contract of such a package."""

    def make(**changed):
        held = ApiContract()
        held.package = package(**changed)
        held.recorded = tmp_path / "public_api.txt"
        held.recorded.write_text(TEXT.replace("PACKAGE", held.package))
        return held

    return make


def test_the_text_has_what_a_caller_needs_and_nothing_private(package):
    name = package()
    assert api_text(name) == TEXT.replace("PACKAGE", name)


def test_nothing_is_imported_for_it(package):
    name = package()
    api_text(name)
    assert not [module for module in sys.modules if module.startswith(name)]


def test_the_contract_holds(contract):
    held = contract()
    for name in dir(held):
        if name.startswith("test_"):
            getattr(held, name)()


def test_a_change_fails_with_a_diff_and_the_command(contract):
    held = contract(inner=("second: float = 0.5", "second: float = 0.25"))
    with pytest.raises(AssertionError) as failed:
        held.test_it_is_what_was_agreed_to()
    said = str(failed.value)
    assert "-def make(first: str, /, second: float = 0.5," in said
    assert "+def make(first: str, /, second: float = 0.25," in said
    assert "uv run python ci/public_api.py" in said


@pytest.mark.parametrize(
    ("changed", "test", "said"),
    [
        (("_SHOWN = 16_384", "_SHOWN = 5"), "test_it_is_what_was_agreed_to", r"\+    rows: int = 5"),
        (('        """Both."""\n', ""), "test_every_name_has_a_docstring", r"no docstring: \w+.Box.pair"),
        (('"""As many as there may be."""', ""), "test_every_name_has_a_docstring", r"no docstring: \w+.LIMIT"),
        (("            last: ", "            latest: "), "test_docstrings_name_what_is_there", r"Box.of: Args: latest"),
        (("        names: by", "        titles: by"), "test_docstrings_name_what_is_there", "Attributes: titles"),
        (("        names: by", "        side: by"), "test_every_field_and_value_is_told", r"tells of: \w+.Box.names"),
        (("        RED: like", "        red: like"), "test_every_field_and_value_is_told", r"Color.RED"),
        (("        ValueError: never", "        never"), "test_docstrings_name_what_is_there", r"make: Raises: never"),
        (("def make(", "def other("), "test_it_is_what_was_agreed_to", "make"),
    ],
)
def test_each_fault_is_named(contract, changed, test, said):
    held = contract(inner=changed)
    with pytest.raises((AssertionError, LookupError), match=said):
        getattr(held, test)()


def test_a_name_that_python_does_not_offer_fails(contract):
    held = contract(__init__=("    return __all__", '    return ["Box"]'))
    with pytest.raises(AssertionError, match="does not list Color"):
        held.test_every_name_can_be_imported()


def test_a_name_that_loads_what_is_heavy_fails(contract):
    held = contract(inner=("from abc import", "import decimal\nfrom abc import"))
    held.must_not_load = ("decimal",)
    with pytest.raises(AssertionError, match="loaded: decimal"):
        held.test_importing_all_of_it_loads_nothing_heavy()


def test_a_module_without_a_list_of_names_is_not_public(package):
    with pytest.raises(LookupError, match=r"extras has no __all__"):
        public_modules(package(extras=('__all__ = ["more"]', "")))


def test_docstrings_are_taken_apart():
    found = Docstring.parse(
        textwrap.dedent("""\
            Does it.

                code(a)

            Args:
                a: the first: with a colon,
                    and a second line.
                *rest: others.
            Returns:
                Something
                else.
            Raises:
                pa.ArrowInvalid: it is none.
            Source: a paper.""")
    )
    assert found.text == "Does it.\n\n    code(a)\n\nSource: a paper."
    assert found.items == {
        "Args": {"a": "the first: with a colon, and a second line.", "*rest": "others."},
        "Raises": {"pa.ArrowInvalid": "it is none."},
    }
    assert found.sections == {"Returns": "Something\nelse."}
