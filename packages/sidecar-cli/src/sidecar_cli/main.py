"""The program `sidecar`: finds the command, runs it, and turns errors into messages and exit codes.

Nothing here imports Arrow, an image library or Ray, so that help answers at once; commands import
what they need when they run.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from sidecar_runtimes.program import exit_status, prepare_process

from sidecar_cli.command_table import COMMANDS, Command
from sidecar_cli.completion import line_to_complete
from sidecar_cli.program_name import program_name

__all__ = ["main"]

_COMPLETION_FLAGS = ("--install-completion", "--show-completion")
_RICH_HELP_COLUMNS = 100
"""In a narrower terminal rich help cuts the names of options."""


def build_app(commands: Iterable[Command] = COMMANDS) -> typer.Typer:
    """Returns the typer program with the given commands."""
    is_rich = sys.stdout.isatty() and sys.stderr.isatty() and shutil.get_terminal_size().columns >= _RICH_HELP_COLUMNS
    app = typer.Typer(
        name="sidecar",
        help="Row-aligned Parquet sidecars for image datasets.",
        epilog=f"Start with: {program_name()} demo",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if is_rich else None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in commands:
        module = importlib.import_module(f"sidecar_cli.commands.{command.module}")
        lines = [
            "Example:" if len(command.examples) == 1 else "Examples:",
            *(f"{program_name()}{example.removeprefix('sidecar')}" for example in command.examples),
        ]
        # plain help wraps lines unless a backspace begins the paragraph; rich help knows no such sign
        epilog = "\n\n".join(lines) if is_rich else "\b\n" + "\n  ".join(lines)
        app.command(command.name, epilog=epilog, rich_help_panel=command.panel)(getattr(module, command.function))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program `sidecar` in this process: logs go to stderr, and SIGTERM acts as Ctrl-C from then on.

    Args:
        arguments: the command line without the program's name; default this process's.

    Returns:
        The exit status: 0 done, 1 something failed, 2 bad usage or bad YAML, 3 refused in order to protect data, 130
        interrupted. What went wrong is said on stderr, nothing is raised.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    prepare_process()
    line = line_to_complete()
    # shells look completions up under the last part of a path, and their scripts make variables of the name
    is_about_completion = line is not None or any(word in _COMPLETION_FLAGS for word in given)
    name = "sidecar" if is_about_completion else program_name()

    def run() -> None:
        app = build_app(_named(given if line is None else _complete_words(line)))
        typer.main.get_command(app).main(args=given, prog_name=name)

    return exit_status(run, given)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's own signature
    if wanted:
        from importlib.metadata import version

        typer.echo(f"sidecar {version('sidecar-cli')}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit.", show_default=False
        ),
    ] = False,
) -> None:
    """Row-aligned Parquet sidecars for image datasets."""


def _named(arguments: Sequence[str]) -> tuple[Command, ...]:
    """Returns the command that the line names, so that only its module is loaded; all when none is named."""
    first = arguments[0] if arguments else ""
    return tuple(command for command in COMMANDS if command.name == first) or COMMANDS


def _complete_words(line: str) -> list[str]:
    """Returns the arguments of a line that is being typed, without the word at its end."""
    words = line.split()
    return words[1:] if line[-1:].isspace() else words[1:-1]


if __name__ == "__main__":
    sys.exit(main())
