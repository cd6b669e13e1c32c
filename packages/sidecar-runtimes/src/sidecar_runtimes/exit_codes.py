"""What the exit status of `sidecar` and `sidecar-run` says."""

from __future__ import annotations

from enum import IntEnum

from sidecar_core.errors import ConfigError, RefusedError, UsageError


class ExitCode(IntEnum):
    """The exit status of every command."""

    DONE = 0
    FOUND_FAILURES = 1  # shards failed, rows misaligned, or an error of another kind
    USAGE = 2  # bad usage or bad YAML
    REFUSED = 3  # refused to protect data
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
