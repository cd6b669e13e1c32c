"""What a verifier can hold an output's columns to, said by the op that made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa


@dataclass(frozen=True)
class OutputCheck:
    """A look at the values of some columns, row by row.

    Attributes:
        name: what is checked, such as `cropped descriptions`.
        columns: the columns that it looks at; it is given a table of these, some rows at a time.
        check: returns what is wrong, as position in that table and one sentence; nothing when all is well.
    """

    name: str
    columns: tuple[str, ...]
    check: Callable[[pa.Table], Iterable[tuple[int, str]]]

    def stored_as(self, names: Mapping[str, str]) -> OutputCheck | None:
        """Returns the same check for an output that has other names for the columns, or not all of them.

        Args:
            names: the output's name of each column that it has.

        Returns:
            The check, which is then given only what the output has; None when it has nothing to look at.
        """
        own = {names[column]: column for column in self.columns if column in names}
        if not own:
            return None
        check = self.check
        return OutputCheck(self.name, tuple(own), lambda table: check(table.rename_columns(own)))
