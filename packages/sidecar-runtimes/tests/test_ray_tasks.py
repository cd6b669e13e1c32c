from __future__ import annotations

import pytest
from sidecar_runtimes.ray_tasks import RayTaskRuntime
from sidecar_runtimes.testing.conformance import RuntimeConformance

pytestmark = pytest.mark.ray


@pytest.mark.usefixtures("ray_cluster")
class TestRayTasks(RuntimeConformance):
    loads_side_inputs = False

    def make_runtime(self, *, retries=2):
        return RayTaskRuntime(retries=retries)
