"""Who may write below a prefix: what `lease.json` says, and how whoever commits asks it.

Taking, renewing and giving back a lease is the business of whoever runs shards; here is what everybody
must know: how it is read, when it is stale, and that nothing is committed without it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sidecar_core.errors import LeaseLostError, StorageNotFoundError
from sidecar_core.storage import RUN_FOLDER, ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.storage import ObjectInfo, Storage

LEASE_PATH = f"{RUN_FOLDER}/lease.json"
STALE_AFTER_S = 120.0
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True)
class LeaseRecord:
    """What `lease.json` says.

    Attributes:
        run_id: the run that holds the lease.
        host: name of the machine of its driver.
        pid: the driver's process number there.
        birth: what tells that process from others of the same number; see `ProcessIdentity`.
        machine: what tells machines of the same name apart, or empty where that is not known.
        since: when it was taken, UTC, ISO 8601.
        renewed: the last heartbeat, likewise.
        beats: how often it was renewed, so that no two versions are alike.
        beat_every_s: seconds between heartbeats.
        stale_after_s: seconds without a heartbeat after which it no longer counts.
        advisory: whether the store ignores conditions, so that two writers may both believe to hold it.
    """

    run_id: str
    host: str
    pid: int
    birth: str
    machine: str
    since: str
    renewed: str
    beats: int
    beat_every_s: float
    stale_after_s: float
    advisory: bool = False

    @classmethod
    def of_this_process(
        cls, run_id: str, *, stale_after_s: float, beat_every_s: float, advisory: bool = False
    ) -> LeaseRecord:
        """Returns a new record that names this process."""
        identity = ProcessIdentity.current()
        now = _now_text()
        return cls(
            run_id=run_id,
            host=identity.host,
            pid=identity.pid,
            birth=identity.birth,
            machine=_machine(),
            since=now,
            renewed=now,
            beats=0,
            beat_every_s=beat_every_s,
            stale_after_s=stale_after_s,
            advisory=advisory,
        )

    def beat(self) -> LeaseRecord:
        """Returns the record with a heartbeat of this moment."""
        return replace(self, renewed=_now_text(), beats=self.beats + 1)

    def to_bytes(self) -> bytes:
        """Returns the content of `lease.json`."""
        return json.dumps(asdict(self), indent=2).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> LeaseRecord:
        """Makes the record that `to_bytes` wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            record = cls(**cast("dict[str, object]", json.loads(data)))  # pyright: ignore[reportArgumentType]
            _ = record.since_s, record.age_s(), float(record.stale_after_s), float(record.beat_every_s)
            return replace(record, pid=int(record.pid), run_id=str(record.run_id))
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"not a lease: {error}") from error

    @property
    def since_s(self) -> float:
        """When it was taken, in seconds since 1970."""
        return datetime.fromisoformat(self.since).timestamp()

    def age_s(self, now: datetime | None = None) -> float:
        """Returns the seconds since the last heartbeat, by this machine's clock."""
        return ((now or datetime.now(UTC)) - datetime.fromisoformat(self.renewed)).total_seconds()

    def is_dead(self) -> bool:
        """Returns whether the holder is known to have ended; False for what cannot be seen from here."""
        here = ProcessIdentity.current().birth.partition(".")[0]
        another_boot = "." in self.birth and self.birth.partition(".")[0] != here
        if self.machine != _machine() or (another_boot and not self.machine):
            return False  # another machine may have the name of this one
        return ProcessIdentity(self.host, self.pid, self.birth).is_dead()

    def is_stale(self, *, stale_s: float | None = None, now: datetime | None = None) -> bool:
        """Returns whether the lease may be taken over.

        Args:
            stale_s: how long without a heartbeat is too long, for whoever asks; default what the holder said.
                Never less than two heartbeats of the holder.
            now: the time; default the present.
        """
        limit_s = max(self.stale_after_s if stale_s is None else stale_s, 2 * self.beat_every_s)
        return self.age_s(now) > limit_s or self.is_dead()

    def holder(self) -> str:
        """Returns who holds it, in words: run, process, host, since when, and the last heartbeat."""
        if not self.host:
            return f"somebody whose {LEASE_PATH} cannot be read, changed {max(0.0, self.age_s()):.0f} s ago"
        return (
            f"run {self.run_id} (process {self.pid} on {self.host}) since {self.since}, "
            f"last heartbeat {max(0.0, self.age_s()):.0f} s ago"
        )


@dataclass(frozen=True)
class FoundLease:
    """A lease that is there.

    Attributes:
        info: the version of `lease.json`.
        record: what it says.
    """

    info: ObjectInfo
    record: LeaseRecord


def find_lease(output: Storage) -> FoundLease | None:
    """Returns the lease of an output, stale or not, or None when there is none.

    A file that is no lease counts as one of an unknown holder, renewed when the file was changed.
    """
    info = output.stat(LEASE_PATH)
    if info is None:
        return None
    try:
        return FoundLease(info, LeaseRecord.from_bytes(output.read_bytes(LEASE_PATH)))
    except StorageNotFoundError:
        return None
    except ValueError:
        return FoundLease(info, _unreadable(info))


def live_lease(output: Storage) -> LeaseRecord | None:
    """Returns the lease under which somebody is writing to an output, or None."""
    found = find_lease(output)
    return None if found is None or found.record.is_stale() else found.record


def require_leases(outputs: Sequence[Storage], run_id: str) -> None:
    """Asks every output's `lease.json` whether this run may commit now.

    Raises:
        LeaseLostError: one names another run, is gone, or has had no heartbeat for too long, as after a sleep.
        StorageError: one could not be read.
    """
    for output in outputs:
        try:
            record = LeaseRecord.from_bytes(output.read_bytes(LEASE_PATH))
        except StorageNotFoundError as error:
            raise lost_lease(output.prefix, run_id, f"there is no {LEASE_PATH}") from error
        except ValueError as error:
            raise lost_lease(output.prefix, run_id, str(error)) from error
        if record.run_id != run_id:
            raise lost_lease(output.prefix, run_id, f"it is held by {record.holder()}")
        if record.age_s() > record.stale_after_s:
            why = f"it had no heartbeat for {record.age_s():.0f} s, and counts for {record.stale_after_s:g} s"
            raise lost_lease(output.prefix, run_id, why)


def lost_lease(prefix: str, run_id: str, why: str) -> LeaseLostError:
    """Returns the error of a run that lost the lease of `prefix`, given why in one clause."""
    return LeaseLostError(
        f"run {run_id} lost the lease of {prefix}: {why}; it commits nothing more",
        None,
        "when nobody else writes there, go on with --skip-existing, or begin anew if it was run with --overwrite; "
        "sidecar status shows who writes",
    )


def _unreadable(info: ObjectInfo) -> LeaseRecord:
    changed = datetime.fromtimestamp((info.mtime_ns or 0) / 1e9, UTC).isoformat(timespec="milliseconds")
    return LeaseRecord("", "", 0, "", "unreadable", changed, changed, 0, 0.0, STALE_AFTER_S)


def _now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        return _MACHINE_ID.read_text().strip()
    except OSError:
        return ""
