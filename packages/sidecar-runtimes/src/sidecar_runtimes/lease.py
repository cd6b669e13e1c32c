"""One writer for a prefix: the leases that a run takes, keeps alive, and gives back.

The file is `_sidecar/lease.json` in every output. It is created, renewed and taken over by conditional
writes, so that of several writers one wins; where the store ignores conditions, it is called advisory.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sidecar_core.errors import ConflictError, RefusedError, StorageError, UsageError
from sidecar_core.lease import LEASE_PATH, STALE_AFTER_S, LeaseRecord, find_lease, lost_lease, require_leases

from sidecar_runtimes.interrupts import DeferredInterrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar_core.errors import LeaseLostError
    from sidecar_core.lease import FoundLease
    from sidecar_core.storage import ObjectInfo, Storage

_BEATS_BEFORE_STALE = 4
_MOST_S_BETWEEN_BEATS = 10.0
_LOOK_S = 1.0
_MIN_STALE_S = 1.0
_logger = logging.getLogger("sidecar")


@dataclass(frozen=True)
class LeaseOptions:
    """How a run gets its leases.

    Attributes:
        stale_s: seconds without a heartbeat after which a lease may be taken over: this run's by others, and
            another's by this run. None: 120, and another's when its holder says so.
        steal: take the lease of a writer that may be alive.
        wait_s: how long to wait for a lease that is held, in seconds.
    """

    stale_s: float | None = None
    steal: bool = False
    wait_s: float = 0.0

    def check(self) -> None:
        """Raises UsageError for numbers that make no sense."""
        if self.stale_s is not None and not _MIN_STALE_S <= self.stale_s < math.inf:
            raise UsageError(f"--lease-stale-s {self.stale_s:g}: must be finite and at least {_MIN_STALE_S:g}")
        if not 0 <= self.wait_s < math.inf:
            raise UsageError(f"--wait-lease {self.wait_s:g}: must be finite and at least 0")


@dataclass
class _Held:
    """A lease of this run as it was written last."""

    storage: Storage
    info: ObjectInfo
    record: LeaseRecord
    renewed_s: float  # by the monotonic clock


class RunLeases:
    """Holds the lease of every output of a run while its context is open.

    A thread renews them. When that fails for too long, when another run took one, or when this process
    slept for too long, they are lost for good: `on_lost` is called, and `check` raises.

    Args:
        run_id: the run.
        outputs: the storages that it writes to.
        options: how to get the leases.
        on_lost: called once, from another thread, when a lease is lost.
    """

    def __init__(
        self,
        run_id: str,
        outputs: Sequence[Storage],
        options: LeaseOptions,
        *,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        options.check()
        self._run_id = run_id
        self._outputs = sorted(outputs, key=lambda storage: storage.prefix)  # no two runs wait for each other
        self._options = options
        self._on_lost = on_lost
        self._stale_s = STALE_AFTER_S if options.stale_s is None else options.stale_s
        self._every_s = min(self._stale_s / _BEATS_BEFORE_STALE, _MOST_S_BETWEEN_BEATS)
        self._held: list[_Held] = []
        self._lost: LeaseLostError | None = None
        self._stop = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="sidecar-lease", daemon=True)

    def __enter__(self) -> Self:
        """Takes every lease, or none.

        Raises:
            RefusedError: somebody else holds one, and did not give it back in the time to wait.
        """
        deadline_s = time.monotonic() + self._options.wait_s
        try:
            for storage in self._outputs:
                self._take(storage, deadline_s)
                if len(self._held) == 1:
                    self._heart.start()  # the first must not grow stale while others are waited for
        except BaseException:
            with DeferredInterrupts():
                self._give_back()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        with DeferredInterrupts():
            self._give_back()

    def lose(self, why: LeaseLostError) -> None:
        """Takes note that a lease is lost, for whoever finds out first."""
        if self._lost is None:
            self._lost = why
            self._on_lost()

    def check(self) -> None:
        """Raises LeaseLostError when a lease is lost; asks the outputs, not only the last heartbeat."""
        if self._lost is not None:
            raise self._lost
        require_leases(self._outputs, self._run_id)

    @property
    def lost(self) -> LeaseLostError | None:
        """How a lease was lost, or None while this run holds them all, as far as it knows."""
        return self._lost

    def _take(self, storage: Storage, deadline_s: float) -> None:
        advisory = not storage.honours_conditions()
        if advisory:
            _logger.warning(
                "%s: this store ignores conditions, so the lease is advisory: see to it that nobody else writes there",
                storage.prefix,
            )
        told = False
        while True:
            found = find_lease(storage)
            if found is not None and found.record.run_id != self._run_id and not self._may_take(storage, found):
                if time.monotonic() >= deadline_s:
                    raise held_lease(storage.prefix, found.record, self._options)
                if not told:
                    told = True
                    wait_s = deadline_s - time.monotonic()
                    _logger.warning("waiting up to %.0f s for %s: %s", wait_s, storage.prefix, found.record.holder())
                time.sleep(min(_LOOK_S, max(0.0, deadline_s - time.monotonic())))
                continue
            record = LeaseRecord.of_this_process(
                self._run_id, stale_after_s=self._stale_s, beat_every_s=self._every_s, advisory=advisory
            )
            with DeferredInterrupts():  # between taking it and knowing it, a lease would be left
                began_s = time.monotonic()
                try:
                    if found is None:
                        info = storage.write_bytes(LEASE_PATH, record.to_bytes(), if_absent=True)
                    else:
                        info = storage.write_bytes(LEASE_PATH, record.to_bytes(), if_match=found.info)
                except ConflictError:
                    continue  # somebody was faster; look again
                self._held.append(_Held(storage, info, record, began_s))
                return

    def _may_take(self, storage: Storage, found: FoundLease) -> bool:
        record = found.record
        if record.is_stale(stale_s=self._options.stale_s):
            why = "its process has ended" if record.is_dead() else "it had no heartbeat for too long"
            _logger.warning("taking over the lease of %s from %s: %s", storage.prefix, record.holder(), why)
            return True
        if self._options.steal:
            _logger.warning("stealing the lease of %s from %s", storage.prefix, record.holder())
            return True
        return False

    def _beat(self) -> None:
        while not self._stop.wait(self._every_s):
            for held in list(self._held):
                if self._lost is None and not self._stop.is_set():
                    self._renew(held)

    def _renew(self, held: _Held) -> None:
        """Writes a heartbeat; one that is too late, or fails because of another writer, ends the lease."""
        silent_s = max(time.monotonic() - held.renewed_s, held.record.age_s())  # some clocks stop in a sleep
        if silent_s > self._stale_s:
            why = f"it had no heartbeat for {silent_s:.0f} s, and counts for {self._stale_s:g} s"
            self.lose(lost_lease(held.storage.prefix, self._run_id, why))
            return
        record, began_s = held.record.beat(), time.monotonic()
        try:
            held.info = held.storage.write_bytes(LEASE_PATH, record.to_bytes(), if_match=held.info)
        except ConflictError:
            self.lose(lost_lease(held.storage.prefix, self._run_id, _who_took(held.storage)))
            return
        except StorageError as error:
            _logger.warning("the lease of %s was not renewed, trying again: %s", held.storage.prefix, error)
            return
        held.record, held.renewed_s = record, began_s

    def _give_back(self) -> None:
        """Removes what this run still holds, each with a last heartbeat, which fails when it is another's by now."""
        self._stop.set()
        if self._heart.is_alive():
            self._heart.join()
        for held in self._held:
            try:
                held.storage.write_bytes(LEASE_PATH, held.record.beat().to_bytes(), if_match=held.info)
                held.storage.delete(LEASE_PATH)
            except ConflictError:
                continue  # whose it is now will remove it
            except StorageError as error:
                _logger.warning("the lease of %s was not given back; it grows stale: %s", held.storage.prefix, error)
        self._held = []


