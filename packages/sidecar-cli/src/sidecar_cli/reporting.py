"""What `sidecar report` does: gathers, writes the page, and words the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sidecar_core.problems import counted
from sidecar_core.storage import normalise_prefix, open_storage
from sidecar_runtimes.options import KEY_COLUMN

from sidecar_cli.output import Block, Facts, Table
from sidecar_cli.report.figures import MeasureFigures, ReportData
from sidecar_cli.report.file import default_file, given_file, write_file
from sidecar_cli.report.gather import ReportOptions, gather_report
from sidecar_cli.report.page import render_page

_GIB = 2**30


def make_report(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the report of an output and returns its path and figures, as JSON values.

    Args:
        prefix: the output.
        options: those of the command.

    Raises:
        UsageError: there is nothing at the prefix, or a flag is wrong.
        RefusedError: the file would lie in the main dataset, or replace what no report wrote.
        StorageError: the output cannot be listed, or the file not written.
    """
    output = open_storage(normalise_prefix(prefix))
    main_prefix = normalise_prefix(options["main_prefix"]) if options["main_prefix"] else None
    if options["out"]:
        given_file(options["out"], protected=[main_prefix])  # before the work
    data = gather_report(output, report_options(options))
    main_prefixes = [main_prefix, data.main_prefix]
    if options["out"]:
        file = given_file(options["out"], protected=[*main_prefixes, None if data.is_output else output.prefix])
    else:
        file = default_file(output.prefix, made_by_sidecar=data.is_output, protected=main_prefixes)
    size_bytes = write_file(file, render_page(data))
    return {"path": str(file), "bytes": size_bytes, **describe_report(data)}


def write_report(prefix: str, *, workers: int | None = None) -> str:
    """Writes the report of a local output that sidecar made into its run folder; returns its path.

    Args:
        prefix: the output, normalised.
        workers: children that decode pictures; default the machine's cores.
    """
    data = gather_report(open_storage(prefix), ReportOptions(workers=workers))
    file = default_file(prefix, made_by_sidecar=data.is_output, protected=[data.main_prefix])
    write_file(file, render_page(data))
    return str(file)


def report_options(options: Mapping[str, Any]) -> ReportOptions:
    """Returns what the command line asks for."""
    key_column = options["key_column"]
    return ReportOptions(
        main_prefix=options["main_prefix"],
        key_column=None if key_column == KEY_COLUMN.default else key_column,
        image_column=options["image_column"],
        sample_shards=options["sample_shards"],
        seed=options["seed"],
        thumbnails=options["thumbnails"],
        overlays=options["overlays"],
        picture_bytes=int(options["picture_gib"] * _GIB),
        workers=options["workers"],
    )


def describe_report(data: ReportData) -> dict[str, Any]:
    """Returns the figures as JSON values, without pictures."""
    return {
        "title": data.title,
        "prefix": data.prefix,
        "main_prefix": data.main_prefix,
        "shards": data.shards,
        "shards_read": data.shards_read,
        "rows": data.rows,
        "rows_read": data.rows_read,
        "invalid_rows": data.invalid_rows,
        "invalid_of": data.invalid_of,
        "verified": data.verdict.state,
        "columns": {
            column.name: {"type": column.type, "rows": column.rows, "null": column.null, "nan": column.nan}
            for column in data.columns
        },
        "measures": {measure.path: _describe_measure(measure) for measure in data.measures},
        "reasons": {column: dict(counts) for column, counts in data.reasons.items()},
        "unreadable": [{"shard": shard, "error": error} for shard, error in data.unreadable],
        "failed_shards": len(data.status.failed_shards),
        "pictures": sum(picture.content is not None for picture in data.pictures.values()),
        "findings": [{"level": finding.level, "words": finding.words} for finding in data.findings],
        "notes": list(data.notes),
    }


def report_view(result: Mapping[str, Any]) -> list[Block]:
    """Returns the result for people; the last line is the path."""
    invalid = f"{result['invalid_rows']:,} of {result['invalid_of']:,}"
    view: list[Block] = [
        Facts(
            [
                ("output", result["prefix"]),
                ("rows", result["rows"]),
                ("looked at", f"{counted(result['rows_read'], 'row')} of {counted(result['shards_read'], 'shard')}"),
                ("invalid rows", invalid),
                ("page", f"{result['bytes']:,} bytes"),
            ]
        )
    ]
    findings = [(each["level"], each["words"]) for each in result["findings"]]
    if findings:
        view.append(Table(("", "what stands out"), findings))
    return [*view, result["path"]]


def _describe_measure(measure: MeasureFigures) -> dict[str, Any]:
    return {
        "type": measure.type,
        "rows": measure.rows,
        "null": measure.null,
        "nan": measure.nan,
        "infinite": measure.infinite,
        "min": measure.minimum,
        "max": measure.maximum,
        "mean": measure.mean,
        "quantiles": {f"p{100 * share:g}": value for share, value in measure.quantiles.items()},
        "exact": measure.exact,
    }
