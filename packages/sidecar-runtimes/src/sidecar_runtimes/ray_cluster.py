"""A Ray cluster: started here or attached to, kept quiet, and asked what it can hold.

Ray is imported on first use, after the environment that it reads while it is imported.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import socket
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from sidecar_core.errors import SidecarError, UsageError
from sidecar_core.isolation.options import available_cores

from sidecar_runtimes.bundles import GIB, NodeSize
from sidecar_runtimes.flight_recorder import read_flights
from sidecar_runtimes.interrupts import DeferredInterrupts
from sidecar_runtimes.ray_thread import RayThread
from sidecar_runtimes.result_stdout import stdout_to_stderr
from sidecar_runtimes.shard_queue import WorkerDeath

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from sidecar_runtimes.bundles import Bundle

_LOCAL_OBJECT_STORE_BYTES = 128 * 2**20  # only plans and reports go through it
_REPORT_PENDING_S = 60.0
_ANSWER_S = 10.0
_LOCAL_STARTS = 4
_INIT_OPTIONS: Mapping[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_NODE_MEMORY = re.compile(r"was ([\d.]+) ?GB(?: used)? / ([\d.]+) ?GB")
_WORKER_MEMORY = re.compile(r"actual memory used=([\d.]+) ?GB")
_QUIET: Mapping[str, str] = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run` each worker would install the workspace again
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_logger = logging.getLogger("sidecar")


class ClusterError(SidecarError, RuntimeError):
    """The cluster cannot hold what the run asks for, or cannot be used."""


def refuse_without_ray() -> None:
    """Raises UsageError when Ray is not installed; for asking before anything begins, Ray is not imported."""
    if find_spec("ray") is None:
        raise _no_ray("it is not installed")


def _no_ray(fact: object) -> UsageError:
    return UsageError(
        f"the runtimes 'ray' and 'actor' need the package ray, which cannot be imported: {fact}",
        None,
        "uv add 'sidecar-runtimes[ray]' (pip install 'sidecar-runtimes[ray]'), or --runtime local",
    )


def load_ray() -> Any:  # noqa: ANN401 - Ray is optional, and so are its types
    """Imports Ray with an environment that keeps it quiet; what the user set stays.

    Raises:
        UsageError: Ray is not installed.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray

        for part in ("ray.exceptions", "ray.util.scheduling_strategies"):
            import_module(part)
    except ImportError as error:
        raise _no_ray(error) from error
    return ray


@contextmanager
def _raylet_to_log() -> Generator[None]:
    """Has Ray's guesses about workers that died, many lines each, logged for debugging instead of printed.

    Ray has no option for it. Where a version of Ray has no such function they are printed as before.
    """
    module: Any = import_module("ray._private.worker")
    printed = getattr(module, "print_to_stdstream", None)
    if printed is None:
        yield
        return

    def log(data: Mapping[str, Any], *_: object, **__: object) -> None:
        _logger.debug("%s: %s", data.get("pid"), "; ".join(map(str, data.get("lines", ()))))

    module.print_to_stdstream = log
    try:
        yield
    finally:
        module.print_to_stdstream = printed


