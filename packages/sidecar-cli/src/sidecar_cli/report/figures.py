"""What a report says, as plain values: made by `gather`, shown by `page`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar_runtimes.status import OutputStatus


@dataclass(frozen=True)
class RowPlace:
    """A row of a dataset.

    Attributes:
        shard: the shard's path below the prefix.
        row: position in the shard, from 0.
    """

    shard: str
    row: int


@dataclass(frozen=True)
class NotedRow:
    """A row that the report names.

    Attributes:
        place: where it is.
        key: its key as it is shown.
        value: what it was picked for, as it is shown.
    """

    place: RowPlace
    key: str
    value: str


@dataclass(frozen=True)
class Histogram:
    """How many values lie in each of some bins of equal width.

    Attributes:
        lower: lower edge of the first bin.
        upper: upper edge of the last bin.
        counts: values a bin; of a sample scaled to all values.
        below: values under `lower`, likewise.
        above: values over `upper`, likewise.
    """

    lower: float
    upper: float
    counts: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0


@dataclass(frozen=True)
class MeasureFigures:
    """The figures of one leaf that holds numbers.

    Attributes:
        path: column and fields, joined by dots.
        column: the top-level column.
        type: Arrow's name of the type.
        doc: what it means, when a struct type says so, else empty.
        rows: rows looked at.
        null: rows without a value.
        nan: rows with NaN.
        infinite: rows with an infinity.
        count: finite values.
        minimum: the least finite value, None without any.
        maximum: the greatest.
        mean: their mean.
        quantiles: value at each share, 0-1; empty without finite values.
        exact: whether quantiles and histogram come from all values, not from `sample` of them.
        sample: values they come from.
        histogram: None without finite values.
        distinct: how often each value is there, when these are few whole numbers; else empty.
        lowest: rows with the least values, least first.
        highest: rows with the greatest values, greatest first.
    """

    path: str
    column: str
    type: str
    doc: str
    rows: int
    null: int
    nan: int
    infinite: int
    count: int
    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    quantiles: Mapping[float, float]
    exact: bool
    sample: int
    histogram: Histogram | None
    distinct: Mapping[int, int] = field(default_factory=dict[int, int])
    lowest: tuple[NotedRow, ...] = ()
    highest: tuple[NotedRow, ...] = ()


@dataclass(frozen=True)
class ValueFigures:
    """The figures of one leaf that holds text, flags or times.

    Attributes:
        path: column and fields, joined by dots.
        column: the top-level column.
        type: Arrow's name of the type.
        doc: what it means, when a struct type says so, else empty.
        rows: rows looked at.
        null: rows without a value.
        top: the most frequent values as shown, with their counts; empty when they are too many or too long.
        other: rows with a value that is not in `top`.
        distinct: number of distinct values, None when they were not counted.
        shortest: bytes of the shortest text, None for what is no text.
        longest: bytes of the longest text, likewise.
        first: the least time as shown, None for what is no time.
        last: the greatest time.
        examples: a few values as shown, when they are not counted.
    """

    path: str
    column: str
    type: str
    doc: str
    rows: int
    null: int
    top: tuple[tuple[str, int], ...] = ()
    other: int = 0
    distinct: int | None = None
    shortest: int | None = None
    longest: int | None = None
    first: str | None = None
    last: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnFigures:
    """The figures of one top-level column.

    Attributes:
        name: its name as shown.
        type: its type in a few words.
        rows: rows looked at.
        null: rows that are null; of a struct, rows whose leaves are all null.
        nan: rows with NaN or an infinity in any leaf.
        from_statistics: whether the counts come from the files' own statistics, the values not being read.
    """

    name: str
    type: str
    rows: int
    null: int
    nan: int = 0
    from_statistics: bool = False

    @property
    def populated_fraction(self) -> float:
        """Share of rows that are not null, 0-1; 0 for no rows."""
        return (self.rows - self.null) / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class FailureGroup:
    """Rows that one column calls invalid for one reason.

    Attributes:
        column: the column, or the first part of the names of the columns, that tells the reason.
        reason: the reason as shown.
        rows: how many rows, of those looked at.
        examples: the first of them; their value is the detail that stands beside the reason.
    """

    column: str
    reason: str
    rows: int
    examples: tuple[NotedRow, ...]


@dataclass(frozen=True)
class Picture:
    """A row's picture, made small, or why there is none.

    Attributes:
        content: encoded bytes, or None.
        mime: their type.
        width: of the small picture, px.
        height: likewise.
        note: why there is no picture; empty when there is one.
        size: of the picture itself, in words.
    """

    content: bytes | None
    mime: str = "image/webp"
    width: int = 0
    height: int = 0
    note: str = ""
    size: str = ""


@dataclass(frozen=True)
class OverlayRow:
    """A row's pictures with their boxes, side by side.

    Attributes:
        key: the row's key as shown.
        place: where it is.
        panels: each picture's headline, the picture, and what is said of its boxes.
    """

    key: str
    place: RowPlace
    panels: tuple[tuple[str, Picture, str], ...]


@dataclass(frozen=True)
class Verdict:
    """What the receipt of a verifier says.

    Attributes:
        state: `passed`, `failed`, `stale` (the shards changed since) or `none`.
        words: the same in a sentence.
        problems: the first of what was wrong.
    """

    state: str
    words: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something that whoever reads the report should see first.

    Attributes:
        level: `bad`, `warn` or `good`.
        words: a sentence.
        section: id of the section that shows more.
    """

    level: str
    words: str
    section: str


