"""`sidecar schema`: struct types, and the JSON Schema of each kind of YAML file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from sidecar_runtimes.options import COMMON_OPTIONS

from sidecar_cli.completion import complete_struct_type
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, Facts, JsonOutput, Table, open_output


class FileKind(StrEnum):
    """The kinds of YAML files."""

    DATASET = "dataset"
    PIPELINE = "pipeline"
    SCHEMA = "schema"


@takes(COMMON_OPTIONS)
def schema(
    type_name: Annotated[
        str | None,
        typer.Argument(
            metavar="TYPE",
            help="A struct type, to see its fields.",
            show_default=False,
            autocompletion=complete_struct_type,
        ),
    ] = None,
    *,
    json_schema: Annotated[
        FileKind | None,
        typer.Option(help="Print the JSON Schema of this kind of YAML file instead.", show_default=False),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Also read this YAML file of struct types; may be repeated.",
            show_default=False,
        ),
    ] = None,
    **options: OptionValue,
) -> None:
    """Show struct types, or the JSON Schema of YAML files."""
    from sidecar_core.errors import UsageError
    from sidecar_core.types import StructTypes

    from sidecar_cli.struct_words import describe_struct

    if json_schema is not None:
        from sidecar_core.schema_export import json_schema as json_schema_of

        if type_name is not None:
            raise UsageError(f"{type_name!r} and --json-schema exclude each other", "one of them")
        JsonOutput().show(json_schema_of(json_schema.value), [])
        return
    types = StructTypes.installed()
    if files:
        types = StructTypes.load(files, known=types)
    output = open_output(json=options["json"])
    if type_name is None:
        described = [describe_struct(name, types) for name in types.names()]
        rows = [(each["name"], each["doc"], ", ".join(field["name"] for field in each["fields"])) for each in described]
        output.show({"types": described}, [Table(("type", "what it is", "fields"), rows)])
        return
    description = describe_struct(type_name, types)
    view: list[Block] = [
        Facts([("type", type_name), ("defined in", description["where"])]),
        description["doc"],
        Table(
            ("field", "type", "what it is"),
            [(field["name"], field["type"], field["doc"]) for field in description["fields"]],
        ),
    ]
    output.show(description, view)
