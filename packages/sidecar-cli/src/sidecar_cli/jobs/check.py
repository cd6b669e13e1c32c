"""Strict checks of a job's manifest: fields, types, numbers, and the command that it starts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sidecar_core.config import validate_model
from sidecar_core.errors import ConfigError, UsageError
from sidecar_core.problems import did_you_mean
from sidecar_core.yaml_document import parse_yaml
from sidecar_runtimes.job_options import SET, VERIFY_OPTIONS, VERIFY_RESIZED_OPTIONS
from sidecar_runtimes.options import RUN_OPTIONS

from sidecar_cli.jobs.models import RayJob, UtpJob
from sidecar_cli.jobs.placeholders import PLACEHOLDERS, example_values, fill, placeholders_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar_core.problems import Problem
    from sidecar_core.yaml_document import YamlDocument

_PIPELINES = "/app/configs/pipelines/"
_COMMANDS = {"verify": VERIFY_OPTIONS, "verify-resized": VERIFY_RESIZED_OPTIONS}


def check_job(path: Path, *, pipelines: Collection[str] | None = None) -> list[str]:
    """Checks a manifest and returns the placeholders that are left in it; those get values that fit.

    Args:
        path: the YAML file, a RayJob or a job in the shape of a team's own scheduler.
        pipelines: names of the pipeline files in the image; None when they are not known.

    Raises:
        ConfigError: with every problem, each at its place.
        UsageError: a placeholder that is none of those that are known.
    """
    text = path.read_text(encoding="utf-8")
    left = placeholders_in(text)
    for name in left:
        if name not in PLACEHOLDERS:
            message = f"{path}: unknown placeholder <{name}>{did_you_mean(name, PLACEHOLDERS)}"
            raise UsageError(message, ", ".join(f"<{known}>" for known in PLACEHOLDERS))
    document = parse_yaml(fill(text, example_values()), file=str(path))
    data = cast("dict[str, object]", document.data)
    problems: list[Problem] = []
    if "apiVersion" in data or "kind" in data:
        job = validate_model(RayJob, document)
        entrypoint, loc = job.spec.entrypoint, ("spec", "entrypoint")
    else:
        utp = validate_model(UtpJob, document)
        entrypoint, loc = utp.entrypoint, ("entrypoint",)
    problems += _command_problems(entrypoint, document, loc, pipelines, is_open="PIPELINE" in left)
    if problems:
        raise ConfigError(problems)
    return left


def _command_problems(
    entrypoint: str,
    document: YamlDocument,
    loc: tuple[str, ...],
    pipelines: Collection[str] | None,
    *,
    is_open: bool,
) -> list[Problem]:
    """Returns what is wrong with the command: its program, its flags, its pipeline."""
    try:
        words = shlex.split(entrypoint)
    except ValueError as error:
        return [document.problem(loc, f"no shell can read it: {error}")]
    if not words or words[0] not in ("sidecar-run", "sidecar"):
        return [document.problem(loc, f"it starts {words[0]!r}", expected="sidecar-run or sidecar")]
    options = _COMMANDS.get(words[1] if len(words) > 1 else "", (SET, *RUN_OPTIONS))
    known = [name for option in options for name in (option.name, *option.aliases)]
    problems = [
        document.problem(loc, f"unknown option {word!r}{did_you_mean(word, known)}")
        for word in (word.partition("=")[0] for word in words if word.startswith("--"))
        if word not in known
    ]
    named = [word for word in words[1:] if re.search(r"\.ya?ml$", word) and not word.startswith("--")]
    if len(named) != 1 and options is not VERIFY_RESIZED_OPTIONS:
        problems.append(document.problem(loc, f"it names {len(named)} pipelines", expected="one"))
    elif named and not named[0].startswith(_PIPELINES):
        message = f"the pipeline {named[0]!r} is not in the image"
        problems.append(document.problem(loc, message, expected=f"a file in {_PIPELINES}"))
    elif named and pipelines is not None and not is_open and Path(named[0]).name not in pipelines:
        name = Path(named[0]).name
        message = f"the image has no pipeline {name!r}{did_you_mean(name, pipelines)}"
        problems.append(document.problem(loc, message, expected=", ".join(sorted(pipelines))))
    return problems
