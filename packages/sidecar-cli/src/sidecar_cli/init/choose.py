"""Chooses the key and the image column: the one that a flag names, the one that is certain, or a person's answer."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sidecar_core.errors import SidecarError, UsageError
from sidecar_core.problems import did_you_mean

from sidecar_cli.init.look import ImageCandidate, KeyCandidate, Look
from sidecar_cli.program_name import program_name

T = TypeVar("T")
_SHOWN_COLUMNS = 20


@dataclass(frozen=True)
class Choice:
    """A chosen column.

    Attributes:
        column: its name; None for no image column.
        why: how it was found, one clause.
        warning: what is doubtful about it, or an empty text.
    """

    column: str | None
    why: str
    warning: str = ""


class Asker:
    """Asks a person on a terminal; what is not a right answer is explained and asked again."""

    def ask(self, question: str, read: Callable[[str], T], *, flag: str) -> T:
        """Returns what `read` makes of an answer.

        Args:
            question: one line.
            read: raises SidecarError for an answer that is not right.
            flag: what answers it on the command line.

        Raises:
            UsageError: there are no more answers (Ctrl-D).
        """
        while True:
            sys.stderr.write(f"{question} ")
            sys.stderr.flush()
            answer = sys.stdin.readline()
            if not answer:
                sys.stderr.write("\n")
                raise UsageError(f"no answer to: {question}", fix=f"give {flag}")
            if not answer.strip():
                continue
            try:
                return read(answer.strip())
            except SidecarError as error:
                sys.stderr.write(f"{error}\n")

    def pick(self, headline: str, options: Sequence[tuple[str, str]], *, flag: str) -> str:
        """Returns the name of one of several options, by number or by name.

        Args:
            headline: what is asked for.
            options: names, and what to know about each.
            flag: what answers it on the command line.
        """
        names = [name for name, _ in options]
        width = max(len(name) for name in names)
        sys.stderr.write(f"{headline}\n")
        for number, (name, about) in enumerate(options, 1):
            sys.stderr.write(f"  {number}  {name.ljust(width)}  {about}\n")

        def read(answer: str) -> str:
            if answer in names:
                return answer
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            raise UsageError(
                f"{answer!r} is none of them{did_you_mean(answer, names)}",
                f"a number from 1 to {len(names)}, or a name",
            )

        return self.ask(f"Which one? [1-{len(names)}]", read, flag=flag)


def person_at_terminal() -> Asker | None:
    """Returns who can be asked, or None where nobody sits at a terminal."""
    return Asker() if sys.stdin.isatty() and sys.stderr.isatty() else None


def choose_key(look: Look, wanted: str | None, person: Asker | None) -> Choice:
    """Returns the key column.

    Raises:
        UsageError: the wanted column is none, or nobody can say which of several it is.
    """
    if wanted is not None:
        found = _named(look, "--key-column", wanted, look.keys, "text or whole numbers")
        warning = f"key column {wanted!r}: {found.problem}, so it does not name each row" if found.problem else ""
        return Choice(wanted, "as you said", warning)
    good = look.good_keys
    usual = [each for each in good if each.rank is not None]
    if usual or len(good) == 1:
        chosen = (usual or good)[0]
        return Choice(chosen.name, f"{chosen.type}, unique in what was looked at, such as {chosen.example!r}")
    about = [(each.name, f"{each.type}, such as {each.example!r}") for each in good]
    if not good:
        raise UsageError(
            f"no column of {look.prefix}{look.shard} can be the key: {_why_none(look)}",
            "a column of text or whole numbers, without nulls, in which no value comes twice",
            "add such a column to the dataset (docs/own-images.md shows how), or name one with --key-column",
        )
    if person is not None:
        return Choice(person.pick("Several columns could be the key:", about, flag="--key-column"), "as you said")
    names = [each.name for each in good]
    raise UsageError(
        f"several columns of {look.prefix}{look.shard} could be the key",
        ", ".join(names),
        f"--key-column {shlex.quote(names[0])}",
    )


def choose_image(look: Look, wanted: str | None, person: Asker | None, *, required: bool) -> Choice:
    """Returns the image column.

    Args:
        look: what was found.
        wanted: what `--image-column` says.
        person: who can be asked.
        required: whether the pipeline looks at pictures; without one then, no column is chosen.

    Raises:
        UsageError: the wanted column is none, or nobody can say which of several it is.
    """
    if wanted is not None:
        found = _named(look, "--image-column", wanted, look.images, "binary, large_binary, or a struct {bytes, path}")
        warning = f"image column {wanted!r}: {found.problem}" if found.problem else ""
        return Choice(wanted, "as you said", warning)
    good = look.good_images
    usual = [each for each in good if each.rank is not None]
    if usual or len(good) == 1:
        chosen = (usual or good)[0]
        return Choice(chosen.name, f"{chosen.type} with {', '.join(chosen.formats)}")
    if not required:
        return Choice(None, "no column holds pictures for certain, and the pipeline needs none")
    candidates = good or list(look.images)
    if not candidates:
        raise UsageError(
            f"no column of {look.prefix}{look.shard} can hold pictures; it has {_columns(look)}",
            "binary, large_binary, or a struct {bytes, path}",
            "--pipeline scaffold makes a sidecar that looks at no picture",
        )
    about = [(each.name, each.problem or f"{each.type} with {', '.join(each.formats)}") for each in candidates]
    possible = [each.name for each in candidates if not each.only_paths]
    if person is not None and possible:
        headline = "Several columns hold pictures:" if good else "No column holds pictures for certain:"
        return Choice(person.pick(headline, about, flag="--image-column"), "as you said")
    what = "several columns hold pictures" if good else "no column holds pictures for certain"
    if possible:
        fix = f"--image-column {shlex.quote(possible[0])}"
    else:
        new = shlex.quote(f"{look.prefix.rstrip('/')}_parquet/")
        fix = f"download the pictures themselves, and make a dataset of them: {program_name()} pack FOLDER {new}"
    raise UsageError(
        f"{look.prefix}{look.shard}: {what}: " + "; ".join(f"{name!r} ({text})" for name, text in about),
        ", ".join(possible) or None,
        fix,
    )


Candidate = TypeVar("Candidate", KeyCandidate, ImageCandidate)


def _named(look: Look, flag: str, wanted: str, candidates: Sequence[Candidate], kind: str) -> Candidate:
    for each in candidates:
        if each.name == wanted:
            return each
    where = f"{look.prefix}{look.shard}"
    fitting = ", ".join(each.name for each in candidates) or f"none of its columns is {kind}"
    if wanted in look.columns:
        message = f"{flag} {wanted}: that column of {where} is {look.columns[wanted]}, not {kind}"
        raise UsageError(message, fitting)
    raise UsageError(f"{flag} {wanted}: {where} has no such column{did_you_mean(wanted, look.columns)}", fitting)


def _why_none(look: Look) -> str:
    if not look.keys:
        return f"none is text or whole numbers; it has {_columns(look)}"
    return "; ".join(f"{each.name!r}: {each.problem}" for each in look.keys[:_SHOWN_COLUMNS])


def _columns(look: Look) -> str:
    names = list(look.columns)
    more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    return ", ".join(f"{name} ({look.columns[name]})" for name in names[:_SHOWN_COLUMNS]) + more
