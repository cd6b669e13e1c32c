"""How a pipeline is run: one value for every flag of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidecar_core.errors import UsageError

from sidecar_runtimes.lease import LeaseOptions
from sidecar_runtimes.options import RUN_OPTIONS, check_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RunOptions:
    """How a pipeline is run; names as on the command line.

    Attributes:
        output_prefix: where the single output goes instead of a new sibling of the sidecar prefix.
        outputs: where named outputs go instead of their prefix in the pipeline.
        input_subprefix: only main shards whose path below the main prefix begins with this, such as `flickr/`; paths
            stay relative to the main prefix.
        skip_existing: leave the shards that are done, make the rest.
        trust_listing: with skip_existing, a shard that is there and not empty is done; no footer is read.
        redo_stale: with skip_existing, make stale shards again.
        keep_stale: with skip_existing, leave stale shards as they are.
        overwrite: replace every shard that is there.
        limit: process at most this many shards; default all.
        runtime: `local`, `ray`, `actor`, or `auto`: local unless a cluster is named; on one, actor with side inputs or
            more than two filters, else ray.
        ray_address: of a cluster; default what RAY_ADDRESS says, else one on this machine alone.
        workers: isolated child processes of each worker; default the machine's cores, on Ray those reserved.
        task_cpus: cores that a Ray task reserves; default 1.
        task_memory_gb: memory in GiB that a Ray task reserves; default none.
        max_inflight: Ray tasks submitted at a time; default twice what the cluster holds, at least 16.
        num_actors: Ray actors; default as many as the cluster holds.
        actor_cpus: cores that a Ray actor reserves; default 1.
        actor_memory_gb: memory in GiB that a Ray actor reserves; default none.
        per_actor_inflight: shards that a Ray actor has at a time; default 2.
        retries: further attempts for a shard whose error may pass.
        max_invalid_fraction: stop once more than this share, 0-1, of at least 1,000 rows is invalid; default never.
        max_failed_shards: stop once more than this many shards were given up; default never.
        lease_stale_s: seconds without a heartbeat after which a lease may be taken over; default 120.
        steal_lease: take the lease of a writer that may be alive.
        wait_lease: seconds to wait for a lease that is held.
    """

    output_prefix: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    input_subprefix: str = ""
    skip_existing: bool = False
    trust_listing: bool = False
    redo_stale: bool = False
    keep_stale: bool = False
    overwrite: bool = False
    limit: int | None = None
    runtime: str = "auto"
    ray_address: str | None = None
    workers: int | None = None
    task_cpus: int | None = None
    task_memory_gb: float | None = None
    max_inflight: int | None = None
    num_actors: int | None = None
    actor_cpus: int | None = None
    actor_memory_gb: float | None = None
    per_actor_inflight: int | None = None
    retries: int = 2
    max_invalid_fraction: float | None = None
    max_failed_shards: int | None = None
    lease_stale_s: float | None = None
    steal_lease: bool = False
    wait_lease: float = 0.0

    @property
    def lease(self) -> LeaseOptions:
        """How the run gets its leases."""
        return LeaseOptions(self.lease_stale_s, self.steal_lease, self.wait_lease)


def check_options(options: RunOptions) -> None:
    """Raises UsageError for options that contradict each other or make no sense."""
    if options.overwrite and options.skip_existing:
        raise UsageError("--overwrite and --skip-existing contradict each other", "one of them")
    if options.redo_stale and options.keep_stale:
        raise UsageError("--redo-stale and --keep-stale contradict each other", "one of them")
    options.lease.check()
    if options.trust_listing and not options.skip_existing:
        raise UsageError("--trust-listing needs --skip-existing", fix="--skip-existing")
    if options.trust_listing and (options.redo_stale or options.keep_stale):
        raise UsageError("--trust-listing reads no footer, so it knows no stale shards", fix="leave one of them out")
    if (options.redo_stale or options.keep_stale) and not options.skip_existing:
        raise UsageError("--redo-stale and --keep-stale need --skip-existing", fix="--skip-existing")
    check_numbers(RUN_OPTIONS, vars(options))
