"""Writes the parts of docs/reference/ that the code decides, between marks, so that they never go stale.

    python ci/reference.py            writes them
    python ci/reference.py --check    writes nothing; exit status 1 where a page differs from the code

A page has a line `<!-- generated: NAME -->`, what was generated, and a line `<!-- end of NAME -->`; what is outside of
them is written by hand. Every part that this script knows must be in some page, and every mark must be known.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import os
import re
import sys
import textwrap
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic import BaseModel

Made: TypeAlias = Any  # what typer, pydantic and Arrow hand over

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
MARKED = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- end of \2 -->\n)", re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    os.environ.pop("SIDECAR_PROGRAM", None)
    check = list(arguments) == ["--check"]
    if arguments and not check:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    stale, seen = [], []
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        marks = [name for _, name, _, _ in MARKED.findall(text)]
        loose = len(re.findall("<!-- (?:generated|end of)", text)) - 2 * len(marks)
        if loose or set(marks) - set(PARTS):
            sys.stderr.write(f"{page.relative_to(ROOT)}: marks that are not a pair, or not one of {', '.join(PARTS)}\n")
            return 1
        seen += marks
        made = MARKED.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[4]}", text)
        if made != text:
            stale.append(page)
            if check:
                name = str(page.relative_to(ROOT))
                sys.stderr.writelines(difflib.unified_diff(text.splitlines(True), made.splitlines(True), name, "now"))
            else:
                page.write_text(made, encoding="utf-8")
    if sorted(seen) != sorted(PARTS):
        sys.stderr.write(f"not once in docs/reference/: {', '.join(sorted({*seen} ^ {*PARTS})) or 'a part'}\n")
        return 1
    if check and stale:
        sys.stderr.write("fix: python ci/reference.py\n")
    return 1 if check and stale else 0


# --- YAML ---


def dataset_fields() -> str:
    from sidecar_core.dataset import DatasetSpec

    return _model(DatasetSpec)


def schema_fields() -> str:
    from sidecar_core.types import SchemaSpec

    return _model(SchemaSpec)


def pipeline_fields() -> str:
    from sidecar_core.pipeline import PipelineSpec

    return _model(PipelineSpec)


def primitive_types() -> str:
    from sidecar_core.types import PRIMITIVES

    return ", ".join(f"`{name}`" for name in PRIMITIVES)


def operations() -> str:
    from sidecar_cli.op_words import describe_op
    from sidecar_core.registry import installed_ops, op_class

    parts = []
    for name in sorted(installed_ops()):
        op = describe_op(name, op_class(name))
        parts += [f"### {name}", f"In {op['package']}; version {op['version']}.", _fenced(op["doc"])]
        parts.append(_model(op_class(name).Params) if op["parameters"] else "It has no parameters.")
    return "\n\n".join(parts)


def _model(model: type[BaseModel]) -> str:
    """Returns the table of a model's fields, and one of each model inside it."""
    from sidecar_cli.parameter_words import describe_nested, describe_parameters

    nested = {f"{{{', '.join(each['name'] for each in fields)}}}": fields for fields in describe_nested(model).values()}
    parts = [_fields(describe_parameters(model))]
    while nested:  # in the order in which they are mentioned
        keys = min(nested, key=lambda keys: next((n for n, text in enumerate(parts) if keys in text), len(parts)))
        parts += [f"`{keys}`:", _fields(nested.pop(keys))]
    return "\n\n".join(parts)


def _fields(fields: Iterable[dict[str, Any]]) -> str:
    from sidecar_cli.parameter_words import yaml_words

    rows = [
        (
            f"`{field['name']}`",
            field["type"],
            "required" if field["required"] else _default(yaml_words(field["default"])),
            field["doc"],
        )
        for field in fields
    ]
    return _table(("field", "type", "default", "what it is"), rows)


def _default(text: str) -> str:
    if text.startswith("{"):
        return "all none" if "null" in text else "none"
    return "empty" if text == "[]" else text if text in {"none", '""'} else f"`{text}`"


