"""Docstrings in the form that this project writes them: text, then `Args:`, `Returns:`, `Raises:` and the like."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SECTION = re.compile(r"(Args|Attributes|Example|Examples|Raises|Returns|Yields):$")
_ITEM = re.compile(r"(\*{0,2}\w[\w.]*): ?(.*)$")


@dataclass(frozen=True)
class Docstring:
    """A docstring, taken apart.

    Attributes:
        text: all before the first section.
        sections: what stands below `Returns:` and the like, by that word.
        items: what stands below `Args:`, `Attributes:` and `Raises:`, by that word: texts by name; what is no item,
            by an empty name.
    """

    text: str
    sections: dict[str, str]
    items: dict[str, dict[str, str]]

    @classmethod
    def parse(cls, doc: str) -> Docstring:
        """Takes a docstring apart; its indentation is gone, as `ast.get_docstring` and `inspect.getdoc` return it."""
        parts: dict[str, list[str]] = {"": []}
        current = ""
        for line in doc.splitlines():
            header = _SECTION.match(line)
            if header is not None:
                current = header.group(1)
                parts[current] = []
            elif line.strip() and not line.startswith(" ") and current:
                current = ""  # text that goes on below a section
                parts[""] += ["", line]
            else:
                parts[current].append(line)
        texts = {name: _without_indent(lines) for name, lines in parts.items()}
        items = {name: _items(texts[name]) for name in ("Args", "Attributes", "Raises") if name in texts}
        sections = {name: text for name, text in texts.items() if name and name not in items}
        return cls(texts[""], sections, items)


def _without_indent(lines: list[str]) -> str:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line[indent:].rstrip() for line in lines)).strip("\n")


def _items(text: str) -> dict[str, str]:
    """Returns the items `name: text`; lines that are indented further belong to the item above."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        item = _ITEM.match(line)
        if item is not None:
            name = item.group(1)
            found[name] = item.group(2).strip()
        elif line.strip():
            found[name] = f"{found.get(name, '')} {line.strip()}".lstrip()
    return found
