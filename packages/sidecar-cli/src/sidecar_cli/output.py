"""How commands show their results: one interface, a text and a JSON writer, both on stdout, which is theirs alone."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable

from sidecar_runtimes.program import json_text, write_stdout
from sidecar_runtimes.result_stdout import results_to_stdout
from sidecar_runtimes.text_view import Block, Facts, Table, as_text, numeric_columns, plain_text

__all__ = ["Block", "Facts", "JsonOutput", "Output", "Table", "TextOutput", "as_text", "open_output", "plain_text"]


class Output(ABC):
    """Where a command hands its result; it says it twice, as data and as what a person reads."""

    @abstractmethod
    def show(self, data: object, view: Iterable[Block]) -> None:
        """Writes one result.

        Args:
            data: JSON values, for programs.
            view: the same for people: lines, facts and tables.
        """


class JsonOutput(Output):
    """Writes the data and ignores the view."""

    def show(self, data: object, view: Iterable[Block]) -> None:
        """Writes one JSON document."""
        with results_to_stdout():
            write_stdout(json_text(data))


class TextOutput(Output):
    """Writes the view: rich tables on a terminal, plain aligned text elsewhere."""

    def show(self, data: object, view: Iterable[Block]) -> None:
        """Writes each block, an empty line between them where one has several lines."""
        with results_to_stdout():
            if sys.stdout.isatty():
                _show_on_terminal(view)
            else:
                write_stdout(plain_text(view))


def open_output(*, json: bool) -> Output:
    """Returns the writer that `--json` asks for."""
    return JsonOutput() if json else TextOutput()


def _show_on_terminal(view: Iterable[Block]) -> None:
    """Draws with rich; values are text, never markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False)
    for block in view:
        if isinstance(block, str):
            console.print(Text(block), soft_wrap=True)
            continue
        if isinstance(block, Facts):
            grid = RichTable(box=None, show_header=False, padding=(0, 2, 0, 0), title_justify="left")
            grid.add_column(style="bold")
            grid.add_column(overflow="fold")
            for label, value in block.pairs:
                grid.add_row(Text(label), Text(as_text(value)))
        else:
            grid = RichTable(box=box.SIMPLE_HEAD, title_justify="left")
            right = numeric_columns(block)
            for index, name in enumerate(block.columns):
                grid.add_column(Text(name), justify="right" if index in right else "left", overflow="fold")
            for row in block.rows:
                grid.add_row(*(Text(as_text(value)) for value in row))
        if block.title:
            console.print(Text(block.title, style="bold"))
        console.print(grid)
