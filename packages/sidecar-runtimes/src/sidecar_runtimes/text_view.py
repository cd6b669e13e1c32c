"""Results as people read them: lines, facts and tables, and their plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Show = Callable[[object, Sequence["Block"]], None]


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
    right = numeric_columns(table)
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.columns))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def numeric_columns(table: Table) -> set[int]:
    """Returns the positions of the columns that hold numbers only."""
    return {
        column
        for column in range(len(table.columns))
        if table.rows and all(row[column] is None or isinstance(row[column], (int, float)) for row in table.rows)
    }
