"""The job `verify-resized`; its verifier is in another package, and found by its entry point."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from sidecar_core.errors import UsageError
from sidecar_core.offers import offered_by_packages

from sidecar_runtimes.resized_targets import parse_targets, require_main_prefix
from sidecar_runtimes.verify_words import resized_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar_runtimes.text_view import Show
    from sidecar_runtimes.verify_words import ResizedFindings

    Verifier = Callable[[str, Mapping[int, str], Mapping[str, Any]], Mapping[int, ResizedFindings]]

GROUP = "sidecar.verifiers"


def verify_resized_job(options: Mapping[str, Any], show: Show) -> bool:
    """Verifies resized datasets; returns whether nothing is wrong.

    Args:
        options: those of `VERIFY_RESIZED_OPTIONS`, by parameter name.
        show: takes the findings, as JSON values and as people read them.

    Raises:
        UsageError: an option is missing or wrong, or sidecar-resize is not installed.
    """
    targets = parse_targets(options["target"])
    if not targets:
        raise UsageError("verify-resized needs --target", fix="--target 512=PREFIX --target 1024=PREFIX")
    for name in ("sample", "sample_rows"):
        if options[name] < 1:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {options[name]}: must be at least 1", fix="--all for everything")
    main_prefix = require_main_prefix(options)
    reports = _resized_verifier()(main_prefix, targets, options)
    ok = all(report.ok for report in reports.values())
    described = {str(side): {"ok": report.ok, **asdict(cast("Any", report))} for side, report in reports.items()}
    sampled = not options["all"]
    view = [block for side, report in reports.items() for block in resized_view(side, report, sampled=sampled)]
    show({"ok": ok, "targets": described}, view)
    return ok


def _resized_verifier() -> Verifier:
    found = {point.value: point for point in offered_by_packages(GROUP) if point.name == "resized"}
    if not found:
        message = "verify-resized comes with the package 'sidecar-resize', which is not installed"
        raise UsageError(message, None, "uv add sidecar-resize")
    return cast("Verifier", next(iter(found.values())).load())
