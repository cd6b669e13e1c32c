"""The program `sidecar-run`: runs a pipeline, and verifies what it made, where there is no `sidecar`.

It needs this package and those whose ops the pipeline names, and takes the flags of `sidecar run`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar_core.errors import UsageError
from sidecar_core.problems import did_you_mean

from sidecar_runtimes.argparse_options import OptionParser
from sidecar_runtimes.job_options import SET, VERIFY_OPTIONS, VERIFY_RESIZED_OPTIONS
from sidecar_runtimes.options import RUN_OPTIONS
from sidecar_runtimes.program import (
    exit_status,
    json_text,
    prepare_process,
    write_stdout,
)
from sidecar_runtimes.result_stdout import prints_to_stderr, results_to_stdout
from sidecar_runtimes.text_view import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sidecar_runtimes.text_view import Block, Show

CONFIGS_VARIABLE = "SIDECAR_CONFIGS"
CONFIGS = Path("/app/configs")  # where images have them

_RUN_EPILOG = f"""\
Other jobs:
  sidecar-run verify PIPELINE|PREFIX   prove that an output is aligned with its main dataset
  sidecar-run verify-resized           prove that resized datasets hold what they say
  sidecar-run --version                say the version of sidecar-runtimes

A value of --set stands as if it were written in the file: a relative prefix is relative to that file.
Configs of an image are in {CONFIGS}.

Examples:
  sidecar-run configs/pipelines/resized.yaml --set dataset.main_prefix=s3://bucket/main/ \\
      --output 512=s3://bucket/main_512/ --output 1024=s3://bucket/main_1024/ --skip-existing
  sidecar-run verify-resized --main-prefix s3://bucket/main/ \\
      --target 512=s3://bucket/main_512/ --target 1024=s3://bucket/main_1024/

Exit codes: 0 done; 1 something failed; 2 bad usage or bad YAML; 3 refused to protect data; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program.

    Args:
        arguments: the command line without the program's name; default this process's.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    prepare_process()
    if given == ["--version"]:
        from sidecar_runtimes import __version__

        return exit_status(lambda: write_stdout(f"sidecar-run {__version__}\n"), given)
    job = _JOBS.get(given[0]) if given else None
    return exit_status(lambda: _run(given) if job is None else job(given[1:]), given)


def existing_pipeline(named: str) -> Path:
    """Returns the path of a pipeline's file.

    Raises:
        UsageError: there is none; names the pipelines that are beside it and in the image.
    """
    path = Path(named)
    if path.is_file():
        return path
    folders = {folder.absolute(): folder for folder in (_configs() / "pipelines", path.parent)}.values()
    present = [str(file) for folder in folders for file in _yaml_files(folder)]
    nearest = did_you_mean(path.name, [*(Path(file).name for file in present), *_JOBS])
    looked = " or ".join(str(folder) for folder in folders)
    expected = ", ".join(present) if present else f"a YAML file; there is none in {looked}"
    raise UsageError(f"no pipeline {named!r}{nearest}", expected)


def _run(arguments: Sequence[str]) -> bool:
    parser = OptionParser(
        (SET, *RUN_OPTIONS),
        prog="sidecar-run",
        description="Run a pipeline over its dataset's shards.",
        epilog=_RUN_EPILOG,
        positional=("PIPELINE", "the pipeline's YAML file"),
    )
    options = parser.values(arguments)
    path = existing_pipeline(options["what"])
    # What follows loads Arrow; help and a wrong command line need none.
    from sidecar_core.overrides import parse_overrides
    from sidecar_core.pipeline import load_pipeline

    from sidecar_runtimes.progress_lines import LineProgress, debug_rows
    from sidecar_runtimes.run_job import Program, run_job, run_options

    program = Program(
        name="sidecar-run",
        arguments=arguments,
        show=_show(options),
        open_progress=lambda: LineProgress(every_rows=debug_rows()),
    )
    with prints_to_stderr():
        pipeline = load_pipeline(path, overrides=parse_overrides(options["set"]))
        return run_job(pipeline, run_options(options), program=program, dry_run=options["dry_run"])


def _verify(arguments: Sequence[str]) -> bool:
    parser = OptionParser(
        VERIFY_OPTIONS,
        prog="sidecar-run verify",
        description="Prove that an output is aligned with its main dataset.",
        positional=("PIPELINE|PREFIX", "a pipeline YAML, or the prefix of an output"),
    )
    options = parser.values(arguments)
    if options["what"].endswith((".yaml", ".yml")):
        existing_pipeline(options["what"])
    from sidecar_runtimes.verify_job import verify_job

    with prints_to_stderr():
        return verify_job(options["what"], options, _show(options))


def _verify_resized(arguments: Sequence[str]) -> bool:
    parser = OptionParser(
        VERIFY_RESIZED_OPTIONS,
        prog="sidecar-run verify-resized",
        description="Prove that resized datasets hold what they say.",
    )
    options = parser.values(arguments)
    from sidecar_runtimes.verify_resized_job import verify_resized_job

    with prints_to_stderr():
        return verify_resized_job(options, _show(options))


_JOBS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "run": _run,  # what `sidecar` calls it
    "verify": _verify,
    "verify-resized": _verify_resized,
}


def _show(options: Mapping[str, Any]) -> Show:
    """Returns what writes a result to stdout, as JSON when asked for."""

    def show(data: object, view: Iterable[Block]) -> None:
        with results_to_stdout():
            write_stdout(json_text(data) if options["json"] else plain_text(view))

    return show


def _configs() -> Path:
    return Path(os.environ.get(CONFIGS_VARIABLE) or CONFIGS)


def _yaml_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