def refuse_held(outputs: Sequence[Storage], options: LeaseOptions) -> None:
    """Raises RefusedError when somebody writes to an output now, and the options neither wait nor steal."""
    options.check()
    if options.steal or options.wait_s:
        return
    for storage in outputs:
        found = find_lease(storage)
        if found is not None and not found.record.is_stale(stale_s=options.stale_s):
            raise held_lease(storage.prefix, found.record, options)


def held_lease(prefix: str, record: LeaseRecord, options: LeaseOptions) -> RefusedError:
    """Returns the refusal of a second writer: who holds the lease, and how to proceed."""
    stale_s = max(record.stale_after_s if options.stale_s is None else options.stale_s, 2 * record.beat_every_s)
    waited = f" after waiting {options.wait_s:g} s" if options.wait_s else ""
    return RefusedError(
        f"{prefix} is being written{waited}: its lease is held by {record.holder()}",
        f"one writer at a time; without a heartbeat for {stale_s:g} s the lease may be taken",
        "wait for that run (--wait-lease SECONDS), end it, choose another --output-prefix, or --steal-lease "
        "when it is sure that it writes no more",
    )


def _who_took(storage: Storage) -> str:
    try:
        found = find_lease(storage)
    except StorageError:
        found = None
    return f"there is no {LEASE_PATH}" if found is None else f"it is held by {found.record.holder()}"
