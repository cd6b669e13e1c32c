"""What `measure_bytes` does to a row in an isolated child; apart, so that the child imports nothing heavy."""

from __future__ import annotations

import os
import signal
import time


def measure_bytes(image: bytes | None, delay_s: float) -> int | None:
    """Returns the length of `image`; a few magic words make the process abort, hang or eat memory instead."""
    if image is None:
        return None
    if image == b"!abort":
        os.abort()
    if image == b"!kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if image == b"!segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if image == b"!hang":
        time.sleep(600)
    if image == b"!eat":
        return len(bytearray(20 * 2**30))
    time.sleep(delay_s)
    return len(image)
