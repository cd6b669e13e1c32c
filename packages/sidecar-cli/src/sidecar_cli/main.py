"""The program `sidecar`: finds the command, runs it, and turns errors into messages and exit codes.

Nothing here imports Arrow, an image library or Ray, so that help answers at once; commands import
what they need when they run.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from sidecar_core.errors import SidecarError

from sidecar_cli.command_table import COMMANDS, Command
from sidecar_cli.exit_codes import ExitCode, exit_code_of
from sidecar_cli.output import discard_stdout
from sidecar_cli.program_name import program_name


def build_app(commands: Iterable[Command] = COMMANDS) -> typer.Typer:
    """Returns the typer program with the given commands."""
    on_terminal = sys.stdout.isatty() and sys.stderr.isatty()
    app = typer.Typer(
        name="sidecar",
        help="Row-aligned Parquet sidecars for image datasets.",
        epilog=f"Start with: {program_name()} demo",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if on_terminal else None,
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
        epilog = "\n\n".join(lines) if on_terminal else "\b\n" + "\n  ".join(lines)
        app.command(command.name, epilog=epilog, rich_help_panel=command.panel)(getattr(module, command.function))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program.

    Args:
        arguments: the command line without the program's name; default this process's.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_process()
    try:
        typer.main.get_command(build_app(_named(given))).main(args=given, prog_name=program_name())
    except SystemExit as ended:
        return _status(ended)
    except BrokenPipeError:
        discard_stdout()
        return ExitCode.FOUND_FAILURES
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place that can word it
        return _report(error, debug=_asks_for_traceback(given))
    finally:
        # Ctrl-C in code that an import made from text leaves a mark by which `python -m` would end on SIGINT
        exec("")  # noqa: S102
    return ExitCode.DONE


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


def _asks_for_traceback(arguments: Sequence[str]) -> bool:
    before_end_of_options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--debug" in before_end_of_options


def _status(ended: SystemExit) -> int:
    if ended.code is None:
        return ExitCode.DONE
    return ended.code if isinstance(ended.code, int) else ExitCode.FOUND_FAILURES


def _report(error: BaseException, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    elif isinstance(error, SidecarError):
        _say(str(error))
    elif not isinstance(error, KeyboardInterrupt):
        _say(f"unexpected {type(error).__name__}: {error}\n  fix: the same command with --debug shows where")
    return exit_code_of(error)


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:  # the exit status still tells
        return


def _prepare_process() -> None:
    """Makes streams that no file name can break, sends logs to stderr, and lets SIGTERM end as Ctrl-C does."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a test may have put something else there
            stream.reconfigure(errors="backslashreplace")
    logger = logging.getLogger("sidecar")
    if not logger.handlers:
        logger.addHandler(_StderrHandler())
        logger.propagate = False
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.environ.get("NO_COLOR"):  # an old way to force colour must not win over it
        for name in ("FORCE_COLOR", "PY_COLORS"):
            os.environ.pop(name, None)


def _fill_closed_streams() -> None:
    """Opens nothing in place of standard streams that are closed: else a shard could get their numbers, and prints."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: PTH123, SIM115


class _StderrHandler(logging.Handler):
    """Writes to what stderr is at that moment, so that a progress bar keeps its place."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(f"{record.levelname.lower()}: {record.getMessage()}")


if __name__ == "__main__":
    sys.exit(main())
