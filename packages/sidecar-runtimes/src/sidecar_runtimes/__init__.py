"""Where sidecar shards are processed: runtimes on this machine and on Ray, runs, leases, manifests, verification.

`__all__` is what others may import; anything else may change in any release. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from sidecar_runtimes.base import Runtime
    from sidecar_runtimes.lease import LeaseOptions
    from sidecar_runtimes.local import LocalRuntime
    from sidecar_runtimes.prefixes import OutputPrefix, resolve_output_prefix
    from sidecar_runtimes.progress import RunObserver, SilentObserver
    from sidecar_runtimes.ray_actors import RayActorRuntime
    from sidecar_runtimes.ray_cluster import ClusterError
    from sidecar_runtimes.ray_tasks import RayTaskRuntime, SideInputsError
    from sidecar_runtimes.resume import ShardStanding, ShardState
    from sidecar_runtimes.retry import RetryOptions, RetryReport, retry_rows
    from sidecar_runtimes.run import PreparedRun, RunOptions, RunReport, execute_run, prepare_run
    from sidecar_runtimes.status import Completion, OutputStatus, RunStatus, output_status
    from sidecar_runtimes.verify import ColumnStats, ShardProblem, VerifyReport, verify_dataset

    __version__: str

__all__ = [
    "ClusterError",
    "ColumnStats",
    "Completion",
    "LeaseOptions",
    "LocalRuntime",
    "OutputPrefix",
    "OutputStatus",
    "PreparedRun",
    "RayActorRuntime",
    "RayTaskRuntime",
    "RetryOptions",
    "RetryReport",
    "RunObserver",
    "RunOptions",
    "RunReport",
    "RunStatus",
    "Runtime",
    "ShardProblem",
    "ShardStanding",
    "ShardState",
    "SideInputsError",
    "SilentObserver",
    "VerifyReport",
    "__version__",
    "execute_run",
    "output_status",
    "prepare_run",
    "resolve_output_prefix",
    "retry_rows",
    "verify_dataset",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": ["Runtime"],
        "lease": ["LeaseOptions"],
        "local": ["LocalRuntime"],
        "prefixes": ["OutputPrefix", "resolve_output_prefix"],
        "progress": ["RunObserver", "SilentObserver"],
        "ray_actors": ["RayActorRuntime"],
        "ray_cluster": ["ClusterError"],
        "ray_tasks": ["RayTaskRuntime", "SideInputsError"],
        "resume": ["ShardStanding", "ShardState"],
        "retry": ["RetryOptions", "RetryReport", "retry_rows"],
        "run": ["PreparedRun", "RunOptions", "RunReport", "execute_run", "prepare_run"],
        "status": ["Completion", "OutputStatus", "RunStatus", "output_status"],
        "verify": ["ColumnStats", "ShardProblem", "VerifyReport", "verify_dataset"],
    },
)
