"""Declarations as callers need them: signatures without bodies, defaults by value, private aliases resolved."""

from __future__ import annotations

import ast
import re
from copy import deepcopy
from dataclasses import dataclass

from sidecar_core.testing.source_names import Definition, find

_WIDTH = 110
_SHOWN_DECORATORS = ("classmethod", "contextmanager", "staticmethod")  # others change nothing for a caller
_QUOTED = re.compile(r"'([^'\"\\]*)'")
_LITERALS = (ast.Constant, ast.Tuple, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.expr_context)


@dataclass(frozen=True)
class Scope:
    """A module, and which definitions are public: that decides how types and defaults are written.

    Attributes:
        module: the module in which the declaration stands.
        public: module and name of every public definition.
    """

    module: str
    public: frozenset[tuple[str, str]]

    def function(self, node: ast.FunctionDef) -> tuple[str, ...]:
        """Returns the lines that declare a function or method."""
        decorators = [f"@{name}" for name in map(unparsed, node.decorator_list) if name in _SHOWN_DECORATORS]
        parameters = self._parameters(node.args)
        returns = f" -> {self.annotation(node.returns)}" if node.returns is not None else ""
        line = f"def {node.name}({', '.join(parameters)}){returns}"
        if len(line) <= _WIDTH:
            return (*decorators, line)
        return (*decorators, f"def {node.name}(", *(f"    {each}," for each in parameters), f"){returns}")

    def klass(self, node: ast.ClassDef) -> tuple[str, ...]:
        """Returns the lines that declare a class: decorators, name and bases."""
        bases = ", ".join(unparsed(base) for base in node.bases)
        decorators = [f"@{unparsed(each)}" for each in node.decorator_list]
        return (*decorators, f"class {node.name}({bases})" if bases else f"class {node.name}")

    def field(self, name: str, node: ast.AnnAssign) -> str:
        """Returns the line of a field of a class; of `field()` and pydantic's `Field()`, the default that they make."""
        default = self._field_default(node.value)
        return f"{name}: {self.annotation(node.annotation)}" + (f" = {default}" if default is not None else "")

    def constant(self, name: str, found: Definition) -> str:
        """Returns the line of a constant or a type alias; what pydantic does with an annotated type is not shown."""
        value, annotation = found.value, found.node.annotation if isinstance(found.node, ast.AnnAssign) else None
        match value:
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[plain, *_])):
                return f"{name} = Annotated[{unparsed(plain)}, ...]"
            case _ if annotation is not None and unparsed(annotation) == "TypeAlias":
                return f"{name} = {self.annotation(value)}"
            case _:
                typed = f"{name}: {self.annotation(annotation)}" if annotation is not None else name
                return f"{typed} = {unparsed(value)}" if value is not None else typed

    def annotation(self, node: ast.expr | None) -> str:
        """Returns a type as it reads: without quotes, and what a private alias of the package stands for."""
        if node is None:
            return "None"
        return unparsed(_Aliases(self).visit(deepcopy(node)))

    def alias(self, name: str) -> ast.expr | None:
        """Returns what a private type alias stands for, or None when the name is none."""
        found = find(self.module, name)
        if found is None or found.value is None or (found.module, found.name) in self.public:
            return None
        is_type_variable = isinstance(found.value, ast.Call)
        return None if is_type_variable else found.value

    def _parameters(self, args: ast.arguments) -> list[str]:
        positional = [*args.posonlyargs, *args.args]
        defaults = [*[None] * (len(positional) - len(args.defaults)), *args.defaults]
        shown = [self._parameter(each, default) for each, default in zip(positional, defaults, strict=True)]
        if args.posonlyargs:
            shown.insert(len(args.posonlyargs), "/")
        if args.vararg is not None:
            shown.append(f"*{self._parameter(args.vararg, None)}")
        elif args.kwonlyargs:
            shown.append("*")
        shown += [
            self._parameter(each, default) for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]
        if args.kwarg is not None:
            shown.append(f"**{self._parameter(args.kwarg, None)}")
        return shown

    def _parameter(self, each: ast.arg, default: ast.expr | None) -> str:
        typed = f"{each.arg}: {self.annotation(each.annotation)}" if each.annotation is not None else each.arg
        if default is None:
            return typed
        return f"{typed}{' = ' if each.annotation is not None else '='}{self._default(default)}"

    def _field_default(self, value: ast.expr | None) -> str | None:
        if not (isinstance(value, ast.Call) and unparsed(value.func) in {"field", "Field"}):
            return self._default(value)
        given = {each.arg: each.value for each in value.keywords}
        if "default_factory" not in given:
            return self._default(value.args[0] if value.args else given.get("default"))
        factory = given["default_factory"]
        if isinstance(factory, ast.Lambda):
            return unparsed(factory.body)
        made = unparsed(factory)
        return {"dict": "{}", "list": "[]"}.get(made.partition("[")[0], f"{made}()")

    def _default(self, value: ast.expr | None) -> str | None:
        """Returns a default; a constant's by its value, which is what callers get."""
        if isinstance(value, ast.Name):
            constant = find(self.module, value.id)
            if constant is not None and constant.value is not None and _is_literal(constant.value):
                value = constant.value
        match value:
            case None:
                return None
            case ast.Constant(value=int(number)) if type(number) is int:
                return f"{number:_}"
            case _:
                return unparsed(value)


def unparsed(node: ast.AST) -> str:
    """Returns source text, with double quotes where that needs no escapes."""
    return _QUOTED.sub(r'"\1"', ast.unparse(node))


class _Aliases(ast.NodeTransformer):
    """Puts what private aliases stand for in their place, and takes types out of quotes."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Resolves an alias."""
        value = self._scope.alias(node.id)
        return node if value is None else self.visit(deepcopy(value))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Reads a type in quotes; the values of a Literal are not visited."""
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Leaves a Literal as it is."""
        if unparsed(node.value) == "Literal":
            return node
        self.generic_visit(node)
        return node


def _is_literal(node: ast.expr) -> bool:
    return all(isinstance(each, _LITERALS) for each in ast.walk(node))
