"""Names of installed packages as their source says them, without importing a module: the same on every Python."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Definition:
    """Where a name is defined.

    Attributes:
        module: the module that defines it.
        name: its name there.
        node: the class, function or assignment; a whole module for the name of one.
        doc: its docstring, or the text below the assignment.
    """

    module: str
    name: str
    node: ast.ClassDef | ast.FunctionDef | ast.AnnAssign | ast.Assign | ast.Module
    doc: str | None

    @property
    def value(self) -> ast.expr | None:
        """What is assigned."""
        return self.node.value if isinstance(self.node, (ast.Assign, ast.AnnAssign)) else None


def source_file(module: str) -> Path | None:
    """Returns the file of a module of an installed package; imports nothing but the outermost package's finder."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    for location in spec.submodule_search_locations:
        base = Path(location).joinpath(*rest)
        for file in (base / "__init__.py", base.with_suffix(".py")):
            if file.is_file():
                return file
    return None


@cache
def parsed(module: str) -> ast.Module | None:
    """Returns the source of a module, or None when there is no such module."""
    file = source_file(module)
    return ast.parse(file.read_text(encoding="utf-8"), str(file)) if file is not None else None


def module_doc(module: str) -> str:
    """Returns the docstring of a module, empty when it has none."""
    found = parsed(module)
    return (ast.get_docstring(found) if found is not None else None) or ""


def exported(module: str) -> list[str]:
    """Returns `__all__` of a module.

    Raises:
        LookupError: it has none.
    """
    for node in _statements(_body(module)):
        if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
            return [str(name) for name in ast.literal_eval(node.value)]
    raise LookupError(f"{module} has no __all__")


def find(module: str, name: str) -> Definition | None:
    """Returns the definition of a name in a module, through imports from the same package; None outside of it."""
    package = module.partition(".")[0]
    statements = list(_statements(_body(module)))
    for position, node in enumerate(statements):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return Definition(module, name, node, ast.get_docstring(node))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in _targets(node):
            return Definition(module, name, node, _text_below(statements[position + 1 :]))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == package:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _imported(node.module, alias.name)
    return None


def _imported(module: str, name: str) -> Definition | None:
    whole = parsed(f"{module}.{name}")
    if whole is not None:
        return Definition(f"{module}.{name}", name, whole, ast.get_docstring(whole))
    return find(module, name)


def _body(module: str) -> list[ast.stmt]:
    found = parsed(module)
    if found is None:
        raise LookupError(f"there is no module {module}")
    return found.body


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields what a module says at its top level, also under `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])
        else:
            yield node


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text_below(following: list[ast.stmt]) -> str | None:
    """Returns the string that stands right below an assignment, as editors show it."""
    match following[:1]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return text.strip()
        case _:
            return None