class RayCluster:
    """A connection to a cluster, or a cluster of this machine for the time of the context.

    A process that is connected already uses that connection and leaves it open.

    Args:
        address: of a cluster, as `ray.init` takes it; None starts one here.
        cpus: cores of a cluster that is started here; default the machine's.
        interrupts: open while the cluster is; by default signals are deferred only while Ray starts and ends.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: int | None = None,
        interrupts: DeferredInterrupts | None = None,
    ) -> None:
        self._address = address
        self._cpus = cpus
        self._interrupts = interrupts
        self._stack = ExitStack()
        self.ray: Any = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(stdout_to_stderr())  # Ray writes to it
            with self._deferred() as interrupts:
                self.ray = load_ray()
                interrupts.act()
                if not self.ray.is_initialized():
                    stack.enter_context(_raylet_to_log())
                    self._connect(stack, interrupts)
                interrupts.act()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def nodes(self) -> list[NodeSize]:
        """Returns the living nodes that have cores for workers, the largest first."""
        sizes = [
            NodeSize(
                name=str(node["NodeManagerAddress"]),
                cpus=float(node["Resources"].get("CPU", 0)),
                memory_bytes=float(node["Resources"].get("memory", 0)),
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]
        return sorted((size for size in sizes if size.cpus), key=lambda size: (-size.cpus, -size.memory_bytes))

    def check(self, bundle: Bundle) -> int:
        """Returns how many such bundles the cluster holds when nothing else runs.

        Raises:
            ClusterError: no node can hold even one; Ray itself would wait for ever.
        """
        nodes = self.nodes()
        fits = sum(node.holds(bundle) for node in nodes)
        if fits:
            return fits
        raise ClusterError(
            f"no node of the cluster can hold {_an(bundle.what)} of {bundle}",
            "at most what a node has: " + ("; ".join(str(node) for node in nodes[:5]) or "there is no node with CPUs"),
            f"a smaller {bundle.flags}, or larger nodes",
        )

    def missing_for(self, bundle: Bundle) -> str:
        """Returns what there is now against what a bundle needs, for messages."""
        free = self.ray.available_resources()
        return (
            f"each needs {bundle}; free in the whole cluster: {free.get('CPU', 0):g} CPUs, "
            f"{free.get('memory', 0) / GIB:.1f} GiB"
        )

    def elsewhere(self, avoid: frozenset[str]) -> object:
        """Returns the scheduling strategy that prefers other nodes than these."""
        strategies = self.ray.util.scheduling_strategies
        if not avoid:
            return "DEFAULT"
        return strategies.NodeLabelSchedulingStrategy(
            hard={}, soft={"ray.io/node-id": strategies.NotIn(*sorted(avoid))}
        )

    def ready(self, refs: Sequence[Any], timeout_s: float) -> list[Any]:
        """Waits until one of the results is there, and returns all that are."""
        wait: Callable[..., tuple[list[Any], list[Any]]] = self.ray.wait
        done, rest = wait(list(refs), num_returns=1, timeout=timeout_s, fetch_local=False)
        if done and rest:
            more, _ = wait(rest, num_returns=len(rest), timeout=0, fetch_local=False)
            done += more
        return done

    def left_behind(self, run_id: str, rel_path: str) -> str:
        """Returns what the nodes know about the ends of workers that had the shard, or an empty text."""
        ask = self.ray.remote(num_cpus=0, max_retries=0)(read_flights)
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        asked = [
            ask.options(scheduling_strategy=affinity(node["NodeID"], soft=False)).remote(run_id, rel_path)
            for node in self.ray.nodes()
            if node["Alive"]
        ]
        answered, late = self.ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_S)
        for ref in late:
            self.ray.cancel(ref, force=True)
        found: list[str] = []
        for ref in answered:
            try:
                found.append(self.ray.get(ref))
            except self.ray.exceptions.RayError as error:  # the report goes without it
                _logger.debug("a node did not say how a worker ended: %s", error)
        return "; ".join(dict.fromkeys(text for text in found if text))

    def death_in(self, error: Exception, *, node_id: str = "") -> WorkerDeath:
        """Returns what an error of Ray says for certain about the end of a worker; its guesses are left out.

        Args:
            error: what `ray.get` raised.
            node_id: the node that the worker was on, where known.
        """
        errors = self.ray.exceptions
        name = type(error).__name__
        if isinstance(error, errors.OutOfMemoryError):
            worker, node = _WORKER_MEMORY.search(str(error)), _NODE_MEMORY.search(str(error))
            own = f" at {worker[1]} GB" if worker else ""
            all_of_it = f", with {node[1]} GB of the node's {node[2]} GB in use" if node else ""
            return WorkerDeath(f"Ray's memory monitor ended it{own}{all_of_it}", name)
        if node_id and not any(node["Alive"] and node["NodeID"] == node_id for node in self.ray.nodes()):
            return WorkerDeath("the node is gone", name, blameless=True)
        if isinstance(error, errors.NodeDiedError) or getattr(error, "preempted", False):
            return WorkerDeath("the node is gone", name, blameless=True)
        if isinstance(error, errors.ActorUnavailableError):
            return WorkerDeath("its connection was lost", name, blameless=True)
        return WorkerDeath("it ended without an answer", name)

    def is_death(self, error: Exception) -> bool:
        """Returns whether an error of Ray means that the worker is no longer there."""
        errors = self.ray.exceptions
        kinds = (errors.WorkerCrashedError, errors.RayActorError, errors.OutOfMemoryError, errors.NodeDiedError)
        return isinstance(error, kinds)

    def _deferred(self) -> AbstractContextManager[DeferredInterrupts]:
        return DeferredInterrupts() if self._interrupts is None else nullcontext(self._interrupts)

    def _end(self, thread: RayThread) -> None:
        """Ends Ray; what does not end is left to end with this process."""
        try:
            if not thread.stuck:
                with self._deferred() as interrupts:
                    thread.interrupts = interrupts
                    thread.call(self.ray.shutdown)
        finally:
            if thread.stuck:
                atexit.unregister(self.ray.shutdown)  # it would wait for ever
            thread.end()

    def _connect(self, stack: ExitStack, interrupts: DeferredInterrupts) -> None:
        """Attaches or starts Ray, and has `stack` end it."""
        starts = 1 if self._address is not None else _LOCAL_STARTS
        for start in range(1, starts + 1):
            # leaving a failed attempt ends its thread, and by that what Ray had started and forgotten
            with ExitStack() as attempt:
                thread = RayThread(interrupts)
                attempt.callback(self._end, thread)
                try:
                    thread.call(self._start if self._address is None else self._attach)
                except ClusterError:
                    raise
                except Exception as error:  # Ray raises no narrower one when 30 s are too short for a busy machine
                    if self._address is not None:
                        raise
                    if start == starts:
                        message = f"Ray did not start on this machine in {start} attempts: {error}"
                        raise ClusterError(message, None, "--runtime local") from error
                    interrupts.act()
                    _logger.warning("Ray did not start, trying again: %s", error)
                    continue
                stack.push(attempt.pop_all())
                return

    def _attach(self) -> None:
        _refuse_silent_host(self._address or "")
        try:
            self.ray.init(address=self._address, **_INIT_OPTIONS)
        except (ConnectionError, RuntimeError, ValueError) as error:
            message = f"no Ray cluster answers at {self._address!r}: {error}"
            raise ClusterError(message, None, "check --ray-address and RAY_ADDRESS") from error

    def _start(self) -> None:
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # a cluster of this machine alone, gone in a moment
        self.ray.init(
            address="local",
            num_cpus=self._cpus or available_cores(),
            include_dashboard=False,
            object_store_memory=_LOCAL_OBJECT_STORE_BYTES,
            **_INIT_OPTIONS,
        )


class PendingWatch:
    """Tells once a minute what workers that do not start are waiting for."""

    def __init__(self, cluster: RayCluster, bundle: Bundle, *, every_s: float = _REPORT_PENDING_S) -> None:
        self._cluster = cluster
        self._bundle = bundle
        self._every_s = every_s
        self._told = time.monotonic()

    def look(self, pending: int, total: int) -> None:
        """Warns when a minute has passed and some of the workers still have no place."""
        now = time.monotonic()
        if not pending:
            self._told = now
        elif now - self._told >= self._every_s:
            waited_s = now - self._told
            self._told = now
            _logger.warning(
                "%d of %d %ss have not started for %.0f s: %s",
                pending,
                total,
                self._bundle.what,
                waited_s,
                self._cluster.missing_for(self._bundle),
            )


def _refuse_silent_host(address: str) -> None:
    """Raises ClusterError when nothing answers at `host:port`: Ray itself would try for many minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdigit():
        return  # a word such as `auto`, which Ray resolves
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except (OSError, OverflowError) as error:
        message = f"no Ray cluster answers at {address!r}: {error}"
        raise ClusterError(message, None, "check --ray-address and RAY_ADDRESS") from error


def _an(what: str) -> str:
    return f"an {what}" if what.startswith("a") else f"a {what}"
