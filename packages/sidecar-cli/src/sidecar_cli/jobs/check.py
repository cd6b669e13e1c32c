"""Strict checks of a job's manifest: fields, types, numbers, and the command that it starts."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast

from sidecar_core.config import validate_model
from sidecar_core.errors import ConfigError, UsageError
from sidecar_core.overrides import parse_overrides
from sidecar_core.problems import did_you_mean
from sidecar_core.yaml_document import parse_yaml, read_text
from sidecar_runtimes.argparse_options import OptionParser
from sidecar_runtimes.job_options import SET, VERIFY_OPTIONS, VERIFY_RESIZED_OPTIONS
from sidecar_runtimes.options import RUN_OPTIONS
from sidecar_runtimes.run_job import run_options
from sidecar_runtimes.run_options import check_options

from sidecar_cli.jobs.models import RayJob, UtpJob
from sidecar_cli.jobs.placeholders import PLACEHOLDERS, example_values, fill, placeholders_in

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from sidecar_core.problems import Problem
    from sidecar_core.yaml_document import YamlDocument

_PROGRAMS = ("sidecar-run", "sidecar")
_PIPELINES = "/app/configs/pipelines"
_OPTIONS = {"run": (SET, *RUN_OPTIONS), "verify": VERIFY_OPTIONS, "verify-resized": VERIFY_RESIZED_OPTIONS}


def check_job(path: Path, *, pipelines: Collection[str] | None = None) -> list[str]:
    """Checks a manifest and returns the placeholders that are left in it; those get values that fit.

    Args:
        path: the YAML file, a RayJob or a job in the shape of a team's own scheduler.
        pipelines: names of the pipeline files in the image; None when they are not known.

    Raises:
        ConfigError: with every problem, each at its place.
        UsageError: a placeholder that is none of those that are known.
    """
    text = read_text(path)
    left = placeholders_in(text)
    for name in left:
        if name not in PLACEHOLDERS:
            message = f"{path}: unknown placeholder <{name}>{did_you_mean(name, PLACEHOLDERS)}"
            raise UsageError(message, ", ".join(f"<{known}>" for known in PLACEHOLDERS))
    document = parse_yaml(fill(text, example_values()), file=str(path))
    data = cast("dict[str, object]", document.data)
    if "apiVersion" in data or "kind" in data:
        job = validate_model(RayJob, document)
        entrypoint, loc = job.spec.entrypoint, ("spec", "entrypoint")
    else:
        utp = validate_model(UtpJob, document)
        entrypoint, loc = utp.entrypoint, ("entrypoint",)
    problems = _command_problems(entrypoint, document, loc, None if "PIPELINE" in left else pipelines)
    if problems:
        raise ConfigError(problems)
    return left


def _command_problems(
    entrypoint: str,
    document: YamlDocument,
    loc: tuple[str, ...],
    pipelines: Collection[str] | None,
) -> list[Problem]:
    """Returns what is wrong with the command: its program, its options and their values, its pipeline."""
    try:
        words = shlex.split(entrypoint)
    except ValueError as error:
        return [document.problem(loc, f"no shell can read it: {error}")]
    if not words or words[0] not in _PROGRAMS:
        return [document.problem(loc, f"it starts {' '.join(words[:1])!r}", expected=" or ".join(_PROGRAMS))]
    job = words[1] if words[1:] and words[1] in _OPTIONS else ""
    if words[0] == "sidecar" and not job:
        return [document.problem(loc, f"it starts {' '.join(words[:2])!r}", expected=f"sidecar {', '.join(_OPTIONS)}")]
    arguments = words[2:] if job else words[1:]
    options = _OPTIONS[job or "run"]
    known = [name for option in options for name in (option.name, *option.aliases)]
    given = [word.partition("=")[0] for word in arguments if re.match(r"-[^0-9]", word)]
    unknown = [name for name in given if name not in known]
    if unknown:
        return [document.problem(loc, f"unknown option {name!r}{did_you_mean(name, known)}") for name in unknown]
    positional = None if job == "verify-resized" else ("PIPELINE", "")
    parser = OptionParser(options, prog=words[0], description="", positional=positional)
    try:
        values = parser.values(arguments)
        if job in ("", "run"):
            check_options(run_options(values))
        parse_overrides(values.get("set", ()))
    except UsageError as error:
        return [document.problem(loc, error.message, expected=error.expected)]
    what = values.get("what", "")
    if positional is None or (job == "verify" and not what.endswith((".yaml", ".yml"))):
        return []  # of a prefix, or of resized datasets
    return _pipeline_problems(what, document, loc, pipelines)


def _pipeline_problems(
    what: str, document: YamlDocument, loc: tuple[str, ...], pipelines: Collection[str] | None
) -> list[Problem]:
    path = PurePosixPath(what)
    if not path.is_relative_to(_PIPELINES) or ".." in path.parts:
        message = f"the pipeline {what!r} is not in the image"
        return [document.problem(loc, message, expected=f"a file in {_PIPELINES}/")]
    name = str(path.relative_to(_PIPELINES))
    if pipelines is None or name in pipelines:
        return []
    message = f"the image has no pipeline {name!r}{did_you_mean(name, pipelines)}"
    return [document.problem(loc, message, expected=", ".join(sorted(pipelines)))]
