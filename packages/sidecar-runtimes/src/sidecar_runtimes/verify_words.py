"""What a verifier found, as JSON values and as people read it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from sidecar_core.problems import counted

from sidecar_runtimes.text_view import Block, Facts, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_runtimes.verify import VerifyReport

_PROBLEMS_SHOWN = 50


class Problem(Protocol):
    """Something wrong, as every verifier says it."""

    @property
    def kind(self) -> str: ...
    @property
    def message(self) -> str: ...


class Findings(Protocol):
    """What every verifier finds."""

    @property
    def ok(self) -> bool: ...
    @property
    def checked_shards(self) -> int: ...
    @property
    def problems(self) -> Sequence[Problem]: ...


class Example(Protocol):
    """A row, as an example."""

    @property
    def rel_path(self) -> str: ...
    @property
    def row(self) -> int: ...


class ResizedFindings(Findings, Protocol):
    """What the verifier of resized datasets finds; it is in a package that this one does not know."""

    @property
    def main_prefix(self) -> str: ...
    @property
    def main_shards(self) -> int: ...
    @property
    def main_bytes(self) -> int: ...
    @property
    def output_prefix(self) -> str: ...
    @property
    def output_shards(self) -> int: ...
    @property
    def output_bytes(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def checked_rows(self) -> int: ...
    @property
    def valid(self) -> int: ...
    @property
    def invalid(self) -> Mapping[str, int]: ...
    @property
    def examples(self) -> Mapping[str, Sequence[Example]]: ...


def describe_verify(report: VerifyReport) -> dict[str, Any]:
    """Returns the findings as JSON values."""
    return {"ok": report.ok, **asdict(report)}


def verify_view(report: VerifyReport, *, sampled: bool) -> list[Block]:
    """Returns the findings for people; the last line says whether all is well."""
    view: list[Block] = [
        Facts(
            [
                ("main dataset", f"{report.main_prefix}  ({_extent(report.main_shards, report.main_bytes)})"),
                ("output", f"{report.output_prefix}  ({_extent(report.output_shards, report.output_bytes)})"),
                ("checked", f"{counted(report.checked_shards, 'shard')}, {counted(report.rows, 'row')}"),
                *((name, counted(rows, "row")) for name, rows in report.content.items()),
            ]
        )
    ]
    if report.columns:
        rows = [
            (name, stats.rows, f"{stats.populated_fraction:6.1%}", stats.null, stats.nan)
            for name, stats in report.columns.items()
        ]
        view.append(Table(("column", "rows", "populated", "null", "NaN"), rows))
    return [*view, *verdict(report, sampled=sampled)]


def _extent(shards: int, size_bytes: int) -> str:
    return f"{counted(shards, 'shard')}, {counted(size_bytes, 'byte')}"


def verdict(report: Findings, *, sampled: bool) -> list[Block]:
    """Returns what every verifier ends with: that all is well, or a table of what is wrong."""
    if report.ok:
        all_of_them = "All " if report.checked_shards != 1 else ""
        return [f"{all_of_them}{counted(report.checked_shards, 'sampled shard' if sampled else 'shard')} aligned"]
    problems = [(problem.kind, problem.message) for problem in report.problems[:_PROBLEMS_SHOWN]]
    left = len(report.problems) - len(problems)
    return [Table(("problem", "what is wrong"), problems), *([f"and {left:,} more"] if left else [])]


def resized_view(side: int, report: ResizedFindings, *, sampled: bool) -> list[Block]:
    """Returns the findings for people; the last line says whether all is well."""
    main = f"{report.main_prefix}  ({_extent(report.main_shards, report.main_bytes)})"
    output = f"{report.output_prefix}  ({_extent(report.output_shards, report.output_bytes)})"
    looked_at = ((report.checked_shards, "shard"), (report.rows, "row"), (report.checked_rows, "picture"))
    checked = ", ".join(counted(number, what) for number, what in looked_at)
    view: list[Block] = [
        Facts(
            [
                ("main dataset", main),
                (f"{side} dataset", output),
                ("checked", checked),
                ("valid rows", report.valid),
                ("invalid rows", sum(report.invalid.values())),
            ]
        )
    ]
    if report.invalid:
        rows = [
            (reason, count, "; ".join(f"{each.rel_path} row {each.row}" for each in report.examples.get(reason, ())))
            for reason, count in sorted(report.invalid.items(), key=lambda item: (-item[1], item[0]))
        ]
        view.append(Table(("reason", "rows", "examples"), rows))
    return [*view, *verdict(report, sampled=sampled)]
