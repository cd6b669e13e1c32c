"""The run manifest: what a run did, written at its start, each minute, and at its end."""

from __future__ import annotations

import json
import logging
import platform
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal, Self

from sidecar_core.errors import StorageError
from sidecar_core.offers import offered_by_packages
from sidecar_core.storage import RUN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.outcome import ShardReport
    from sidecar_core.plan import RunPlan
    from sidecar_core.storage import Storage

_WRITE_EVERY_S = 60.0
_FIRST_WRITE_S = 5.0
_DECIDING = ("pyarrow", "pillow", "pyvips", "pyvips-binary", "numpy", "opencv-python-headless", "ray", "pydantic")
_WITHOUT_OFFERS = ("sidecar-runtimes", "sidecar-cli")
_OFFERS = ("sidecar.ops", "sidecar.filters")  # groups of entry points of what computes values
_logger = logging.getLogger("sidecar")

Outcome = Literal["running", "done", "failed", "interrupted", "lost_lease"]


@dataclass
class RunTally:
    """Counts of a run while it goes on.

    Attributes:
        planned: shards to process or to skip.
        shards: shards by what became of them: done, skipped, failed.
        rows: rows of committed shards.
        invalid: per output, invalid rows by reason.
        failed: reports of the shards that were given up.
    """

    planned: int = 0
    shards: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    invalid: dict[str, Counter[str]] = field(default_factory=dict)
    failed: list[ShardReport] = field(default_factory=list)

    def add(self, report: ShardReport) -> None:
        """Counts one shard."""
        self.shards[report.status] += 1
        if report.status == "failed":
            self.failed.append(report)
            return
        self.rows += report.rows
        self.bytes_in += report.bytes_in
        self.bytes_out += report.bytes_out
        for output, reasons in report.invalid.items():
            self.invalid.setdefault(output, Counter()).update(reasons)

    @property
    def invalid_rows(self) -> int:
        """Invalid rows of the output that has most of them."""
        return max((reasons.total() for reasons in self.invalid.values()), default=0)


class RunManifest:
    """Writes `<output_prefix>_sidecar/runs/<run_id>.json` in each output, from its start to its end.

    Use as a context manager; leaving it without `finish` records an interrupted run. With `retried`, it tells of
    a retry of the rows with these reasons: its rows are those that were computed again. `remarks` are what ops want
    to be known of the run, and `replaces` tells whether it replaces shards that were there before it.

    Attributes:
        problem: why its last state could not be written, or None.
    """

    def __init__(
        self,
        plan: RunPlan,
        outputs: Sequence[Storage],
        tally: RunTally,
        *,
        runtime: Mapping[str, object],
        command: Sequence[str] | None = None,
        retried: Sequence[str] = (),
        remarks: Sequence[str] = (),
        replaces: bool = False,
    ) -> None:
        self._plan = plan
        self._retried = list(retried)
        self._remarks = list(remarks)
        self._replaces = replaces
        self._outputs = outputs
        self._tally = tally
        self._runtime = runtime
        self._command = list(sys.argv if command is None else command)
        self._started = datetime.now(UTC)
        self._outcome: Outcome = "running"
        self.problem: str | None = None
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, name="sidecar-manifest", daemon=True)

    def __enter__(self) -> Self:
        self.write()
        self._writer.start()
        return self

    def finish(self, outcome: Outcome) -> None:
        """Sets how the run ended; it is written when the context is left."""
        self._outcome = outcome

    def __exit__(self, exc_type: type[BaseException] | None, *rest: object) -> None:
        self._stop.set()
        self._writer.join()
        if self._outcome == "running":
            self._outcome = "failed" if exc_type is not None and issubclass(exc_type, Exception) else "interrupted"
        try:
            self.write()
            if self._outcome != "lost_lease":  # the list is that of whoever holds it now
                self._write_failed_shards()
        except StorageError as error:  # what the run did counts more; the caller tells that this went wrong too
            self.problem = f"the run's manifest is not complete: {error}"
            _logger.warning("%s", self.problem)

    def write(self) -> None:
        """Writes the manifest as it stands into every output."""
        for output, storage in zip(self._plan.outputs, self._outputs, strict=True):
            text = json.dumps(self._content(output.name), indent=2, ensure_ascii=False)
            storage.write_bytes(f"{RUN_FOLDER}/runs/{self._plan.run_id}.json", _json_bytes(text))

    def _content(self, output_name: str) -> dict[str, object]:
        plan, tally = self._plan, self._tally
        output = next(output for output in plan.outputs if output.name == output_name)
        now = datetime.now(UTC)
        elapsed_s = max((now - self._started).total_seconds(), 1e-9)
        return {
            "run_id": plan.run_id,
            "kind": "retry" if self._retried else "run",
            "retried_reasons": self._retried,
            "outcome": self._outcome,
            "remarks": self._remarks,
            "replaces": self._replaces,
            "started": self._started.isoformat(timespec="seconds"),
            "written": now.isoformat(timespec="seconds"),
            "elapsed_s": round(elapsed_s, 3),
            "command": self._command,
            "output": {"name": output.name, "prefix": output.prefix, "fingerprint": output.fingerprint},
            "outputs": {other.name: other.prefix for other in plan.outputs},
            "dataset": plan.dataset_document(),
            "pipeline": plan.pipeline_document(),
            "runtime": dict(self._runtime),
            "shards": {
                "total": tally.planned,
                **{status: tally.shards[status] for status in ("done", "skipped", "failed")},
            },
            "rows": tally.rows,
            "rows_per_s": round(tally.rows / elapsed_s, 2),
            "invalid": dict(tally.invalid.get(output.name, {})),
            "bytes_in": tally.bytes_in,
            "bytes_out": tally.bytes_out,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}",
            "packages": _package_versions(),
        }

    def _write_failed_shards(self) -> None:
        """Writes one JSON line a failed shard; a run without failures empties the list of the run before."""
        lines = [
            json.dumps(
                {
                    "run_id": self._plan.run_id,
                    "shard": report.rel_path,
                    "error_type": report.error_type,
                    "error": report.error,
                    "attempts": report.attempts,
                },
                ensure_ascii=False,
            )
            for report in self._tally.failed
        ]
        for storage in self._outputs:
            if lines or (not self._retried and storage.stat(f"{RUN_FOLDER}/failed_shards.jsonl") is not None):
                text = "".join(f"{line}\n" for line in lines)
                storage.write_bytes(f"{RUN_FOLDER}/failed_shards.jsonl", _json_bytes(text))

    def _keep_writing(self) -> None:
        pause_s = _FIRST_WRITE_S  # whoever asks how a new run does need not wait for a minute
        while not self._stop.wait(pause_s):
            pause_s = min(2 * pause_s, _WRITE_EVERY_S)
            try:
                self.write()
            except StorageError as error:  # the run goes on; it is written again in a minute and at the end
                _logger.warning("the run's manifest is not up to date: %s", error)


def _json_bytes(text: str) -> bytes:
    """Returns JSON as UTF-8; what stands for a byte of a path that is none becomes JSON's escape of it."""
    return text.encode(errors="backslashreplace")


@cache
def _package_versions() -> dict[str, str]:
    """Versions of sidecar's packages, of those that offer ops or filters, and of what decides their output.

    Only these are looked at: reading what a hundred other packages tell of themselves would delay each run by 0.1 s.
    """
    found: dict[str, str] = {}
    for name in (*_WITHOUT_OFFERS, *_DECIDING):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    offering = {point.dist for group in _OFFERS for point in offered_by_packages(group) if point.dist is not None}
    found.update({distribution.name.lower(): distribution.version for distribution in offering})
    return found
