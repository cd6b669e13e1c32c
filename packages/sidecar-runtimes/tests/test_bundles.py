from __future__ import annotations

import pytest
from sidecar_core.errors import UsageError
from sidecar_runtimes.bundles import GIB, Bundle, NodeSize, checked_bundle


def bundle(cpus, memory_gb=None):
    return Bundle("actor", cpus, memory_gb, "--actor-cpus")


@pytest.mark.parametrize(
    ("cpus", "memory_gb", "fits"), [(1, None, 8), (3, None, 2), (1, 5, 6), (9, None, 0), (1, 33, 0), (8, 32, 1)]
)
def test_the_tighter_of_cpus_and_memory_decides(cpus, memory_gb, fits):
    assert NodeSize("n", 8, 32 * GIB).holds(bundle(cpus, memory_gb)) == fits


@pytest.mark.parametrize("memory_gb", [0, -1, float("nan"), float("inf"), 10**7])
def test_memory_that_rays_integers_do_not_hold_is_refused(memory_gb):
    with pytest.raises(UsageError, match="--task-memory-gb"):
        checked_bundle("task", 1, memory_gb, flags=("--task-cpus", "--task-memory-gb"))