def _fenced(doc: str) -> str:
    """Returns a docstring with its indented YAML as a fenced block, as its other examples are."""
    if "```" in doc:
        return doc
    return re.sub(
        r"\n\n((?:    .*\n|\n)+?)(?=\n\S|\Z)",
        lambda found: f"\n\n```yaml\n{textwrap.dedent(found[1]).rstrip()}\n```\n",
        f"{doc}\n",
        count=1,
    ).strip()


# --- columns ---


def filter_columns() -> str:
    from sidecar_core.types import StructTypes
    from sidecar_filters.api import filter_names
    from sidecar_filters.compute_filters import column_name
    from sidecar_filters.registry import find_filter

    types = StructTypes.installed()
    parts = []
    for name in filter_names():
        each = find_filter(name)
        parts += [f"### {column_name(each)}", f"`{each.struct}`. {types.doc(each.struct)}", _struct(types, each.struct)]
    return "\n\n".join(parts)


def filter_status() -> str:
    from sidecar_core.types import StructTypes
    from sidecar_filters.status import STATUS_STRUCT

    types = StructTypes.installed()
    return f"{_struct(types, STATUS_STRUCT)}\n\nEach of `failed`:\n\n{_struct(types, 'filter_failure_v1')}"


def audit_columns() -> str:
    from sidecar_cli.parameter_words import documented
    from sidecar_resize.audit import Audit
    from sidecar_resize.audit_columns import audit_fields

    words = {name: text.replace("None", "null") for name, text in documented(Audit).items()}
    rows = [
        (f"`{field.name}`", _type(field.type), words[field.name.removeprefix("_")])
        for field in (each.with_name(each.name.removeprefix("x")) for each in audit_fields("x"))
    ]
    return _table(("column", "type", "what it says"), rows)


def box_columns() -> str:
    from sidecar_cli.parameter_words import documented
    from sidecar_resize.box_geometry import BoxCounts, TargetFrame
    from sidecar_resize.crop_meta import ResizedRow, meta_type

    words = {
        **{name: text.replace("None", "null") for name, text in documented(ResizedRow).items()},
        "status": "what kept the row from having all its boxes, or `ok`: [reasons](reasons.md#bbox_resize_metastatus)",
    }
    target = {**documented(TargetFrame), **documented(BoxCounts)}
    rows = []
    for field in meta_type([512]):
        if field.name in words:
            rows.append((f"`{field.name}`", _type(field.type), words[field.name]))
            continue
        rows += [(f"`{field.name}.{leaf.name}`", _type(leaf.type), target[leaf.name]) for leaf in field.type]
    return _table(("field", "type", "what it says"), rows)


def _type(dtype: Made) -> str:
    """Returns an Arrow type as YAML calls it."""
    from sidecar_core.types import PRIMITIVES

    return next(name for name, each in PRIMITIVES.items() if each == dtype)


def _struct(types: Made, name: str) -> str:
    from sidecar_cli.struct_words import describe_struct

    rows = [(f"`{field['name']}`", field["type"], field["doc"]) for field in describe_struct(name, types)["fields"]]
    return _table(("field", "type", "what it says"), rows)


# --- reasons, errors, exit codes ---


def reasons() -> str:
    from sidecar_core.reasons import Reason

    return _enum(Reason, "reason")


def box_statuses() -> str:
    from sidecar_resize.box_geometry import BoxProblem
    from sidecar_resize.crop_meta import DescriptionState

    return _enum([*DescriptionState, *BoxProblem], "status")


def shard_states() -> str:
    from sidecar_runtimes.resume import ShardState

    return _enum(ShardState, "state")


def exit_codes() -> str:
    from sidecar_runtimes.exit_codes import ExitCode

    return _enum(ExitCode, "exit code")


