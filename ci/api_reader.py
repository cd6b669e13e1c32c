"""Reads what a package offers to others: the names of `__all__`, as griffe finds them in its source.

A name in `__all__` that is a module is public with its own `__all__`. Nothing is imported, so that the result is the
same on every Python and whatever is installed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import griffe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 115
SPECIAL_METHODS = ("__call__", "__contains__", "__enter__", "__getitem__", "__iter__", "__len__")
SHOWN_DECORATORS = ("classmethod", "contextmanager", "staticmethod")  # others change nothing for a caller

_QUOTED = re.compile(r"'([^'\"\\]*)'")


@dataclass(frozen=True)
class PublicName:
    """One name, or one member of a class.

    Attributes:
        name: as it is written behind `import`; of a member, its own name.
        kind: what it is; `value` is one of an enum, or a setting of a class.
        lines: how a stub file declares it; of a class, without its members.
        home: the module that defines it.
        doc: its docstring; of a method without one, that of the method that it overrides.
        told: of a field, what the docstring of the class, of a base or pydantic's `Field` says of it.
        members: of a class: fields, properties and methods; those of bases that are not public are among them.
    """

    name: str
    kind: Literal["class", "function", "constant", "field", "method", "property", "value"]
    lines: tuple[str, ...]
    home: str
    doc: griffe.Docstring | None = None
    told: str = ""
    members: tuple[PublicName, ...] = ()

    def stub(self) -> str:
        """Returns the text that declares it, with its members."""
        return "\n".join([*self.lines, *(f"    {line}" for member in self.members for line in member.lines)])


@dataclass(frozen=True)
class PublicModule:
    """A module that others may import from, with what it offers; modules in it are listed on their own."""

    name: str
    doc: str
    names: tuple[PublicName, ...]


def public_modules(package: str) -> list[PublicModule]:
    """Returns the package and the public modules in it.

    Raises:
        LookupError: a name of `__all__` is not defined, or a public module has no `__all__`.
    """
    loaded = griffe.load(
        package,
        allow_inspection=False,
        resolve_aliases=True,
        docstring_parser="google",
        docstring_options={"returns_multiple_items": False, "warn_missing_types": False},
    )
    offered = list(_offered(loaded))
    reader = _Reader(loaded, frozenset(each.path for _, names in offered for each in names.values()))
    return [
        PublicModule(
            module.path,
            module.docstring.value if module.docstring else "",
            tuple(reader.public_name(name, names[name]) for name in sorted(names)),
        )
        for module, names in offered
    ]


def api_text(modules: Sequence[PublicModule]) -> str:
    """Returns the public names of a package as the text that it is held to."""
    blocks = [block for module in modules for block in (f"# {module.name}", *map(PublicName.stub, module.names))]
    return "\n\n".join(blocks) + "\n"


def items(doc: griffe.Docstring | None, *kinds: str) -> dict[str, str]:
    """Returns what stands below `Args:` ("parameters"), `Attributes:` or `Raises:`, by name."""
    found = [each for section in (doc.parsed if doc else ()) if section.kind.value in kinds for each in section.value]
    return {getattr(each, "name", str(each.annotation)): " ".join(each.description.split()) for each in found}


def _offered(module: griffe.Module) -> Iterator[tuple[griffe.Module, dict[str, griffe.Object]]]:
    """Yields each public module with what it offers, itself first."""
    if module.exports is None:
        raise LookupError(f"{module.path} has no __all__")
    found: dict[str, griffe.Object] = {}
    for name in sorted({*map(str, module.exports)} - {"__version__"}):
        try:
            member = module.members[name]
            found[name] = member.final_target if isinstance(member, griffe.Alias) else member
        except (KeyError, griffe.AliasResolutionError):
            raise LookupError(f"{module.path}.__all__ names {name!r}, which is not defined") from None
    yield module, {name: each for name, each in found.items() if not isinstance(each, griffe.Module)}
    for each in found.values():
        if isinstance(each, griffe.Module):
            yield from _offered(each)


class _Reader:
    """Writes declarations as callers need them: defaults by value, and what private aliases stand for."""

    def __init__(self, package: griffe.Module, public: frozenset[str]) -> None:
        self._modules = package.modules_collection
        self._public = public

    def public_name(self, name: str, found: griffe.Object) -> PublicName:
        home = found.parent.path
        if isinstance(found, griffe.Class):
            members = tuple(self._members(found))
            bases = f"({', '.join(map(str, found.bases))})" if found.bases else ""
            decorators = [f"@{_quoted(str(each.value))}" for each in found.decorators]
            lines = (*decorators, f"class {name}{bases}:" + ("" if members else " ..."))
            return PublicName(name, "class", lines, home, found.docstring, members=members)
        if isinstance(found, griffe.Function):
            return PublicName(name, "function", self._function(found), home, found.docstring)
        value = re.sub(r"^(Annotated\[.*?), .*\]$", r"\1, ...]", self._text(found.value))  # the rest is pydantic's
        line = f"{name}{self._typed(found.annotation)} = {value}"
        return PublicName(name, "constant", (line,), home, found.docstring)

    def _members(self, found: griffe.Class) -> Iterator[PublicName]:
        """Yields the members of a class, each once; what a public base has is listed there."""
        family = [found, *found.mro()]
        told: dict[str, str] = {}
        for owner in reversed(family):
            told |= items(owner.docstring, "parameters", "attributes")
        shown: dict[str, griffe.Object] = {}
        for owner in (each for each in family if each is found or each.path not in self._public):
            own = {name: each for name, each in owner.members.items() if self._is_shown(each, owner)}
            shown |= {name: each for name, each in own.items() if name not in shown}
        for name, each in shown.items():
            home = each.parent.parent.path
            if isinstance(each, griffe.Function) or "property" in each.labels:
                docs = [owner.members[name].docstring for owner in family if name in owner.members]
                kind = "method" if isinstance(each, griffe.Function) else "property"
                yield PublicName(name, kind, self._function(each), home, next(filter(None, docs), None))
            else:
                kind = "field" if each.annotation or each.labels == {"instance-attribute"} else "value"
                line, description = self._field(each)
                yield PublicName(name, kind, (line,), home, told=description or told.get(name, ""))

    def _is_shown(self, each: griffe.Object, owner: griffe.Class) -> bool:
        """Returns whether a member is for callers; of what `__init__` sets, arguments and what is documented are."""
        init = owner.members.get("__init__")
        if each is init:  # who has no object of a private class cannot call an `__init__` that needs one
            needed = [self._find(name) for p in init.parameters if p.default is None for name in _names(p.annotation)]
            private = [p for p in needed if isinstance(p, griffe.Class) and p.path not in self._public]
            return "dataclass" not in owner.labels and not private
        if each.name.startswith(("_", "test_")) or not isinstance(each, (griffe.Function, griffe.Attribute)):
            return each.name in SPECIAL_METHODS
        if _is_set_in(init, each):
            return each.name in init.parameters or each.name in items(owner.docstring, "attributes")
        return True

    def _function(self, found: griffe.Function | griffe.Attribute) -> tuple[str, ...]:
        """Returns the lines of a function, a method or a property, which is an attribute to griffe."""
        if isinstance(found, griffe.Function):
            decorators = [f"@{each.value}" for each in found.decorators if str(each.value) in SHOWN_DECORATORS]
            shown = list(self._parameters(found.parameters))
        else:
            decorators, shown = ["@property"], ["self"]
        returns = f" -> {self._text(found.annotation)}" if found.annotation else ""
        line = f"def {found.name}({', '.join(shown)}){returns}: ..."
        if len(line) <= WIDTH:
            return (*decorators, line)
        return (*decorators, f"def {found.name}(", *(f"    {each}," for each in shown), f"){returns}: ...")

    def _parameters(self, parameters: griffe.Parameters) -> Iterator[str]:
        kind = griffe.ParameterKind
        before: griffe.ParameterKind | None = None
        for each in parameters:
            if before is kind.positional_only and each.kind is not before:
                yield "/"
            if each.kind is kind.keyword_only and before not in {kind.keyword_only, kind.var_positional}:
                yield "*"
            before = each.kind
            stars = {kind.var_positional: "*", kind.var_keyword: "**"}.get(each.kind, "")
            typed = f"{stars}{each.name}{self._typed(each.annotation)}"
            yield typed if stars or each.default is None else f"{typed} = {self._text(each.default)}"
        if before is kind.positional_only:
            yield "/"

    def _field(self, each: griffe.Attribute) -> tuple[str, str]:
        """Returns the line of a field, and its description if it is made by pydantic's `Field()`."""
        value, annotation = each.value, each.annotation
        init = each.parent.members.get("__init__")
        if _is_set_in(init, each):
            known = init.parameters[each.name].annotation if each.name in init.parameters else None
            return f"{each.name}{self._typed(annotation or known)}", ""
        description = ""
        if isinstance(value, griffe.ExprCall) and str(value.function) in {"field", "Field"}:
            given = {getattr(each, "name", "default"): getattr(each, "value", each) for each in value.arguments}
            description = ast.literal_eval(str(given.get("description", "''")))
            value = _made(given["default_factory"]) if "default_factory" in given else given.get("default")
        typed = self._typed(annotation)
        if typed and "instance-attribute" not in each.labels:
            typed = f": ClassVar[{typed[2:]}]"  # griffe keeps it as a label
        default = f" = {self._text(value)}" if value is not None else ""
        return f"{each.name}{typed}{default}", description

    def _typed(self, annotation: str | griffe.Expr | None) -> str:
        return f": {self._text(annotation)}" if annotation is not None else ""

    def _text(self, expression: str | griffe.Expr) -> str:
        """Returns source text, with what private aliases and constants of the package stand for."""
        if isinstance(expression, str):
            return f"{int(expression):_}" if expression.isdecimal() else _quoted(expression)
        return _quoted("".join(self._meaning(each) for each in expression.iterate(flat=True)))

    def _meaning(self, part: str | griffe.Expr) -> str:
        is_alone = isinstance(part, griffe.ExprName) and not isinstance(part.parent, griffe.Expr)  # b in a.b is not
        found = self._find(part) if is_alone else None
        if not isinstance(found, griffe.Attribute) or not isinstance(found.parent, griffe.Module):
            return str(part)
        is_type_variable = isinstance(found.value, griffe.ExprCall)
        return str(part) if found.path in self._public or is_type_variable else self._text(found.value)

    def _find(self, name: griffe.ExprName) -> griffe.Object | None:
        """Returns what a name of the package stands for, or None."""
        try:
            found = self._modules[name.canonical_path]
            return found.final_target if isinstance(found, griffe.Alias) else found
        except (KeyError, griffe.AliasResolutionError, griffe.NameResolutionError):
            return None


def _names(expression: str | griffe.Expr | None) -> list[griffe.ExprName]:
    parts = expression.iterate(flat=True) if isinstance(expression, griffe.Expr) else ()
    return [part for part in parts if isinstance(part, griffe.ExprName)]


def _is_set_in(init: griffe.Function | None, each: griffe.Object) -> bool:
    return init is not None and bool(init.lineno) and init.lineno <= each.lineno <= init.endlineno


def _made(factory: str | griffe.Expr) -> str | griffe.Expr:
    """Returns the default that a factory makes."""
    if isinstance(factory, griffe.ExprLambda):
        return factory.body
    return {"dict": "{}", "list": "[]"}.get(str(factory).partition("[")[0], f"{factory}()")


def _quoted(text: str) -> str:
    """Returns source text with double quotes where that needs no escapes."""
    return _QUOTED.sub(r'"\1"', text)
