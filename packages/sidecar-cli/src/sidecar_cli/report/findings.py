"""What stands out in a report: the few sentences that whoever opens it should read first."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar_core.problems import counted

from sidecar_cli.report.figures import Finding, ReportData

_WORST_REASONS = ("crashed", "timeout", "out_of_memory")
_NAMES_SHOWN = 5


def find_what_stands_out(data: ReportData) -> tuple[Finding, ...]:
    """Returns findings, the worst first."""
    order = ("bad", "warn", "good")
    return tuple(sorted(_findings(data), key=lambda finding: order.index(finding.level)))


def _findings(data: ReportData) -> Iterator[Finding]:
    yield from _of_shards(data)
    yield from _of_verdict(data)
    yield from _of_rows(data)
    yield from _of_columns(data)


def _of_shards(data: ReportData) -> Iterator[Finding]:
    if data.unreadable:
        yield Finding("bad", f"{counted(len(data.unreadable), 'shard')} cannot be read.", "failed-shards")
    if data.status.failed_shards:
        failed = counted(len(data.status.failed_shards), "shard")
        yield Finding("bad", f"{failed} failed in the last run that had any.", "failed-shards")
    if not data.shards:
        yield Finding("bad", "There are no shards.", "runs")
    runs = data.status.runs
    if runs and runs[0].state in ("died", "interrupted", "failed", "lost_lease"):
        yield Finding("warn", f"The last run ended as “{runs[0].state}”.", "runs")
    elif runs and runs[0].state == "running":
        yield Finding("warn", "A run is writing right now: figures are those of this moment.", "runs")
    if data.shards and not data.status.complete and runs:
        words = "No run has marked it complete: shards of the main dataset may be missing."
        if data.status.completed is not None:
            words = f"Complete {data.status.completeness()}."
        yield Finding("warn", words, "runs")
    if len(data.fingerprints) > 1:
        words = f"Its shards come from {len(data.fingerprints)} pipelines (different fingerprints)."
        yield Finding("warn", words, "provenance")


def _of_verdict(data: ReportData) -> Iterator[Finding]:
    if data.verdict.state == "none" and not data.is_output:
        return
    level = {"passed": "good", "failed": "bad", "stale": "warn", "none": "warn"}[data.verdict.state]
    yield Finding(level, data.verdict.words, "provenance")


def _of_rows(data: ReportData) -> Iterator[Finding]:
    found = {
        reason: max(counts.get(reason, 0) for counts in data.reasons.values())
        for reason in _WORST_REASONS
        if any(counts.get(reason) for counts in data.reasons.values())
    }
    if found:
        words = ", ".join(f"{count:,} {reason}" for reason, count in found.items())
        yield Finding("bad", f"Rows that broke a child process: {words}. Look at them before scaling.", "failures")
    if data.invalid_of and data.invalid_rows > data.invalid_of / 2:
        yield Finding("bad", "More than half of the rows are invalid.", "reasons")


def _of_columns(data: ReportData) -> Iterator[Finding]:
    empty = [column.name for column in data.columns if column.rows and column.null == column.rows]
    if empty:
        yield Finding("warn", f"Null in every row that was read: {_names(empty)}.", "columns")
    odd = [column.name for column in data.columns if column.nan]
    if odd:
        yield Finding("bad", f"NaN or infinity in {_names(odd)}.", "columns")
    constant = [
        measure.path
        for measure in data.measures
        if measure.count > 1 and measure.minimum == measure.maximum and not measure.path.endswith("(items)")
    ]
    if constant:
        yield Finding("warn", f"The same value in every row that has one: {_names(constant)}.", "measures")


def _names(names: list[str]) -> str:
    left = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {left:,} more" if left > 0 else "")
