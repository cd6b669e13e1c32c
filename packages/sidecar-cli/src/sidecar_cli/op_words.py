"""Operations in JSON values and in words."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any

from sidecar_cli.output import Block, Facts, Table
from sidecar_cli.parameter_words import describe_parameters, yaml_words

if TYPE_CHECKING:
    from sidecar_core.op import BaseOp


def describe_op(name: str, op: type[BaseOp]) -> dict[str, Any]:
    """Returns an op's name, doc, package and parameters as JSON values."""
    doc = inspect.cleandoc(op.__doc__ or "")
    return {
        "name": name,
        "summary": doc.partition("\n")[0],
        "doc": doc,
        "package": op.__module__.partition(".")[0].replace("_", "-"),
        "version": op.version,
        "parameters": describe_parameters(op.Params),
    }


def op_view(description: dict[str, Any]) -> list[Block]:
    """Returns an op's description for people."""
    parameters = [
        (each["name"], each["type"], "required" if each["required"] else yaml_words(each["default"]), each["doc"])
        for each in description["parameters"]
    ]
    view: list[Block] = [
        Facts([("op", description["name"]), ("package", description["package"]), ("version", description["version"])]),
        _without_fences(description["doc"]),
    ]
    if parameters:
        view.append(Table(("parameter", "type", "default", "what it is"), parameters))
    else:
        view.append("It has no parameters.")
    return view


def _without_fences(doc: str) -> str:
    """Returns a docstring with its fenced examples indented instead, as a terminal shows them best."""
    return re.sub(
        r"^```\w*\n(.*?)^```$",
        lambda found: textwrap.indent(found[1], "    ").rstrip(),
        doc,
        flags=re.DOTALL | re.MULTILINE,
    )
