"""What doctor finds: a fact, whether it is all right, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a fact is to be taken."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One line of doctor.

    Attributes:
        level: ok, warn or fail.
        what: what was looked at, a few words.
        fact: what was found.
        fix: what to do; empty when all is well.
    """

    level: Level
    what: str
    fact: str
    fix: str = ""


def ok(what: str, fact: str) -> Finding:
    """Returns that something is all right."""
    return Finding(Level.OK, what, fact)


def warn(what: str, fact: str, fix: str) -> Finding:
    """Returns that something works, but not as it could."""
    return Finding(Level.WARN, what, fact, fix)


def fail(what: str, fact: str, fix: str) -> Finding:
    """Returns that something does not work."""
    return Finding(Level.FAIL, what, fact, fix)


def guarded(what: str, look: Callable[[], Iterable[Finding]], *, debug: bool = False) -> Iterator[Finding]:
    """Yields what `look` finds; an error of its own is a finding too, so that one broken part hides no other.

    Args:
        what: what is looked at.
        look: the look.
        debug: let the error out instead.
    """
    try:
        yield from look()
    except Exception as error:
        if debug:
            raise
        head = (str(error) or type(error).__name__).partition("\n")[0]
        yield fail(what, f"{type(error).__name__}: {head}", getattr(error, "fix", None) or "--debug shows where")
