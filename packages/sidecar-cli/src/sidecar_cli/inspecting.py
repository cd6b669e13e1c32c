"""Looks at a dataset or a file for `sidecar inspect`: at footers, at a sample of shards, at a few rows."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sidecar_core.errors import ShardError, StorageNotFoundError, UsageError
from sidecar_core.footer import FooterInfo
from sidecar_core.inputs import find_file
from sidecar_core.problems import counted
from sidecar_core.proof import choose_shards
from sidecar_core.python_values import python_values
from sidecar_core.reader import AlignedDatasets
from sidecar_core.row_reader import RowReader
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import open_storage

from sidecar_cli.null_counts import count_nulls, leaf_types
from sidecar_cli.shown_values import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.storage import ObjectInfo, Storage
    from sidecar_runtimes.text_view import Show

_PARALLEL_SHARDS = 8
_ONLY_SQL = ("main_prefix", "sidecar", "key_column", "missing", "max_rows")
_MAX_ROWS = 1000


@dataclass(frozen=True)
class ShardLook:
    """What one shard holds.

    Attributes:
        rel_path: the shard.
        rows: its rows.
        schema: its columns.
        nulls: null rows by column and by `column.field`, None where nothing tells.
        footer: what sidecar wrote into it, or None.
        problem: why nothing of this is known, or an empty text.
    """

    rel_path: str
    rows: int = 0
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    nulls: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    footer: FooterInfo | None = None
    problem: str = ""


@dataclass(frozen=True)
class Inspection:
    """What a dataset or a file holds.

    Attributes:
        place: the prefix or file.
        shards: its shards.
        size_bytes: their size.
        looks: what was found in those that were looked at.
        head: its first rows, as JSON values.
    """

    place: str
    shards: int
    size_bytes: int
    looks: tuple[ShardLook, ...]
    head: tuple[Mapping[str, object], ...]

    @property
    def readable(self) -> list[ShardLook]:
        """The shards that could be read."""
        return [look for look in self.looks if not look.problem]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first shard that could be read."""
        return self.readable[0].schema

    @property
    def rows(self) -> int:
        """Rows of the shards that were looked at."""
        return sum(look.rows for look in self.looks)

    def other_schemas(self) -> list[str]:
        """Returns the shards whose columns are not those of the first."""
        return [look.rel_path for look in self.readable if not look.schema.equals(self.schema)]

    def columns(self) -> list[dict[str, Any]]:
        """Returns each column and each field inside structs: its path, type, and null rows of how many."""
        looks = [look for look in self.readable if look.schema.equals(self.schema)]
        rows = sum(look.rows for look in looks)
        columns: list[dict[str, Any]] = []
        for each in self.schema:
            for path, dtype in leaf_types(each.name, each.type):
                counts = [look.nulls[path] for look in looks]
                null = None if None in counts else sum(count or 0 for count in counts)
                fraction = null / rows if rows and null is not None else None
                columns.append(
                    {"name": path, "type": str(dtype), "null": null, "rows": rows, "null_fraction": fraction}
                )
        return columns

    def provenance(self) -> list[dict[str, Any]]:
        """Returns, for each run and pipeline that wrote shards here, what their footers say."""
        found: dict[tuple[str, str, str], dict[str, Any]] = {}
        for look in self.readable:
            footer = look.footer
            if footer is None:
                continue
            made = found.setdefault(
                (footer.run_id, footer.fingerprint, footer.version),
                {
                    "run_id": footer.run_id,
                    "fingerprint": footer.fingerprint,
                    "version": footer.version,
                    "shards": 0,
                    "inputs": Counter[tuple[str, str]](),
                    "invalid": {},
                },
            )
            made["shards"] += 1
            made["inputs"].update({(each.kind, each.uri.removesuffix(look.rel_path)): 1 for each in footer.inputs})
            for column, reasons in footer.invalid.items():
                made["invalid"].setdefault(column, Counter()).update(reasons)
        for made in found.values():
            made["inputs"] = [{"kind": kind, "prefix": uri, "shards": n} for (kind, uri), n in made["inputs"].items()]
            made["invalid"] = {column: dict(reasons) for column, reasons in made["invalid"].items() if reasons}
        return [found[key] for key in sorted(found)]


def inspect_job(what: str, options: Mapping[str, Any], show: Show) -> None:
    """Looks at a prefix or a file, or queries it.

    Args:
        what: a prefix, or the path or URI of one file.
        options: those of `sidecar inspect`, by parameter name.
        show: takes the findings, as JSON values and as people read them.
    """
    for name in ("sample", "max_rows"):
        if options[name] is not None and options[name] < 1:
            raise UsageError(f"--{name.replace('_', '-')} {options[name]}: must be at least 1")
    if options["rows"] < 0:
        raise UsageError(f"--rows {options['rows']}: must not be negative")
    try:
        if options["sql"] is not None:
            _query(what, options, show)
        else:
            _look_at(what, options, show)
    except StorageNotFoundError as error:
        raise UsageError(error.message, "a prefix with shards, or a Parquet file", error.fix) from error


