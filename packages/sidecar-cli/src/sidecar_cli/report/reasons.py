"""How many rows are invalid, and why: from the footers of all shards, else from the rows that were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sidecar_core.footer import FooterInfo

from sidecar_cli.report.shard_figures import ShardFigures
from sidecar_cli.report.shown_text import shown


def count_reasons_by_column(
    total: ShardFigures, footers: Mapping[str, FooterInfo | None], *, complete: bool
) -> tuple[dict[str, dict[str, int]], str]:
    """Returns invalid rows by column and reason: from the footers of all shards, else from the rows that were read."""
    found: dict[str, Counter[str]] = {}
    if complete and footers and all(footer is not None for footer in footers.values()):
        for footer in footers.values():
            for column, counts in (footer.invalid if footer is not None else {}).items():
                found.setdefault(shown(column), Counter()).update({shown(k): v for k, v in counts.items()})
        if any(found.values()):
            return {column: _ranked(counts) for column, counts in found.items()}, "all shards"
    for (column, reason), count in total.failures.counts.items():
        found.setdefault(shown(column), Counter())[reason] += count
    return {column: _ranked(counts) for column, counts in found.items()}, "the shards that were read"


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def count_invalid(
    total: ShardFigures, footers: Mapping[str, FooterInfo | None], rows: int, *, complete: bool
) -> tuple[int, int]:
    """Returns invalid rows and what they are out of: of the column with most of them, or of any that was read."""
    counts: Counter[str] = Counter()
    for footer in footers.values():
        if footer is not None:
            counts.update({column: sum(reasons.values()) for column, reasons in footer.invalid.items()})
    if complete and counts:
        return max(counts.values()), rows
    return total.failures.rows, total.rows
