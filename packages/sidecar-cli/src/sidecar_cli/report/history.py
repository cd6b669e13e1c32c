"""What the run folder of an output tells: runs, receipts, and where the main dataset is."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sidecar_core.errors import StorageError
from sidecar_core.footer import FooterInfo
from sidecar_core.problems import counted
from sidecar_core.proof import read_receipt
from sidecar_core.storage import RUN_FOLDER, ObjectInfo, Storage

from sidecar_cli.report.figures import Verdict
from sidecar_cli.report.shown_text import shown
from sidecar_cli.report.words import moment

_TEXT_CHARACTERS = 20_000
_VERIFIERS = ("verify-resized", "verify")


@dataclass(frozen=True)
class LastRun:
    """What the manifest of the last run says about the output.

    Attributes:
        dataset: the dataset's document, empty without a manifest.
        pipeline: the pipeline's, as text, or empty.
        command: the command line as it can be typed, or empty.
        packages: versions by package.
    """

    dataset: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pipeline: str = ""
    command: str = ""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])


def read_last_run(output: Storage) -> LastRun:
    """Returns what the last readable manifest says."""
    for info in reversed(output.list_objects(f"{RUN_FOLDER}/runs/", missing_ok=True)):
        if not info.rel_path.endswith(".json"):
            continue
        try:
            content: object = json.loads(output.read_bytes(info.rel_path))
        except (ValueError, RecursionError, StorageError):
            continue
        if isinstance(content, dict):
            return _last_run(cast("dict[str, Any]", content))
    return LastRun()


def read_verdict(output: Storage, shards: Sequence[ObjectInfo]) -> Verdict:
    """Returns what the last verifier found, and whether it still holds for these shards."""
    receipts = [receipt for verifier in _VERIFIERS if (receipt := read_receipt(output, verifier)) is not None]
    if not receipts:
        return Verdict("none", "No verifier has looked at it.")
    receipt = max(receipts, key=lambda each: (each.covers(shards), each.written))
    looked_at = f"{receipt.checked_shards:,} of {counted(receipt.shards, 'shard')}"
    if receipt.all_shards:
        looked_at = "its one shard" if receipt.shards == 1 else f"all {receipt.shards:,} shards"
    by = f"“sidecar {shown(receipt.verifier)}” on {moment(shown(receipt.written))}"
    what = f"{looked_at}, {counted(receipt.rows, 'row')}"
    if not receipt.covers(shards):
        return Verdict("stale", f"The shards changed since they were looked at by {by}.")
    if not receipt.passed:
        problems = tuple(shown(problem, limit=600) for problem in receipt.problems)
        return Verdict("failed", f"Not verified: {by} found problems in {what}.", problems)
    return Verdict("passed", f"Verified by {by}: {what}.")


def main_prefix_of(footers: Mapping[str, FooterInfo | None]) -> str | None:
    """Returns the main dataset's prefix, as the footers of shards by path tell it."""
    for rel_path, footer in footers.items():
        for version in footer.inputs if footer is not None else ():
            if version.kind == "main" and version.uri.endswith(f"/{rel_path}"):
                return version.uri.removesuffix(rel_path)
    return None


def _last_run(content: Mapping[str, Any]) -> LastRun:
    dataset, pipeline = content.get("dataset"), content.get("pipeline")
    command, packages = content.get("command"), content.get("packages")
    return LastRun(
        dataset=cast("dict[str, Any]", dataset) if isinstance(dataset, dict) else {},
        pipeline=_as_text(pipeline) if pipeline else "",
        command=_as_typed(command) if isinstance(command, list) else "",
        packages={shown(name): shown(version) for name, version in packages.items()}
        if isinstance(packages, dict)
        else {},
    )


def _as_text(document: object) -> str:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    lines = [shown(line, limit=400) for line in text[:_TEXT_CHARACTERS].splitlines()]
    return "\n".join([*lines, "…"] if len(text) > _TEXT_CHARACTERS else lines)


def _as_typed(command: Sequence[object]) -> str:
    words = [str(word) for word in command]
    if words:
        words[0] = words[0].rsplit("/", 1)[-1]
        words[0] = "sidecar" if words[0] == "main.py" else words[0]
    return shown(shlex.join(words), limit=2000)
