"""Runs a pipeline for a program: prepares, shows a dry run or progress, and says what came of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sidecar_runtimes.choose import choose_runtime
from sidecar_runtimes.options import chosen_runtime, parse_named_prefixes
from sidecar_runtimes.program import say
from sidecar_runtimes.run import PreparedRun, RunOptions, execute_run, prepare_run, refuse_to_harm
from sidecar_runtimes.run_words import describe_dry_run, describe_run, dry_run_view, run_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sidecar_core.pipeline import Pipeline

    from sidecar_runtimes.prefixes import OutputPrefix
    from sidecar_runtimes.progress import RunObserver
    from sidecar_runtimes.text_view import Show


@dataclass(frozen=True)
class Program:
    """The program that a person typed, as far as a job needs it.

    Attributes:
        name: how it was called, quoted for a shell.
        arguments: its command line.
        show: takes a result, as JSON values and as people read it.
        open_progress: makes what tells of progress.
    """

    name: str
    arguments: Sequence[str]
    show: Show
    open_progress: Callable[[], RunObserver]


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


def run_job(
    pipeline: Pipeline,
    wanted: RunOptions,
    *,
    program: Program,
    dry_run: bool = False,
    chosen: Mapping[str, OutputPrefix] | None = None,
) -> bool:
    """Runs a pipeline, or shows what a run would do.

    Args:
        pipeline: the pipeline.
        wanted: the run's options.
        program: who asks.
        dry_run: only show it.
        chosen: effective prefixes by output, for a command that chose them itself.

    Returns:
        Whether all went well: no shard failed, and the run did not end early.

    Raises:
        SidecarError: the run could not begin.
        KeyboardInterrupt: after saying how to go on.
    """
    prepared = prepare_run(pipeline, wanted)
    if chosen is not None:
        prepared = replace(prepared, prefixes={**prepared.prefixes, **chosen})
    if dry_run:
        data = describe_dry_run(prepared)
        program.show(data, dry_run_view(data))
        return True
    refuse_to_harm(prepared)
    choice = choose_runtime(pipeline, wanted)
    say(f"Runtime: {choice.name}: {choice.reason}")
    resume = resume_command(prepared, program)
    new = [choice.prefix for choice in prepared.prefixes.values() if choice.chosen_by == "new"]
    if new:
        say(
            f"warning: no output prefix was given, so this run writes to the new {', '.join(new)}\n"
            f"  to go on with it later: {resume}"
        )
    try:
        report = execute_run(prepared, observer=program.open_progress())
    except KeyboardInterrupt:
        how = "The same command begins anew, since --overwrite replaces all" if prepared.replaces else "To go on"
        say(f"interrupted; no partial shard is left. {how}:\n  {resume}")
        raise
    program.show(describe_run(report), run_view(report))
    return report.ok


def resume_command(prepared: PreparedRun, program: Program) -> str:
    """Returns the command line that goes on where this run ended, quoted for a shell.

    A run that replaces what was there begins anew: of the shards that are there, `--skip-existing` would take those
    that were not replaced yet for done.
    """
    left_out = ("--steal-lease",) if prepared.replaces else ("--steal-lease", "--overwrite")
    arguments = list(program.arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words = [word for word in arguments[:end] if word not in left_out]
    for name, choice in prepared.prefixes.items():
        if choice.chosen_by == "new":
            single = len(prepared.prefixes) == 1
            words += ["--output-prefix", choice.prefix] if single else ["--output", f"{name}={choice.prefix}"]
    if not ("--skip-existing" in words or "--overwrite" in words):
        words.append("--skip-existing")
    return f"{program.name} {shlex.join([*words, *arguments[end:]])}"
