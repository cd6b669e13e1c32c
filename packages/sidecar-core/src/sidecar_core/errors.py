"""Every error that sidecar raises on purpose.

Each class derives from `SidecarError` and, where one fits, from the builtin that a caller would
catch. Constructors take positional arguments only as far as pickling needs them, so that an error
raised in a worker process arrives whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.problems import with_hints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar_core.problems import Problem

__all__ = [
    "AlignmentError",
    "ConfigError",
    "ConflictError",
    "IsolationError",
    "LeaseLostError",
    "OpError",
    "RefusedError",
    "ShardError",
    "SidecarError",
    "StorageError",
    "StorageNotFoundError",
    "UsageError",
    "WorkerCallFailed",
]


class SidecarError(Exception):
    """Base of all errors of sidecar.

    Args:
        message: one sentence of fact, values quoted, saying where (file, key path, shard, row).
        expected: what would have been right, when that is a closed set.
        fix: what can be typed to mend it.
    """

    def __init__(self, message: str, expected: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, expected, fix)
        self.message = message
        self.expected = expected
        self.fix = fix

    def __str__(self) -> str:
        return with_hints(self.message, expected=self.expected, fix=self.fix)


class ConfigError(SidecarError, ValueError):
    """A YAML file, or the plan made from it, is wrong; carries every problem found, not the first.

    Attributes:
        problems: what is wrong, each with its place, in the order of files, lines and columns.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        Exception.__init__(self, self.problems)
        self.message = "\n".join(str(problem) for problem in self.problems)
        self.expected = None
        self.fix = None


class UsageError(SidecarError, ValueError):
    """An option, argument or call is wrong."""


class RefusedError(SidecarError):
    """The run would have harmed data, so nothing was done."""


class LeaseLostError(RefusedError):
    """This run no longer holds the lease of an output, so it commits nothing more."""


class StorageError(SidecarError, OSError):
    """A file or object could not be read, listed or written; names the URI and what to check."""

    def __str__(self) -> str:
        return SidecarError.__str__(self)


class StorageNotFoundError(StorageError, FileNotFoundError):
    """A file, object or prefix that must exist does not."""


class ConflictError(StorageError, FileExistsError):
    """A conditional write lost: the object is not in the state that the plan saw."""


class ShardError(SidecarError, RuntimeError):
    """A shard cannot be processed, and trying again would not help: bad file, missing column."""


class OpError(SidecarError, RuntimeError):
    """An operation broke its contract (rows, order, key, schema) or raised."""


class AlignmentError(SidecarError, ValueError):
    """Two tables that must hold the same keys in the same order do not."""


class IsolationError(SidecarError, RuntimeError):
    """Isolated children cannot be had: the pool is closed, they do not start, or cannot load the function."""


class WorkerCallFailed(SidecarError, RuntimeError):  # noqa: N818 - the public name that callers catch
    """A call in an isolated child process did not return.

    Attributes:
        message: one sentence of fact.
        cause: `crashed`, `timeout`, `out_of_memory`, or `error` when the function itself raised.
        detail: facts for the audit: signal, seconds, measured peak memory, native stderr.
        signal: number of the signal that ended the child, or None.
        step: what the function last told `isolation.note_step` in this call, or None.
    """

    def __init__(
        self,
        message: str,
        cause: str = "error",
        detail: str = "",
        signal: int | None = None,
        step: str | None = None,
    ) -> None:
        Exception.__init__(self, message, cause, detail, signal, step)
        self.message = message
        self.expected = None
        self.fix = None
        self.cause = cause
        self.detail = detail
        self.signal = signal
        self.step = step
