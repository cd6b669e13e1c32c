"""What a run did or would do, as JSON values and as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar_core.errors import RefusedError

from sidecar_runtimes.choose import choose_runtime
from sidecar_runtimes.run import PreparedRun, RunReport, refuse_to_harm
from sidecar_runtimes.text_view import Block, Facts, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_FAILED_SHOWN = 20


def describe_dry_run(prepared: PreparedRun) -> dict[str, Any]:
    """Returns what a run would do, as JSON values."""
    refused: str | None = None
    try:
        refuse_to_harm(prepared)
    except RefusedError as error:
        refused = str(error)
    dataset = prepared.plan.dataset
    choice = choose_runtime(prepared.plan.pipeline, prepared.options)
    return {
        "dataset": dataset.name,
        "operations": [op.type_name for op in prepared.plan.operations],
        "runtime": {"name": choice.name, "why": choice.reason},
        "main_prefix": dataset.main_prefix,
        "outputs": {
            name: {"sidecar_prefix (yaml)": choice.configured, "effective output": choice.prefix}
            for name, choice in prepared.prefixes.items()
        },
        "columns_read": list(prepared.plan.main_schema.names),
        "states": dict(prepared.states),
        "shards": len(prepared.standings),
        "to_run": len(prepared.to_do),
        "skipped": prepared.skipped,
        "bytes_to_read": prepared.bytes_to_read,
        "refused": refused,
    }


def describe_run(report: RunReport) -> dict[str, Any]:
    """Returns what a run did, as JSON values."""
    return {
        "run_id": report.run_id,
        "ok": report.ok,
        "outputs": dict(report.prefixes),
        "shards": dict(report.shards),
        "rows": report.rows,
        "invalid": {name: dict(reasons) for name, reasons in report.invalid.items()},
        "failed_shards": [
            {"shard": each.rel_path, "error_type": each.error_type, "error": each.error, "attempts": each.attempts}
            for each in report.failed
        ],
        "stopped": report.stopped,
        "elapsed_s": round(report.elapsed_s, 3),
        "rows_per_s": round(report.rows / max(report.elapsed_s, 1e-9), 2),
    }


def dry_run_view(data: Mapping[str, Any]) -> list[Block]:
    """Returns for people what `describe_dry_run` says."""
    states = data["states"]
    view: list[Block] = [
        Facts(
            [
                ("dataset", data["dataset"]),
                ("operations", ", ".join(data["operations"])),
                ("runtime", f"{data['runtime']['name']}: {data['runtime']['why']}"),
                ("main_prefix", data["main_prefix"]),
                *(
                    (label if len(data["outputs"]) == 1 else f"{name}: {label}", prefix)
                    for name, prefixes in data["outputs"].items()
                    for label, prefix in prefixes.items()
                ),
                ("columns read", ", ".join(data["columns_read"])),
                ("shards", f"{data['shards']:,}: " + ", ".join(f"{n:,} {state}" for state, n in states.items())),
                ("would run", data["to_run"]),
                ("would skip", data["skipped"]),
                ("bytes to read, at most", data["bytes_to_read"]),
            ],
            title="Dry run: nothing is written",
        )
    ]
    if data["refused"]:
        view += ["", f"The run would be refused: {data['refused']}"]
    return view


def run_view(report: RunReport) -> list[Block]:
    """Returns what a run did, for people."""
    view: list[Block] = [
        Facts(
            [
                ("run", report.run_id),
                *(
                    (f"output {name}" if len(report.prefixes) > 1 else "output", p)
                    for name, p in report.prefixes.items()
                ),
                ("shards", ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.shards.items())),
                ("rows", report.rows),
                ("seconds", round(report.elapsed_s, 1)),
                ("rows/s", round(report.rows / max(report.elapsed_s, 1e-9), 1)),
            ]
        )
    ]
    invalid = [
        (name, reason, count)
        for name, reasons in report.invalid.items()
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    if invalid:
        view.append(Table(("output", "reason", "rows"), invalid, title="Invalid rows"))
    if report.failed:
        shown = report.failed[:_FAILED_SHOWN]
        failed = [(each.rel_path, each.error_type, _in_one_line(each.error or ""), each.attempts) for each in shown]
        view.append(Table(("shard", "error", "message", "attempts"), failed, title="Failed shards"))
        if len(report.failed) > _FAILED_SHOWN:
            view.append(f"and {len(report.failed) - _FAILED_SHOWN:,} more")
        folder = next(iter(report.prefixes.values()))
        view.append(f"All of them: {folder}_sidecar/failed_shards.jsonl")
    if report.stopped:
        view.append(f"Stopped early: {report.stopped}")
    return view


def _in_one_line(message: str) -> str:
    """Returns a message for a cell of a table, its `expected:` and `fix:` beside it."""
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())
