"""The contract of a runtime: it decides where and when `run_shard` is called, nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.plan import PlannedShard, RunPlan

    from sidecar_runtimes.progress import RunObserver


class Runtime(ABC):
    """Processes the shards of a plan.

    A shard that fails is tried again when that may help, then reported as failed; the others go on.

    Attributes:
        name: what `--runtime` and manifests call it.
    """

    name: ClassVar[str]

    @abstractmethod
    def run(
        self,
        plan: RunPlan,
        shards: Sequence[PlannedShard],
        observer: RunObserver,
        *,
        stop: threading.Event,
    ) -> Iterator[ShardReport]:
        """Yields one report a shard, in the order in which shards end.

        When `stop` is set, or the iterator is closed, nothing new is started, shards under way are given
        up and leave no output, and every process that was started is ended.

        Raises:
            SidecarError: the run as a whole cannot go on, such as a side input that does not load.
        """

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Returns the runtime's numbers for the manifest: workers and the like."""
