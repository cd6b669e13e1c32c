"""What a package offers to others: the names of its `__all__`, with their kinds, signatures, fields and docstrings.

A name in `__all__` that is a module is public with its own `__all__`. All of it is read from the source, so that the
text is the same on every Python and whatever is installed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sidecar_core.testing.declarations import Scope, unparsed
from sidecar_core.testing.docstrings import Docstring
from sidecar_core.testing.source_names import Definition, exported, find, module_doc

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["class", "function", "constant", "field", "method", "property", "value"]

_SPECIAL_METHODS = ("__call__", "__contains__", "__enter__", "__getitem__", "__iter__", "__len__")


@dataclass(frozen=True)
class PublicName:
    """One name, or one member of a class.

    Attributes:
        name: as it is written behind `import`; of a member, its own name.
        kind: what it is; `value` is one of an enum, or a setting of a class.
        lines: how Python declares it, without its body.
        doc: its docstring; of a method without one, that of the method that it overrides; of a field, what the
            docstring of the class or pydantic's `Field` says of it.
        home: the module that defines it.
        parameters: names of the parameters of a function or method.
        members: of a class: fields, properties and methods, in the order of the source; inherited ones of classes
            that are not public themselves are among them.
    """

    name: str
    kind: Kind
    lines: tuple[str, ...]
    doc: str | None
    home: str
    parameters: tuple[str, ...] = ()
    members: tuple[PublicName, ...] = ()


@dataclass(frozen=True)
class PublicModule:
    """A module that others may import from.

    Attributes:
        name: its full name.
        doc: its docstring.
        names: what it offers, sorted; modules that it offers are listed on their own.
    """

    name: str
    doc: str
    names: tuple[PublicName, ...]


def public_modules(package: str) -> list[PublicModule]:
    """Returns the package and the public modules in it.

    Raises:
        LookupError: a name of `__all__` is not defined, or a public module has no `__all__`.
    """
    found = dict(_definitions(package))
    public = frozenset((each.module, each.name) for names in found.values() for each in names.values())
    return [
        PublicModule(
            module, module_doc(module), tuple(_public_name(name, names[name], public) for name in sorted(names))
        )
        for module, names in found.items()
    ]


def api_text(package: str) -> str:
    """Returns the public names of a package as the text that its tests are held to."""
    lines: list[str] = []
    for module in public_modules(package):
        lines += [f"# {module.name}", ""]
        for each in module.names:
            lines += each.lines
            for member in each.members:
                lines += [f"    {line}" for line in member.lines]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _definitions(module: str) -> Iterator[tuple[str, dict[str, Definition]]]:
    """Yields each public module with what it offers, itself first."""
    names: dict[str, Definition] = {}
    modules: list[str] = []
    for name in exported(module):
        if name == "__version__":
            continue
        found = find(module, name)
        if found is None:
            raise LookupError(f"{module}.__all__ names {name!r}, which is not defined")
        if isinstance(found.node, ast.Module):
            modules.append(found.module)
        else:
            names[name] = found
    yield module, names
    for each in modules:
        yield from _definitions(each)


def _public_name(name: str, found: Definition, public: frozenset[tuple[str, str]]) -> PublicName:
    node, scope = found.node, Scope(found.module, public)
    if isinstance(node, ast.ClassDef):
        members = tuple(_members(found, public))
        return PublicName(name, "class", scope.klass(node), found.doc, found.module, members=members)
    if isinstance(node, ast.FunctionDef):
        return PublicName(name, "function", scope.function(node), found.doc, found.module, _parameters(node))
    return PublicName(name, "constant", (scope.constant(name, found),), found.doc, found.module)


def _members(found: Definition, public: frozenset[tuple[str, str]]) -> Iterator[PublicName]:
    """Yields the members of a class, each once; what a public base has is listed there."""
    seen: set[str] = set()
    for owner in _with_hidden_bases(found, public):
        for member in _own_members(owner, Scope(owner.module, public)):
            if member.name not in seen and not member.name.startswith("test_"):
                seen.add(member.name)
                yield member


def _with_hidden_bases(found: Definition, public: frozenset[tuple[str, str]]) -> Iterator[Definition]:
    yield found
    for base in _bases(found):
        if (base.module, base.name) not in public:
            yield from _with_hidden_bases(base, public)


def _own_members(owner: Definition, scope: Scope) -> Iterator[PublicName]:
    if not isinstance(owner.node, ast.ClassDef):
        return
    home, told = owner.module, _told(owner)
    for node in owner.node.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield PublicName(name, "field", (scope.field(name, node),), _description(node) or told.get(name), home)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                yield PublicName(name, "value", (f"{name} = {unparsed(value)}",), told.get(name), home)
            case ast.FunctionDef(name="__init__"):
                if not _takes_private(node, scope):
                    yield PublicName("__init__", "method", scope.function(node), None, home, _parameters(node))
                yield from _attributes(node, owner, scope)
            case ast.FunctionDef(name=name) if not name.startswith("_") or name in _SPECIAL_METHODS:
                doc = _doc_of_method(owner, name)
                if "property" in map(unparsed, node.decorator_list):
                    line = f"@property {name}: {scope.annotation(node.returns)}"
                    yield PublicName(name, "property", (line,), doc, home)
                else:
                    yield PublicName(name, "method", scope.function(node), doc, home, _parameters(node))
            case _:
                pass


def _parameters(node: ast.FunctionDef) -> tuple[str, ...]:
    """Returns the names of a function's parameters."""
    args = node.args
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs, *(each for each in (args.vararg, args.kwarg) if each)]
    return tuple(each.arg for each in named)


