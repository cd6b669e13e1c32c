"""What a person types to run this program, for the commands that it proposes."""

from __future__ import annotations

import os
import shlex


def program_name() -> str:
    """Returns `sidecar`, or how the script in a clone was called, which is quoted for a shell."""
    return shlex.quote(os.environ.get("SIDECAR_PROGRAM") or "sidecar")
