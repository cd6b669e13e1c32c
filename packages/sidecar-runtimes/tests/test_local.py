from __future__ import annotations

from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.testing.conformance import RuntimeConformance


class TestLocal(RuntimeConformance):
    survives_worker_death = False

    def make_runtime(self, *, retries=2):
        return LocalRuntime(workers=2, retries=retries)
