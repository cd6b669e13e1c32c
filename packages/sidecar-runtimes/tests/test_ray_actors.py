from __future__ import annotations

import pytest
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.testing.conformance import RuntimeConformance


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
class TestRayActors(RuntimeConformance):
    def make_runtime(self, *, retries=2):
        return RayActorRuntime(retries=retries, num_actors=2)
