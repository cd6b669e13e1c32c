"""Makes typer commands from tables of options.

A command declares what only it has, takes the rest as `**options`, and names the tables:

    @takes(RUN_OPTIONS)
    def run(pipeline: …, **options: Any) -> None: …
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Annotated, Any, TypeAlias

import typer
from sidecar_runtimes.options import Option, check_numbers
from sidecar_runtimes.result_stdout import prints_to_stderr

OptionValue: TypeAlias = Any  # what a command gets for an option is what the table says it is


def takes(
    options: Iterable[Option], *, complete: Mapping[str, Callable[[str], list[str]]] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that replaces a command's `**options` with one typer option a table entry.

    Args:
        options: the table.
        complete: by name of an option, what the Tab key offers for its beginning.
    """
    table, completers = tuple(options), complete or {}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters += [_parameter(option, completers.get(option.name)) for option in table]

        @wraps(command)
        def call(**values: OptionValue) -> None:
            for option in table:
                value = values[option.parameter]
                if option.repeated:
                    values[option.parameter] = [_plain(each) for each in value or ()]
                else:
                    values[option.parameter] = _plain(value)
            check_numbers(table, values)
            with prints_to_stderr():
                command(**values)

        call.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        del call.__wrapped__  # pyright: ignore[reportFunctionMemberAccess] - type hints are the ones above
        return call

    return decorate


def _plain(value: OptionValue) -> OptionValue:
    """Returns the value of a choice as text, and any other as it is."""
    return value.value if isinstance(value, enum.Enum) else value


def _parameter(option: Option, complete: Callable[[str], list[str]] | None) -> inspect.Parameter:
    declared = typer.Option(
        option.name,
        *option.aliases,
        help=f"{option.help[0].upper()}{option.help[1:]}.",
        rich_help_panel=option.group,
        metavar=option.metavar,
        autocompletion=complete,
        show_default=option.tells_default,
    )
    kind: Any = option.type
    if option.choices:
        kind = enum.Enum(option.parameter, {choice: choice for choice in option.choices}, type=str)
    if option.repeated:
        kind = list[kind]
    if option.default is None:
        kind = kind | None
    default = kind(option.default) if option.choices and option.default is not None else option.default
    return inspect.Parameter(
        option.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, declared],
    )
