"""`sidecar verify-resized`: proof that resized datasets hold what they say."""

from __future__ import annotations

from dataclasses import asdict, replace

import typer
from sidecar_core.errors import UsageError
from sidecar_runtimes.options import (
    COMMON_OPTIONS,
    IMAGE_COLUMN,
    INPUT_SUBPREFIX,
    KEY_COLUMN,
    MAIN_PREFIX,
    PICTURE_OPTIONS,
    SAMPLE_OPTIONS,
    SAMPLE_ROWS,
    TARGET,
    WORKERS,
)

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output

_RULES = ("--audit-prefix", "--patch-size", "--output-format", "--max-crop-loss")
_OPTIONS = (
    replace(MAIN_PREFIX, help="the main dataset; required"),
    replace(TARGET, help=f"{TARGET.help}; at least one"),
    *(KEY_COLUMN, IMAGE_COLUMN, INPUT_SUBPREFIX),
    *(option for option in PICTURE_OPTIONS if option.name in _RULES),
    *(*SAMPLE_OPTIONS, SAMPLE_ROWS, WORKERS),
    *COMMON_OPTIONS,
)


@takes(_OPTIONS)
def verify_resized(**options: OptionValue) -> None:
    """Prove that resized datasets hold what they say.

    Of each shard that is looked at, the keys are proven and the audit columns read; of its sampled rows,
    the picture is decoded and held against the audit. A receipt is left in each dataset's run folder.
    """
    from sidecar_cli.resize_flags import parse_targets, require_main_prefix
    from sidecar_cli.verifying_resized import resized_view, verify_targets

    targets = parse_targets(options["target"])
    if not targets:
        raise UsageError("verify-resized needs --target", fix="--target 512=PREFIX --target 1024=PREFIX")
    for name in ("sample", "sample_rows"):
        if options[name] < 1:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {options[name]}: must be at least 1", fix="--all for everything")
    reports = verify_targets(require_main_prefix(options), targets, options)
    ok = all(report.ok for report in reports.values())
    data = {"ok": ok, "targets": {str(side): {"ok": report.ok, **asdict(report)} for side, report in reports.items()}}
    sampled = not options["all"]
    view = [block for side, report in reports.items() for block in resized_view(side, report, sampled=sampled)]
    open_output(json=options["json"]).show(data, view)
    if not ok:
        raise typer.Exit(ExitCode.FOUND_FAILURES)
