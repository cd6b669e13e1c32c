from __future__ import annotations

import pytest
from sidecar_core.plan import PlannedShard
from sidecar_core.storage import ObjectInfo
from sidecar_runtimes.ray_tasks import RayTaskRuntime, SlidingWindow
from sidecar_runtimes.shard_queue import ShardQueue
from sidecar_runtimes.testing.conformance import RuntimeConformance


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
class TestRayTasks(RuntimeConformance):
    loads_side_inputs = False

    def make_runtime(self, *, retries=2):
        return RayTaskRuntime(retries=retries)


def test_the_window_is_refilled_as_soon_as_one_has_ended():
    """With three places, the fourth attempt begins when the fastest has ended, not the slowest."""
    lasts = {"0": 9, "1": 1, "2": 5, "3": 1, "4": 1}
    shards = [PlannedShard(ObjectInfo(name, 1, None, 1), (None,)) for name in lasts]
    queue = ShardQueue(shards, retries=0)
    now = 0
    until = {}
    most = 0

    def submit(shard_try):
        nonlocal most
        until[shard_try.shard.rel_path] = now + lasts[shard_try.shard.rel_path]
        most = max(most, len(window.inflight) + 1)
        return shard_try.shard.rel_path

    def ready(refs, timeout_s):
        nonlocal now
        now = max(now, min(until[ref] for ref in refs))
        return [ref for ref in refs if until[ref] <= now]

    window = SlidingWindow(3, submit=submit, ready=ready)
    ended = []
    window.fill(queue)
    while window.inflight:
        ended += [ref for _, ref in window.ended(1.0)]
        window.fill(queue)
    assert ended == ["1", "3", "4", "2", "0"]
    assert now == 9
    assert most == 3
