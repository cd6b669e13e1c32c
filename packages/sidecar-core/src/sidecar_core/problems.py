"""One fault in a file that a person wrote: what, where, what was expected, how to mend it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Problem:
    """A fault in a YAML file or in a plan made from one.

    Attributes:
        message: one sentence of fact, with the offending value quoted.
        key_path: dotted path of the key, such as `operations[1].filters[0]`; empty for the whole file.
        file: the file as the user named it, or None for input that is not a file.
        line: 1-based line in `file`, or None when not known.
        column: 1-based column in `file`, or None when not known.
        expected: what would have been right, when that is a closed set or a type.
        fix: what to type, when that is known.
    """

    message: str
    key_path: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    expected: str | None = None
    fix: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        head = ": ".join(part for part in (place, self.key_path, self.message) if part)
        return with_hints(head, expected=self.expected, fix=self.fix)


def with_hints(message: str, *, expected: str | None = None, fix: str | None = None) -> str:
    """Appends the `expected:` and `fix:` lines that every error of sidecar may carry."""
    lines = [message]
    if expected:
        lines.append(f"  expected: {expected}")
    if fix:
        lines.append(f"  fix: {fix}")
    return "\n".join(lines)


def counted(number: int, what: str, several: str | None = None) -> str:
    """Returns `1 shard`, `1,200 shards`; `several` is the plural where it is not `what` with an s."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` for the known name nearest to `name`, or an empty string."""
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
