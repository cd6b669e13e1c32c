"""Whether the disks on which shards are written first have room for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.plan import PlannedShard, RunPlan
    from sidecar_core.storage import Storage

_ENOUGH_WITHOUT_PICTURES_BYTES = 64 * 2**20


def refuse_small_disk(plan: RunPlan, shards: Sequence[PlannedShard], outputs: Sequence[Storage]) -> None:
    """Raises RefusedError when a disk is obviously too small.

    That is, smaller than the largest main shard to process; for outputs without pictures 64 MiB are enough.
    """
    largest = max(shards, key=lambda shard: shard.main.size_bytes, default=None)
    if largest is None:
        return
    for output, storage in zip(plan.outputs, outputs, strict=True):
        wanted = largest.main.size_bytes
        if not output.image_columns:
            wanted = min(wanted, _ENOUGH_WITHOUT_PICTURES_BYTES)
        free = storage.free_bytes()
        if free is not None and free < wanted:
            raise RefusedError(
                f"{free:,} bytes are free where the shards of {storage.prefix} are written first, "
                f"and the largest main shard, {largest.rel_path}, has {largest.main.size_bytes:,}",
                f"at least {wanted:,} bytes",
                "free space there; for an object store, TMPDIR names another folder",
            )
