"""Runs a pipeline for a command: prepares, shows a dry run or progress, and says what came of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import typer
from sidecar_core.errors import RefusedError
from sidecar_runtimes.choose import choose_runtime
from sidecar_runtimes.options import chosen_runtime, parse_named_prefixes
from sidecar_runtimes.prefixes import OutputPrefix
from sidecar_runtimes.run import PreparedRun, RunOptions, RunReport, execute_run, prepare_run, refuse_to_harm

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.output import Block, Facts, Table, open_output
from sidecar_cli.program_name import program_name
from sidecar_cli.progress import open_progress

if TYPE_CHECKING:
    from sidecar_core.pipeline import Pipeline

_FAILED_SHOWN = 20


def run_options(options: Mapping[str, Any], **changed: object) -> RunOptions:
    """Returns the part of a command's options that a run takes.

    Args:
        options: values by parameter name; others are ignored.
        changed: values that win over them.
    """
    known = {field.name for field in fields(RunOptions)}
    values: dict[str, Any] = {name: value for name, value in {**options, **changed}.items() if name in known}
    if "output" in options and "outputs" not in changed:
        values["outputs"] = parse_named_prefixes("--output", options["output"])
    values["runtime"] = chosen_runtime(options)
    return RunOptions(**values)


def run_pipeline(
    pipeline: Pipeline,
    options: Mapping[str, Any],
    wanted: RunOptions,
    *,
    chosen: Mapping[str, OutputPrefix] | None = None,
) -> None:
    """Runs a pipeline, or shows what a run would do.

    Args:
        pipeline: the pipeline.
        options: the command's options: dry_run, json.
        wanted: the run's options.
        chosen: effective prefixes by output, for a command that chose them itself.

    Raises:
        typer.Exit: with 1, when shards failed or the run ended early.
        SidecarError: the run could not begin.
        KeyboardInterrupt: after saying how to go on.
    """
    prepared = prepare_run(pipeline, wanted)
    if chosen is not None:
        prepared = replace(prepared, prefixes={**prepared.prefixes, **chosen})
    output = open_output(json=options["json"])
    if options["dry_run"]:
        data = describe_dry_run(prepared)
        output.show(data, _dry_run_view(data))
        return
    refuse_to_harm(prepared)
    choice = choose_runtime(pipeline, wanted)
    _say(f"Runtime: {choice.name}: {choice.reason}")
    _warn_of_new_prefix(prepared)
    try:
        report = execute_run(prepared, observer=open_progress())
    except KeyboardInterrupt:
        _say(f"interrupted; no partial shard is left. To go on:\n  {resume_command(prepared, sys.argv[1:])}")
        raise
    output.show(describe_run(report), _run_view(report))
    if not report.ok:
        raise typer.Exit(ExitCode.FOUND_FAILURES)


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


def resume_command(prepared: PreparedRun, arguments: list[str]) -> str:
    """Returns the command line that goes on where this run ended, quoted for a shell."""
    words = [word for word in arguments if word not in ("--overwrite", "--steal-lease")]
    given = {word.partition("=")[0] for word in words}
    for name, choice in prepared.prefixes.items():
        if choice.chosen_by == "new":
            words += (
                ["--output-prefix", choice.prefix]
                if len(prepared.prefixes) == 1
                else [
                    "--output",
                    f"{name}={choice.prefix}",
                ]
            )
    if "--skip-existing" not in given:
        words.append("--skip-existing")
    return f"{program_name()} {shlex.join(words)}"


def _warn_of_new_prefix(prepared: PreparedRun) -> None:
    new = [choice.prefix for choice in prepared.prefixes.values() if choice.chosen_by == "new"]
    if new:
        _say(
            f"warning: no output prefix was given, so this run writes to the new {', '.join(new)}\n"
            f"  to go on with it later: {resume_command(prepared, sys.argv[1:])}"
        )


def _dry_run_view(data: Mapping[str, Any]) -> list[Block]:
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


def _run_view(report: RunReport) -> list[Block]:
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
        failed = [(each.rel_path, each.error_type, each.error, each.attempts) for each in report.failed[:_FAILED_SHOWN]]
        view.append(Table(("shard", "error", "message", "attempts"), failed, title="Failed shards"))
        if len(report.failed) > _FAILED_SHOWN:
            view.append(f"and {len(report.failed) - _FAILED_SHOWN:,} more")
        folder = next(iter(report.prefixes.values()))
        view.append(f"All of them: {folder}_sidecar/failed_shards.jsonl")
    if report.stopped:
        view.append(f"Stopped early: {report.stopped}")
    return view


def _say(text: str) -> None:
    with suppress(OSError):  # a log that is full must not end the run; the exit status still tells
        typer.echo(text, err=True)