@dataclass(frozen=True)
class ReportData:
    """All that a report shows.

    Attributes:
        title: the dataset's name, else the last part of the prefix.
        prefix: the output.
        main_prefix: where pictures come from, None when it is not known.
        written: when the report was made, UTC, ISO 8601.
        versions: versions of sidecar in the footers.
        shards: shards that are there.
        bytes: their size.
        shards_read: shards whose rows were looked at.
        rows: rows of all shards, from the footers of the files.
        rows_read: rows looked at.
        invalid_rows: rows that the column with most of them calls invalid.
        invalid_of: rows that `invalid_rows` is out of.
        verdict: what the last verifier found.
        status: runs, lease and failed shards.
        pipeline: the text of the last run's pipeline, or empty.
        command: the last run's command line, or empty.
        packages: versions that the last run used.
        fingerprints: fingerprints in the footers, with their number of shards.
        columns: every top-level column.
        measures: leaves of numbers.
        values: leaves of anything else.
        reasons: per judged column, invalid rows by reason.
        reasons_from: `all shards` or `the shards that were read`.
        failed_filters: rows by filter and reason.
        failures: groups of failed rows with examples.
        unreadable: shards that could not be read, and why.
        notes: what the report leaves out, and why.
        pictures: pictures of the rows that the report names.
        overlays: pictures with boxes.
        findings: what stands out.
    """

    title: str
    prefix: str
    main_prefix: str | None
    written: str
    versions: tuple[str, ...]
    shards: int
    bytes: int
    shards_read: int
    rows: int
    rows_read: int
    invalid_rows: int
    invalid_of: int
    verdict: Verdict
    status: OutputStatus
    pipeline: str
    command: str
    packages: Mapping[str, str]
    fingerprints: Mapping[str, int]
    columns: tuple[ColumnFigures, ...]
    measures: tuple[MeasureFigures, ...]
    values: tuple[ValueFigures, ...]
    reasons: Mapping[str, Mapping[str, int]]
    reasons_from: str
    failed_filters: tuple[tuple[str, str, int], ...]
    failures: tuple[FailureGroup, ...]
    unreadable: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    pictures: Mapping[RowPlace, Picture] = field(default_factory=dict[RowPlace, Picture])
    overlays: tuple[OverlayRow, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether some shards were left out."""
        return self.shards_read < self.shards - len(self.unreadable)

    @property
    def is_output(self) -> bool:
        """Whether sidecar made it, so that it is no main dataset: runs or footers tell."""
        return bool(self.fingerprints) or self.status.runs_in_all > 0