def _told(owner: Definition) -> dict[str, str]:
    """Returns what docstrings say of a class's fields: its own, and those of the classes that it derives from."""
    told: dict[str, str] = {}
    for base in _bases(owner):
        told |= _told(base)
    items = Docstring.parse(owner.doc or "").items
    return told | items.get("Args", {}) | items.get("Attributes", {})


def _description(node: ast.AnnAssign) -> str | None:
    """Returns the description in pydantic's `Field(…)`."""
    given = node.value.keywords if isinstance(node.value, ast.Call) else []
    texts = (each.value.value for each in given if each.arg == "description" and isinstance(each.value, ast.Constant))
    return next((text for text in texts if isinstance(text, str)), None)


def _bases(owner: Definition) -> list[Definition]:
    """Returns the classes of the same package that a class derives from."""
    bases = owner.node.bases if isinstance(owner.node, ast.ClassDef) else []
    found = [find(owner.module, base.id) for base in bases if isinstance(base, ast.Name)]
    return [base for base in found if base is not None]


def _doc_of_method(owner: Definition, name: str) -> str | None:
    """Returns the docstring of a method, or of the one that it overrides."""
    if not isinstance(owner.node, ast.ClassDef):
        return None
    for node in owner.node.body:
        if isinstance(node, ast.FunctionDef) and node.name == name and ast.get_docstring(node):
            return ast.get_docstring(node)
    return next((doc for base in _bases(owner) if (doc := _doc_of_method(base, name))), None)


def _takes_private(init: ast.FunctionDef, scope: Scope) -> bool:
    """Returns whether an `__init__` needs an object of a class that is not public, so that others cannot call it."""
    needed = init.args.args[: len(init.args.args) - len(init.args.defaults)]
    types = [node for each in needed if each.annotation for node in ast.walk(each.annotation)]
    found = [find(scope.module, node.id) for node in types if isinstance(node, ast.Name)]
    return any(
        isinstance(each.node, ast.ClassDef) and (each.module, each.name) not in scope.public for each in found if each
    )


def _attributes(init: ast.FunctionDef, owner: Definition, scope: Scope) -> Iterator[PublicName]:
    """Yields the attributes that `__init__` sets and that are public: arguments, and those under `Attributes:`."""
    types: dict[str, ast.expr | None] = {each.arg: each.annotation for each in [*init.args.args, *init.args.kwonlyargs]}
    documented = Docstring.parse(owner.doc or "").items.get("Attributes", {})
    told = _told(owner)
    found: dict[str, str] = {}
    for node in ast.walk(init):
        match node:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                found[name] = f": {scope.annotation(annotation)}"
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                known = types.get(value.id) if isinstance(value, ast.Name) else None
                found[name] = f": {scope.annotation(known)}" if known is not None else ""
            case _:
                pass
    for name in [*(each for each in found if each in types and each not in documented), *documented]:
        yield PublicName(name, "field", (f"self.{name}{found.get(name, '')}",), told.get(name), owner.module)
