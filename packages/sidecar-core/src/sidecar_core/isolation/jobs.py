"""One call of `map_rows` or `call`: its rows, what has become of them, and who waits for it."""

from __future__ import annotations

import functools
import itertools
import pickle
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sidecar_core.errors import UsageError
from sidecar_core.isolation import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_numbers = itertools.count(1)
_MOVE_IT: Final = "define it at the top level of a module that can be imported, and import it from there"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a job on its way to a child."""

    job: Job
    index: int


class Job:
    """The rows of one call. All but `wait` is called by the pool, which holds its lock.

    Args:
        fn: the function, which a child must be able to import.
        rows: what it is called with, one after the other.
        common: second argument for every row.
        spread: a row is the tuple of all arguments, and there is no `common`.
        timeout_s: seconds for one row.

    Raises:
        UsageError: children could not import the function, or what `common` refers to.
    """

    def __init__(
        self, fn: Callable[..., object], rows: Sequence[object], *, common: object, spread: bool, timeout_s: float
    ) -> None:
        if not timeout_s > 0:
            raise UsageError(f"the timeout is {timeout_s!r} s, and must be above 0")
        self.name = _name(fn)
        self.payload = [
            b"".join(_encoded((spread, fn, common), self.name if spread else f"{self.name} with its common argument"))
        ]
        self.number = next(_numbers)
        self.timeout_s = timeout_s
        self.rows = rows
        self.pending = deque(range(len(rows)))
        self.results: list[object] = [None] * len(rows)
        self.crashed_once: set[int] = set()
        self.load_failures = 0
        self.over = not rows
        self._left = len(rows)
        self._error: Exception | None = None
        self._done = threading.Event()
        if self.over:
            self._done.set()

    def encoded_row(self, index: int) -> list[bytes | memoryview]:
        """Returns the row's pickle in parts. Raises UsageError when it has none."""
        return _encoded(self.rows[index], f"row {index} for {self.name}")

    def settle(self, index: int, result: object) -> None:
        """Takes a row's value or failure."""
        self.results[index] = result
        self._left -= 1
        if not self._left:
            self._finish()

    def fail(self, error: Exception) -> None:
        """Gives the whole job up; the first error counts."""
        if not self.over:
            self._error = error
            self._finish()

    def cancel(self) -> None:
        """Forgets the rows that are left: nobody waits for them."""
        self._finish()

    def wait(self) -> list[object]:
        """Returns the results, in order, when all rows have one. Raises what the job failed with."""
        self._done.wait()
        error, self._error = self._error, None
        if error is None:
            return self.results
        try:
            raise error
        finally:
            del error  # its traceback would keep this frame, and the rows, until a collection

    def _finish(self) -> None:
        self.over = True
        self.pending.clear()
        self._done.set()


def _name(fn: object) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not callable(fn):
        raise UsageError(f"{fn!r} cannot be called", expected="a function at the top level of an importable module")
    return getattr(fn, "__qualname__", type(fn).__qualname__)


def _encoded(value: object, what: str) -> list[bytes | memoryview]:
    try:
        return wire.encode(value)
    except pickle.PicklingError as error:
        raise UsageError(f"{what} cannot be sent to an isolated child: {error}", fix=_MOVE_IT) from error
    except Exception as error:
        raise UsageError(f"{what} cannot be sent to an isolated child: {type(error).__name__}: {error}") from error