def errors() -> str:
    import sidecar_core.errors
    from sidecar_runtimes.exit_codes import exit_code_of

    rows = []
    for name, error in inspect.getmembers(sidecar_core.errors, inspect.isclass):
        if error.__module__ != sidecar_core.errors.__name__:
            continue
        made = error([]) if name == "ConfigError" else error("")
        caught = [base.__name__ for base in error.__mro__[1:] if getattr(builtins, base.__name__, None) is base]
        besides = ", ".join(f"`{base}`" for base in caught if base not in {"Exception", "BaseException", "object"})
        summary = inspect.cleandoc(error.__doc__ or "").partition("\n")[0]
        rows.append((f"`{name}`", besides or "", str(int(exit_code_of(made))), summary))
    return _table(("error", "is also", "exit code", "what it says"), rows)


def _enum(members: Iterable[Any], headline: str) -> str:
    from sidecar_cli.parameter_words import documented

    rows = []
    for member in members:
        value = str(int(member)) if isinstance(member, int) else member.value
        rows.append((f"`{value}`", documented(type(member))[member.name]))
    return _table((headline, "what it says"), rows)


# --- commands ---


def commands() -> str:
    import typer
    from sidecar_cli.command_table import COMMANDS
    from sidecar_cli.main import build_app

    program: Made = typer.main.get_command(build_app())
    parts = []
    for panel in dict.fromkeys(command.panel for command in COMMANDS):
        parts.append(f"## {panel}")
        for command in (each for each in COMMANDS if each.panel == panel):
            parts += _command(command, program.commands[command.name])
    return "\n\n".join(parts)


def _command(command: Made, made: Made) -> Iterator[str]:
    arguments = [param for param in made.params if param.opts[0][:1] != "-"]
    options = [param for param in made.params if param.opts[0][:1] == "-"]
    words = [f"{param.metavar}{'…' if param.nargs == -1 else ''}" for param in arguments]
    words = [word if param.required else f"[{word}]" for word, param in zip(words, arguments, strict=True)]
    yield f"### sidecar {command.name}"
    yield " ".join(["`sidecar", command.name, *words]) + " [options]`"
    yield inspect.cleandoc(made.help)
    yield "```text\n" + "\n".join(command.examples) + "\n```"
    rows = [(f"`{param.metavar}`", "", param.help) for param in arguments]
    groups = dict.fromkeys(param.rich_help_panel or "" for param in options)
    rows += [_option(param) for group in groups for param in options if (param.rich_help_panel or "") == group]
    yield _table(("argument or option", "default", "what it does"), rows)


def _option(param: Made) -> tuple[str, str, str]:
    annotation = param.type_descriptor.annotation
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    if not param.is_flag:
        names += f" {param.metavar or _value_words(annotation)}"
    default = param.default.value if isinstance(param.default, Enum) else param.default
    shown = param.show_default and default is not None and default is not False and not param.multiple
    may_repeat = " May be repeated." if param.multiple and "repeated" not in param.help else ""
    return names, f"`{default}`" if shown else "", f"{param.help}{may_repeat}"


def _value_words(annotation: Made) -> str:
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return "\\|".join(str(member.value) for member in annotation)
    return {int: "N", float: "NUMBER", Path: "PATH"}.get(annotation, "TEXT")


def _table(headlines: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(_cell, cells)) + " |"

    return "\n".join([line(headlines), "|" + "---|" * len(headlines), *map(line, rows)])


def _cell(text: str) -> str:
    """Returns text as a cell shows it: on one line, `|` and, outside of code, `<` not taken for markup."""
    words = " ".join(text.split()).removesuffix(".")
    words = "`".join(part if n % 2 else part.replace("<", "&lt;") for n, part in enumerate(words.split("`")))
    return re.sub(r"(?<!\\)\|", r"\\|", words)


PARTS: dict[str, Callable[[], str]] = {
    "dataset": dataset_fields,
    "schema": schema_fields,
    "pipeline": pipeline_fields,
    "primitives": primitive_types,
    "operations": operations,
    "filter-columns": filter_columns,
    "filter-status": filter_status,
    "audit-columns": audit_columns,
    "box-columns": box_columns,
    "reasons": reasons,
    "box-statuses": box_statuses,
    "shard-states": shard_states,
    "exit-codes": exit_codes,
    "errors": errors,
    "commands": commands,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
