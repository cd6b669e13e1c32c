from __future__ import annotations

import fcntl

import pytest
from hypothesis import settings

settings.register_profile("sidecar", deadline=None)  # a slow machine is no failure
settings.load_profile("sidecar")


@pytest.fixture
def much_memory(tmp_path_factory):
    """Lets one test at a time take some 10 GB, in however many processes tests run side by side."""
    with (tmp_path_factory.getbasetemp().parent / "much-memory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
