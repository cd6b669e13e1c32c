"""Which step of which row a child is at: a few bytes of memory that it shares with its parent, and that outlive it.

A note costs no system call, needs no disk, and is not lost among what native code writes to stderr. Both sides import
this module, so it imports nothing heavy.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import BinaryIO

_NUMBER: Final = slice(0, 4)
_LENGTH: Final = 4
_TEXT_START: Final = 5
_LONGEST_STEP_BYTES: Final = 251
_PAGE_BYTES: Final = _TEXT_START + _LONGEST_STEP_BYTES


def unnamed_file() -> BinaryIO:
    """Returns an empty file without a name: in memory where the system has such files, else in TMPDIR.

    Raises:
        OSError: the system gives none.
    """
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return os.fdopen(os.memfd_create("sidecar-child"), "r+b", buffering=0)
    import tempfile

    return tempfile.TemporaryFile(buffering=0, prefix=".sidecar-child-")


class StepPage:
    """The parent's side: made before the child starts, read when a row did not return.

    Raises:
        OSError: the system gives no file, or its disk is full.
    """

    def __init__(self) -> None:
        self._file = unnamed_file()
        try:
            if self._file.write(bytes(_PAGE_BYTES)) < _PAGE_BYTES:  # a hole would need room on the disk later
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except BaseException:
            self._file.close()
            raise

    def fileno(self) -> int:
        """Returns the file descriptor that the child is to have."""
        return self._file.fileno()

    def step(self, number: int) -> str | None:
        """Returns what the child last noted while it computed the row of message `number`, or None."""
        return _noted(os.pread(self.fileno(), _PAGE_BYTES, 0), number)

    def close(self) -> None:
        """Frees the file; the child keeps what it has mapped."""
        self._file.close()


class StepNotes:
    """The child's side. Takes over the file descriptor."""

    def __init__(self, fd: int) -> None:
        import mmap

        self._page = mmap.mmap(fd, _PAGE_BYTES)
        self._number = 0
        os.close(fd)

    def begin_row(self, number: int) -> None:
        """Takes note that the row of message `number` is computed from now on."""
        self._page[_LENGTH] = 0
        self._page[_NUMBER] = number.to_bytes(4, "little")
        self._number = number

    def note(self, step: str) -> None:
        """Takes note of what is done next; all but its first 251 bytes are cut off."""
        text = step.encode(errors="replace")[:_LONGEST_STEP_BYTES]
        self._page[_LENGTH] = 0
        self._page[_TEXT_START : _TEXT_START + len(text)] = text
        self._page[_LENGTH] = len(text)

    def last(self) -> str | None:
        """Returns what was last noted since the row began, or None."""
        return _noted(self._page[:], self._number)


def _noted(page: bytes, number: int) -> str | None:
    length = page[_LENGTH]
    if not length or int.from_bytes(page[_NUMBER], "little") != number:
        return None
    return page[_TEXT_START : _TEXT_START + length].decode(errors="replace")


_notes: StepNotes | None = None


def attach(fd: int) -> StepNotes:
    """Makes `note_step` write to the page behind `fd`, for the rest of this process."""
    global _notes  # noqa: PLW0603 - one process, one page
    _notes = StepNotes(fd)
    return _notes


def note_step(step: str) -> None:
    """Takes note of what an isolated child does next: should its row not return, `WorkerCallFailed.step` names it.

    It costs less than a microsecond. Outside of an isolated child it does nothing.

    Args:
        step: a short name; 251 bytes of it are kept.
    """
    if _notes is not None:
        _notes.note(step)
