"""What a run into a prefix is doing or did, from its run folder and a listing of its shards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from sidecar_core.errors import StorageNotFoundError
from sidecar_core.lease import find_lease
from sidecar_core.problems import counted
from sidecar_core.storage import RUN_FOLDER

from sidecar_runtimes.success import SUCCESS_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.lease import LeaseRecord
    from sidecar_core.storage import Storage

_RUNS_READ = 5


@dataclass(frozen=True)
class RunStatus:
    """One run, as its manifest tells.

    Attributes:
        run_id: the run.
        kind: `run` or `retry`.
        state: `running`; `done`, `failed`, `interrupted` or `lost_lease` as it ended; `died` when it ended without
            a word: its manifest says that it goes on, and it holds no live lease.
        started: when, UTC, ISO 8601.
        written: when the manifest was written last; once a minute and at the end.
        elapsed_s: seconds from the start until then.
        runtime: the runtime's name.
        shards: shards `total` (to process and skipped), `done`, `skipped` and `failed`.
        rows: rows of the shards that are done.
        rows_per_s: rows a second since the start, on average.
        shards_per_s: shards a second, likewise.
        eta_s: seconds that the rest takes at that rate, of a run that goes on; None when it cannot be told.
        invalid: invalid rows of this output by reason.
        replaces: whether it replaces shards that were there before it, so that the same command begins anew.
    """

    run_id: str
    kind: str
    state: str
    started: str
    written: str
    elapsed_s: float
    runtime: str
    shards: Mapping[str, int]
    rows: int
    rows_per_s: float
    shards_per_s: float
    eta_s: float | None
    invalid: Mapping[str, int]
    replaces: bool


@dataclass(frozen=True)
class Completion:
    """What `_sidecar/SUCCESS` says: every shard of the main dataset was there when a run ended.

    Attributes:
        run_id: the run.
        shards: how many shards the main dataset had then.
        written: when, UTC, ISO 8601.
    """

    run_id: str
    shards: int
    written: str


@dataclass(frozen=True)
class OutputStatus:
    """What is there of an output, and its last runs.

    Attributes:
        prefix: the output.
        shards: shards that are listed there now, whoever made them.
        bytes: their size in bytes.
        complete: whether every shard of the main dataset was there when `completed` was written, and no fewer are
            there now. Shards that the main dataset got since then are not seen.
        completed: when that was, or None: no run has left the marker, or one has begun since.
        lease: the lease as `lease.json` says, or None; `lease.holder()` says in words who writes. See
            `lease_is_stale`.
        lease_is_stale: whether its holder no longer counts.
        runs: the last runs, latest first.
        runs_in_all: how many runs left a manifest.
        failed_shards: what `failed_shards.jsonl` says of the last run that had any.
    """

    prefix: str
    shards: int
    bytes: int
    complete: bool
    completed: Completion | None
    lease: LeaseRecord | None
    lease_is_stale: bool
    runs: tuple[RunStatus, ...]
    runs_in_all: int
    failed_shards: tuple[Mapping[str, Any], ...]

    def completeness(self) -> str:
        """Returns in words whether it is complete."""
        if self.completed is None:
            return "not marked so"
        shards = counted(self.completed.shards, "shard")
        then = f"when run {self.completed.run_id} ended, at {self.completed.written}"
        if self.complete:
            return f"all {shards} of the main dataset were there {then}"
        return f"no longer: fewer are there than the {shards} {then}"


def output_status(output: Storage, *, runs_read: int = _RUNS_READ) -> OutputStatus:
    """Returns the status of an output; lists it, reads its last manifests, and changes nothing.

    Args:
        output: the output.
        runs_read: how many of the last runs are told of.

    Raises:
        StorageNotFoundError: there is nothing at the prefix.
    """
    shards = output.list_shards()
    manifests = [
        info.rel_path
        for info in output.list_objects(f"{RUN_FOLDER}/runs/", missing_ok=True)
        if info.rel_path.endswith(".json")
    ]
    found = find_lease(output)
    lease = None if found is None else found.record
    live = lease is not None and not lease.is_stale()
    holder = lease.run_id if lease is not None and live else None
    completed = _completion(output)
    filled = sum(1 for info in shards if info.size_bytes)
    contents = [_read_json(output, rel_path) for rel_path in reversed(manifests[-runs_read:])]
    return OutputStatus(
        prefix=output.prefix,
        shards=len(shards),
        bytes=sum(info.size_bytes for info in shards),
        complete=completed is not None and filled >= completed.shards,
        completed=completed,
        lease=lease,
        lease_is_stale=lease is not None and not live,
        runs=tuple(_run_status(content, holder) for content in contents if content is not None),
        runs_in_all=len(manifests),
        failed_shards=_failed_shards(output),
    )


def _run_status(manifest: Mapping[str, Any], holder: str | None) -> RunStatus:
    state = str(manifest["outcome"])
    running = state == "running" and manifest["run_id"] == holder
    if state == "running" and not running:
        state = "died"
    shards: dict[str, int] = dict(manifest["shards"])
    elapsed_s = float(manifest["elapsed_s"])
    ended = shards["done"] + shards["failed"]
    rate = ended / max(elapsed_s, 1e-9)
    left = shards["total"] - shards["skipped"] - ended
    since_s = (datetime.now(UTC) - datetime.fromisoformat(manifest["written"])).total_seconds()
    return RunStatus(
        run_id=str(manifest["run_id"]),
        kind=str(manifest.get("kind", "run")),
        state=state,
        started=str(manifest["started"]),
        written=str(manifest["written"]),
        elapsed_s=elapsed_s,
        runtime=str(manifest["runtime"]["name"]),
        shards=shards,
        rows=int(manifest["rows"]),
        rows_per_s=float(manifest["rows_per_s"]),
        shards_per_s=round(rate, 4),
        eta_s=round(max(0.0, left / rate - since_s), 1) if running and rate else None,
        invalid=dict(manifest["invalid"]),
        replaces=bool(manifest.get("replaces", False)),
    )


def _completion(output: Storage) -> Completion | None:
    """Returns what the marker says, or None when there is none, or what is there is none."""
    try:
        content = json.loads(output.read_bytes(SUCCESS_PATH))
        return Completion(str(content["run_id"]), int(content["shards"]), str(content["written"]))
    except (StorageNotFoundError, LookupError, TypeError, ValueError, RecursionError):
        return None


def _read_json(output: Storage, rel_path: str) -> Mapping[str, Any] | None:
    """Returns a manifest, or None when it is none or has just been removed."""
    try:
        content: object = json.loads(output.read_bytes(rel_path))
    except (ValueError, RecursionError, StorageNotFoundError):
        return None
    wanted = {"run_id", "outcome", "shards", "elapsed_s", "started", "written", "runtime", "rows", "invalid"}
    if not isinstance(content, dict):
        return None
    manifest = cast("dict[str, Any]", content)
    return manifest if wanted <= manifest.keys() else None


def _failed_shards(output: Storage) -> tuple[Mapping[str, Any], ...]:
    try:
        text = output.read_bytes(f"{RUN_FOLDER}/failed_shards.jsonl").decode()
        return tuple(json.loads(line) for line in text.splitlines() if line)
    except (StorageNotFoundError, ValueError, RecursionError):
        return ()
