"""`sidecar filters`: the image measures that are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from sidecar_core.errors import UsageError
from sidecar_runtimes.options import COMMON_OPTIONS

from sidecar_cli.completion import complete_filter
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, Facts, Table, open_output

if TYPE_CHECKING:
    from sidecar_core.types import StructTypes


@takes(COMMON_OPTIONS)
def filters(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A filter, to see its measures.", show_default=False, autocompletion=complete_filter
        ),
    ] = None,
    **options: OptionValue,
) -> None:
    """List the installed filters, or show one with its measures."""
    from sidecar_core.problems import did_you_mean
    from sidecar_core.types import StructTypes
    from sidecar_filters.registry import filter_names

    types = StructTypes.installed()
    names = list(filter_names())
    if name is not None and name not in names:
        raise UsageError(f"unknown filter {name!r}{did_you_mean(name, names)}", ", ".join(names))
    described = [describe_filter(each, types) for each in names if name in (None, each)]
    view: list[Block] = [
        Table(
            ("filter", "what it measures", "fields"),
            [(each["name"], each["doc"], ", ".join(field["name"] for field in each["fields"])) for each in described],
        )
    ]
    if name is not None:
        view = [
            Facts([("filter", name), ("column", f"filter_{name}"), ("struct", described[0]["struct"])]),
            described[0]["doc"],
            Table(
                ("field", "type", "what it is"),
                [(field["name"], field["type"], field["doc"]) for field in described[0]["fields"]],
            ),
        ]
    open_output(json=options["json"]).show(described[0] if name is not None else {"filters": described}, view)


def describe_filter(name: str, types: StructTypes) -> dict[str, Any]:
    """Returns a filter's column and struct type with its fields, as JSON values."""
    from sidecar_filters.registry import find_filter

    from sidecar_cli.struct_words import describe_struct

    description = describe_struct(find_filter(name).struct, types)
    return {
        "name": name,
        "column": f"filter_{name}",
        "struct": description["name"],
        "doc": description["doc"],
        "fields": description["fields"],
    }
