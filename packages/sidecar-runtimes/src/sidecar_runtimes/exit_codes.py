"""What the exit status of `sidecar` and `sidecar-run` says."""

from __future__ import annotations

from enum import IntEnum

from sidecar_core.errors import ConfigError, RefusedError, UsageError


class ExitCode(IntEnum):
    """The exit status of every command.

    Attributes:
        DONE: what was asked for is done.
        FOUND_FAILURES: the run or check found failures (shards failed, rows out of line), or an error of another kind.
        USAGE: bad usage or bad YAML; no shard was written, and a manifest only by a run that saw it after it had begun,
            such as a key that is twice in a table to join.
        REFUSED: refused in order to protect data: somebody else writes there, shards are there and no flag says what to
            do, an output would touch the main dataset, a receipt is missing.
        INTERRUPTED: ended by Ctrl-C or SIGTERM; whole shards only are left, and the lease is given back.
    """

    DONE = 0
    FOUND_FAILURES = 1
    USAGE = 2
    REFUSED = 3
    INTERRUPTED = 130


def exit_code_of(error: BaseException) -> ExitCode:
    """Returns the exit status for an error that ended a command."""
    if isinstance(error, (ConfigError, UsageError)):
        return ExitCode.USAGE
    if isinstance(error, RefusedError):
        return ExitCode.REFUSED
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    return ExitCode.FOUND_FAILURES