def _look_at(what: str, options: Mapping[str, Any], show: Show) -> None:
    for name in _ONLY_SQL:
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} is for --sql", None, "--sql QUERY")
    from sidecar_cli.inspect_words import describe_inspection, inspection_view

    found = inspect_place(
        what,
        subprefix=options["input_subprefix"],
        sample=None if options["all"] else options["sample"],
        seed=options["seed"],
        rows=options["rows"],
    )
    show(describe_inspection(found), inspection_view(found))


def inspect_place(
    what: str, *, subprefix: str = "", sample: int | None = 50, seed: int = 0, rows: int = 5
) -> Inspection:
    """Returns what a prefix or a file holds.

    Args:
        what: a prefix, or the path or URI of one file.
        subprefix: only shards whose path begins with it.
        sample: how many shards to look at, None for all.
        seed: of the sample.
        rows: how many rows to take from the first shard that has any.

    Raises:
        UsageError: there are no shards, or none that was looked at can be read.
        StorageError: nothing is there, or it cannot be read.
    """
    file = find_file(what)
    storage, shards = (file[0], [file[1]]) if file is not None else _list_shards(what, subprefix)
    by_path = {info.rel_path: info for info in shards}
    chosen = choose_shards(list(by_path), sample, seed=seed)
    with ThreadPoolExecutor(_PARALLEL_SHARDS) as pool:
        looks = tuple(pool.map(partial(_look, storage), chosen))
    readable = [look for look in looks if not look.problem]
    if not readable:
        raise ShardError(f"none of {counted(len(looks), 'shard')} looked at is readable: {looks[0].problem}")
    filled = next((look for look in readable if look.rows), None)
    return Inspection(
        place=storage.prefix if file is None else storage.uri(file[1].rel_path),
        shards=len(shards),
        size_bytes=sum(info.size_bytes for info in shards),
        looks=looks,
        head=_head(storage, filled.rel_path, rows) if filled is not None and rows else (),
    )


def _list_shards(prefix: str, subprefix: str) -> tuple[Storage, list[ObjectInfo]]:
    storage = open_storage(prefix)
    shards = storage.list_shards(subprefix)
    if not shards:
        expected = "*.parquet files at any depth, in folders that do not begin with '_' or '.'"
        raise UsageError(f"no shards at {storage.prefix}{subprefix}", expected)
    return storage, shards


def _look(storage: Storage, rel_path: str) -> ShardLook:
    try:
        with open_parquet(storage, rel_path) as file:
            return ShardLook(
                rel_path,
                rows=file.metadata.num_rows,
                schema=file.schema_arrow.remove_metadata(),
                nulls=count_nulls(file),
                footer=FooterInfo.from_metadata(file.metadata.metadata),
            )
    except ShardError as error:
        return ShardLook(rel_path, problem=error.message)
    except (ValueError, pa.ArrowException, OSError) as error:  # damaged behind a footer that is not
        return ShardLook(rel_path, problem=f"{storage.uri(rel_path)}: {str(error).strip()}")


def _head(storage: Storage, rel_path: str, rows: int) -> tuple[Mapping[str, object], ...]:
    with open_parquet(storage, rel_path) as file:
        found = file.schema_arrow
        schema = pa.schema([each for each in found if found.names.count(each.name) == 1])
        reader = RowReader(file, storage.uri(rel_path), schema, types_from="the file itself")
        table = reader.rows(0, min(rows, reader.num_rows))
        columns = {name: python_values(table.column(name)) for name in table.column_names}
        return tuple({name: as_json(values[row]) for name, values in columns.items()} for row in range(table.num_rows))


def _query(what: str, options: Mapping[str, Any], show: Show) -> None:
    if not options["sql"].strip():
        raise UsageError("--sql is empty", "a query of the table `data`", "--sql 'select * from data limit 5'")
    from sidecar_cli.inspect_words import result_view
    from sidecar_cli.sql_query import query_data

    file = find_file(what)
    if file is not None and (options["main_prefix"] or options["sidecar"]):
        raise UsageError(f"{what} is one file; --main-prefix and --sidecar go with a prefix", None, file[0].prefix)
    beside = [*options["sidecar"], *([options["main_prefix"]] if options["main_prefix"] else [])]
    data = AlignedDatasets.open(
        what if file is None else file[0].prefix,
        beside,
        key_column=options["key_column"],
        subprefix=options["input_subprefix"] if file is None else file[1].rel_path,
        missing=options["missing"] or "error",
    )
    result = query_data(data, options["sql"], max_rows=options["max_rows"] or _MAX_ROWS)
    rows = [[as_json(value) for value in row] for row in result.rows]
    described = {"columns": list(result.columns), "rows": rows, "complete": result.complete}
    show(described, result_view(result))
