"""Retries rows for `sidecar retry`, and says what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from sidecar_core.errors import UsageError
from sidecar_runtimes.lease import LeaseOptions
from sidecar_runtimes.options import parse_named_prefixes
from sidecar_runtimes.retry import RetryOptions, RetryReport, parse_reasons, retry_rows

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.output import Block, Facts, Table, open_output
from sidecar_cli.progress import open_progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.pipeline import Pipeline

_FAILED_SHOWN = 20


def retry_pipeline(pipeline: Pipeline, options: Mapping[str, Any]) -> None:
    """Retries the rows that the options choose.

    Raises:
        typer.Exit: with 1, when shards failed.
        SidecarError: nothing could be retried.
    """
    for name in ("limit", "workers"):
        if options[name] is not None and options[name] < 1:
            raise UsageError(f"--{name} {options[name]}: must be at least 1")
    wanted = RetryOptions(
        reasons=parse_reasons(options["reason"]),
        output_prefix=options["output_prefix"],
        outputs=parse_named_prefixes("--output", options["output"]),
        input_subprefix=options["input_subprefix"],
        limit=options["limit"],
        workers=options["workers"],
        retries=options["retries"],
        lease=LeaseOptions(options["lease_stale_s"], options["steal_lease"], options["wait_lease"]),
    )
    report = retry_rows(pipeline, wanted, observer=open_progress())
    open_output(json=options["json"]).show(describe_retry(report), _retry_view(report))
    if not report.ok:
        raise typer.Exit(ExitCode.FOUND_FAILURES)


def describe_retry(report: RetryReport) -> dict[str, Any]:
    """Returns what a retry did, as JSON values."""
    run = report.run
    return {
        "run_id": run.run_id,
        "ok": report.ok,
        "outputs": dict(run.prefixes),
        "shards": {
            "looked_at": run.shards["done"],
            "without_such_rows": report.without,
            "not_there": report.not_there,
            "failed": run.shards["failed"],
            "not_reached": run.shards["not_reached"],
        },
        "rows": run.rows,
        "before": {name: dict(reasons) for name, reasons in report.before.items()},
        "after": {name: dict(reasons) for name, reasons in run.invalid.items()},
        "failed_shards": [
            {"shard": each.rel_path, "error_type": each.error_type, "error": each.error, "attempts": each.attempts}
            for each in run.failed
        ],
        "elapsed_s": round(run.elapsed_s, 3),
    }


def _retry_view(report: RetryReport) -> list[Block]:
    run, data = report.run, describe_retry(report)
    view: list[Block] = [
        Facts(
            [
                ("run", run.run_id),
                *(
                    (f"output {name}" if len(run.prefixes) > 1 else "output", prefix)
                    for name, prefix in run.prefixes.items()
                ),
                ("shards", ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in data["shards"].items())),
                ("rows computed again", run.rows),
                ("seconds", round(run.elapsed_s, 1)),
            ]
        )
    ]
    rows: list[tuple[object, ...]] = []
    for name in sorted({*data["before"], *data["after"]}):
        before, after = data["before"].get(name, {}), data["after"].get(name, {})
        rows += [(name, reason, before.get(reason, 0), after.get(reason, 0)) for reason in sorted({*before, *after})]
    if rows:
        view.append(Table(("output", "reason", "rows before", "rows after"), rows, title="Of the rows computed again"))
    if run.failed:
        failed = [(each.rel_path, each.error_type, each.error, each.attempts) for each in run.failed[:_FAILED_SHOWN]]
        view.append(Table(("shard", "error", "message", "attempts"), failed, title="Failed shards"))
    return view
