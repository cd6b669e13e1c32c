"""`sidecar ops`: the operations that are installed."""

from __future__ import annotations

from typing import Annotated

import typer
from sidecar_runtimes.options import COMMON_OPTIONS

from sidecar_cli.completion import complete_op
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Table, open_output


@takes(COMMON_OPTIONS)
def ops(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="An operation, to see its parameters.",
            show_default=False,
            autocompletion=complete_op,
        ),
    ] = None,
    **options: OptionValue,
) -> None:
    """List the installed operations, or show one."""
    from sidecar_core.registry import installed_ops, op_class

    from sidecar_cli.op_words import describe_op, op_view

    output = open_output(json=options["json"])
    if name is not None:
        description = describe_op(name, op_class(name))
        output.show(description, op_view(description))
        return
    described = [describe_op(each, op_class(each)) for each in sorted(installed_ops())]
    rows = [(each["name"], each["summary"], each["package"]) for each in described]
    output.show({"ops": described}, [Table(("op", "what it does", "package"), rows)])
