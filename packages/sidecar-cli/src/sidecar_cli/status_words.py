"""How `sidecar status` words what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sidecar_core.problems import counted

from sidecar_cli.output import Block, Facts, Table

if TYPE_CHECKING:
    from sidecar_runtimes.status import OutputStatus, RunStatus

_FAILED_SHOWN = 20


def describe_status(found: OutputStatus) -> dict[str, Any]:
    """Returns the status as JSON values."""
    return asdict(found)


def status_view(found: OutputStatus) -> list[Block]:
    """Returns the status for people: the output, its last run, what failed, the runs before."""
    view: list[Block] = [
        Facts(
            [
                ("output", found.prefix),
                ("shards there", f"{found.shards:,}  ({counted(found.bytes, 'byte')})"),
                ("complete", found.completeness()),
                ("writer", _writer(found)),
            ]
        )
    ]
    if not found.runs:
        view.append("No run has left a manifest here.")
        return view
    last, *others = found.runs
    view.append(Facts(_run_facts(last), title=f"Last {last.kind}"))
    if last.invalid:
        rows = sorted(last.invalid.items(), key=lambda item: (-item[1], item[0]))
        view.append(Table(("reason", "rows"), rows, title="Invalid rows"))
    if found.failed_shards:
        failed = [
            (each.get("shard"), each.get("error_type"), each.get("error"), each.get("attempts"))
            for each in found.failed_shards[:_FAILED_SHOWN]
        ]
        view.append(Table(("shard", "error", "message", "attempts"), failed, title="Failed shards"))
        if len(found.failed_shards) > _FAILED_SHOWN:
            view.append(f"and {len(found.failed_shards) - _FAILED_SHOWN:,} more")
    if others:
        rows = [(each.run_id, each.kind, each.state, each.shards["done"], each.rows) for each in others]
        title = "Runs before" if found.runs_in_all == len(found.runs) else f"The last of {found.runs_in_all} runs"
        view.append(Table(("run", "kind", "state", "shards done", "rows"), rows, title=title))
    return view


def _writer(found: OutputStatus) -> str:
    if found.lease is None:
        return "nobody"
    if found.lease_is_stale:
        return f"nobody; stale lease of {found.lease.holder()}"
    return found.lease.holder()


def _run_facts(run: RunStatus) -> list[tuple[str, object]]:
    shards = run.shards
    counts = ", ".join(f"{shards[name]:,} {name}" for name in ("done", "skipped", "failed"))
    ended = shards["done"] + shards["skipped"] + shards["failed"]
    facts: list[tuple[str, object]] = [
        ("run", run.run_id),
        ("state", _state(run)),
        ("started", run.started),
        ("told until", run.written),
        ("runtime", run.runtime),
        ("shards", f"{ended:,} of {shards['total']:,}: {counts}"),
        ("rows", run.rows),
        ("rows/s", run.rows_per_s),
        ("shards/s", run.shards_per_s),
    ]
    if run.eta_s is not None:
        facts.append(("seconds left, about", run.eta_s))
    return facts


def _state(run: RunStatus) -> str:
    said = _STATES.get(run.state, run.state)
    return f"{said}; {_how_to_go_on(run)}" if run.state in ("died", "interrupted") else said


def _how_to_go_on(run: RunStatus) -> str:
    if run.kind == "retry":
        return "the same command goes on"
    if run.replaces:
        return "the same command begins anew"
    return "the same command with --skip-existing goes on"


_STATES = {
    "died": "died without a word",
    "lost_lease": "lost its lease to another writer",
    "failed": "ended with failures",
}
