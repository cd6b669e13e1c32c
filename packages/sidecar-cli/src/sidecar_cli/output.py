"""How commands show their results: one interface, a text and a JSON writer, both on stdout."""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """Labelled values, one a line.

    Attributes:
        pairs: label and value.
        title: a headline, or empty.
    """

    pairs: Sequence[tuple[str, object]]
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of values under column names; numbers are aligned at the right.

    Attributes:
        columns: names of the columns.
        rows: one value a column; None shows as `-`.
        title: a headline, or empty.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


Block = str | Facts | Table


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
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        _write(json.dumps(data, indent=2, ensure_ascii=ascii_only, default=str) + "\n")


class TextOutput(Output):
    """Writes the view: rich tables on a terminal, plain aligned text elsewhere."""

    def show(self, data: object, view: Iterable[Block]) -> None:
        """Writes each block, an empty line between them where one has several lines."""
        if sys.stdout.isatty():
            _show_on_terminal(view)
        else:
            _write(plain_text(view))


def open_output(*, json: bool) -> Output:
    """Returns the writer that `--json` asks for."""
    return JsonOutput() if json else TextOutput()


def plain_text(view: Iterable[Block]) -> str:
    """Returns a view as aligned text without colour, one line per row."""
    parts: list[str] = []
    for block in view:
        if isinstance(block, str):
            parts.append(f"{block}\n")
            continue
        lines = [block.title] if block.title else []
        lines += _fact_lines(block) if isinstance(block, Facts) else _table_lines(block)
        parts.append("".join(f"{line.rstrip()}\n" for line in lines))
    text = ""
    for part in parts:
        separate = text and (part.count("\n") > 1 or text.endswith("\n\n"))
        text += f"\n{part}" if separate and not text.endswith("\n\n") else part
    return text


def as_text(value: object) -> str:
    """Returns how a value is shown to people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _fact_lines(facts: Facts) -> list[str]:
    width = max((len(label) for label, _ in facts.pairs), default=0)
    return [f"{label:<{width}}  {as_text(value)}" for label, value in facts.pairs]


def _table_lines(table: Table) -> list[str]:
    cells = [list(table.columns), *([as_text(value) for value in row] for row in table.rows)]
    right = _numeric_columns(table)
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.columns))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _numeric_columns(table: Table) -> set[int]:
    return {
        column
        for column in range(len(table.columns))
        if table.rows and all(row[column] is None or isinstance(row[column], (int, float)) for row in table.rows)
    }


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
            right = _numeric_columns(block)
            for index, name in enumerate(block.columns):
                grid.add_column(Text(name), justify="right" if index in right else "left", overflow="fold")
            for row in block.rows:
                grid.add_row(*(Text(as_text(value)) for value in row))
        if block.title:
            console.print(Text(block.title, style="bold"))
        console.print(grid)


def _write(text: str) -> None:
    """Writes to stdout; when nobody reads it any more, the rest is thrown away in silence."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Points stdout to nowhere, so that neither later writes nor the flush at exit can fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
