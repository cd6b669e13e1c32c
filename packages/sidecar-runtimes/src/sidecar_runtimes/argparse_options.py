"""Makes argparse parsers from tables of options, for programs of slim images."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from sidecar_core.errors import UsageError
from sidecar_core.problems import did_you_mean

from sidecar_runtimes.options import check_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_runtimes.options import Option


class OptionParser(argparse.ArgumentParser):
    """A parser whose options come from a table, and which raises where argparse would end the program.

    Args:
        options: the table.
        prog: the program, and the job when it is not a run.
        description: what it does.
        epilog: examples.
        positional: name and help of the one argument, or None.
    """

    def __init__(
        self,
        options: Sequence[Option],
        *,
        prog: str,
        description: str,
        epilog: str = "",
        positional: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._table = tuple(options)
        if positional is not None:
            name, words = positional
            self.add_argument("what", metavar=name, help=words)
        groups = {option.group: self.add_argument_group(option.group) for option in self._table}
        for option in self._table:
            groups[option.group].add_argument(option.name, *option.aliases, **_declared(option))

    def values(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Returns every option's value by parameter name, and `what` for the argument.

        Raises:
            UsageError: an option is unknown, has no value or a wrong one; or the argument is missing.
        """
        known, left = self.parse_known_args(list(arguments))
        if left:
            flags = [name for option in self._table for name in (option.name, *option.aliases)]
            nearest = did_you_mean(left[0].partition("=")[0], flags) if left[0].startswith("-") else ""
            kind = "option" if left[0].startswith("-") else "argument"
            raise UsageError(f"unknown {kind} {left[0]!r}{nearest}", None, f"{self.prog} --help")
        values = vars(known)
        for option in self._table:
            if option.repeated:
                values[option.parameter] = values[option.parameter] or []
        check_numbers(self._table, values)
        return values

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(message, None, f"{self.prog} --help")


def _declared(option: Option) -> dict[str, Any]:
    """Returns what `add_argument` is to be told."""
    words = f"{option.help}{f'; default {option.default}' if option.tells_default else ''}".replace("%", "%%")
    declared: dict[str, Any] = {"help": words, "dest": option.parameter, "default": option.default}
    if option.type is bool:
        return {**declared, "action": "store_true"}
    if option.repeated:
        declared["action"] = "append"
    return {
        **declared,
        "type": option.type,
        "choices": option.choices or None,
        "metavar": option.metavar or (None if option.choices else option.parameter.upper()),
    }
