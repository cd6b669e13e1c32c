"""How `sidecar inspect` words what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar_core.problems import counted

from sidecar_cli.output import Block, Facts, Table
from sidecar_cli.shown_values import as_cell

if TYPE_CHECKING:
    from sidecar_cli.inspecting import Inspection
    from sidecar_cli.sql_query import SqlResult

_NAMED = 5
_TYPE_CHARACTERS = 48
_KINDS: dict[str, str] = {"main": "main dataset", "sibling": "sidecar merged", "side_input": "side input"}


def describe_inspection(found: Inspection) -> dict[str, Any]:
    """Returns the findings as JSON values."""
    return {
        "place": found.place,
        "shards": found.shards,
        "bytes": found.size_bytes,
        "shards_looked_at": len(found.looks),
        "rows": found.rows,
        "columns": found.columns(),
        "other_schemas": found.other_schemas(),
        "provenance": found.provenance(),
        "unreadable": {look.rel_path: look.problem for look in found.looks if look.problem},
        "head": [dict(row) for row in found.head],
    }


def inspection_view(found: Inspection) -> list[Block]:
    """Returns the findings for people."""
    looked = len(found.looks)
    rows: object = found.rows
    if looked < found.shards:
        about = round(found.rows / len(found.readable) * found.shards)
        rows = f"{found.rows:,} in {counted(looked, 'shard')} drawn at random; about {about:,} in all"
    view: list[Block] = [
        Facts(
            [
                ("place", found.place),
                ("shards", found.shards),
                ("bytes", found.size_bytes),
                ("rows", rows),
                ("written by", _writer(found)),
            ]
        )
    ]
    view.append(
        Table(
            ("column", "type", "null", "null %"),
            [
                (
                    "  " * each["name"].count(".") + each["name"].rpartition(".")[2]
                    if each["name"] not in found.schema.names
                    else each["name"],
                    as_cell("struct" if each["type"].startswith("struct<") else each["type"], limit=_TYPE_CHARACTERS),
                    each["null"],
                    None if each["null_fraction"] is None else f"{100 * each['null_fraction']:.1f}",
                )
                for each in found.columns()
            ],
            title="Columns",
        )
    )
    view += [_made(made) for made in found.provenance()]
    for title, paths in (
        ("with other columns than the first", found.other_schemas()),
        ("that cannot be read", [look.problem for look in found.looks if look.problem]),
    ):
        if paths:
            named = "; ".join(paths[:_NAMED]) + ("; …" if paths[_NAMED:] else "")
            view.append(f"{counted(len(paths), 'shard')} {title}: {named}")
    if found.head:
        view.append(_head(found))
    return view


def result_view(result: SqlResult) -> list[Block]:
    """Returns a query's result for people."""
    if not result.columns:
        return ["The query has no result."]
    view: list[Block] = [Table(result.columns, [[as_cell(value) for value in row] for row in result.rows])]
    if not result.rows:
        view.append("No row fits the query.")
    if not result.complete:
        view.append(f"Only the first {counted(len(result.rows), 'row')}; --max-rows shows more.")
    return view


def _writer(found: Inspection) -> str:
    made = sum(look.footer is not None for look in found.readable)
    if not made:
        return "another program than sidecar"
    versions = sorted({look.footer.version for look in found.readable if look.footer is not None})
    of = "" if made == len(found.readable) else f", {made:,} of {counted(len(found.readable), 'shard')}"
    return f"sidecar {', '.join(versions)}{of}"


def _made(made: dict[str, Any]) -> Facts:
    pairs: list[tuple[str, object]] = [
        ("run", made["run_id"]),
        ("shards", made["shards"]),
        ("fingerprint", made["fingerprint"]),
    ]
    pairs += [(_KINDS.get(each["kind"], str(each["kind"])), each["prefix"]) for each in made["inputs"]]
    for column, reasons in made["invalid"].items():
        ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        pairs.append((f"invalid {column}", ", ".join(f"{reason} {count:,}" for reason, count in ordered)))
    return Facts(pairs, title="Made by")


def _head(found: Inspection) -> Table:
    """Returns the first rows on their side: a column of the dataset a line, for there may be many."""
    names = list(found.head[0])
    rows = [[name, *(as_cell(row[name], limit=36) for row in found.head)] for name in names]
    return Table(("column", *(f"row {number}" for number in range(len(found.head)))), rows, title="First rows")
