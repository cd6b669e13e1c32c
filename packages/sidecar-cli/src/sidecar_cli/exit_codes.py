"""What the exit status of `sidecar` says: the same as that of `sidecar-run`."""

from __future__ import annotations

from sidecar_runtimes.exit_codes import ExitCode, exit_code_of

__all__ = ["ExitCode", "exit_code_of"]
