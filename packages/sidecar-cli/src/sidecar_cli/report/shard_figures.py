"""What one shard holds, read in batches; figures of several shards are added up in their order."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
# the stubs know few of Arrow's functions, and not all that those take

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sidecar_core.errors import ShardError, StorageError
from sidecar_core.footer import FooterInfo
from sidecar_core.shard_reader import open_parquet, read_row_group
from sidecar_core.storage import Storage
from sidecar_core.types import null_rows

from sidecar_cli.report.extremes import Extremes
from sidecar_cli.report.failures import Failures, find_reason_columns
from sidecar_cli.report.figures import RowPlace
from sidecar_cli.report.leaf_figures import LeafFigures
from sidecar_cli.report.leaves import Leaf, is_bytes, split_leaves
from sidecar_cli.report.shown_text import shown

MAX_LEAVES = 400


@dataclass(frozen=True)
class Keep:
    """How much is kept of a shard.

    Attributes:
        key_column: name of the key column, or None.
        extremes: rows at each end of a measure.
        examples: rows of each group of failures.
    """

    key_column: str | None
    extremes: int
    examples: int


@dataclass
class ColumnCounts:
    """Rows, null rows and rows with NaN or an infinity of one top-level column."""

    type: pa.DataType
    rows: int = 0
    null: int = 0
    nan: int = 0
    from_statistics: bool = False


@dataclass
class ShardFigures:
    """The figures of one shard, or of several.

    Attributes:
        rows: rows looked at.
        columns: by name.
        leaves: by path.
        failures: invalid rows.
        footers: what the shards say about themselves; None for files that sidecar did not write.
        unreadable: shards that could not be read, and why.
        left_out: leaves that are too many to be looked at.
    """

    failures: Failures
    rows: int = 0
    columns: dict[str, ColumnCounts] = field(default_factory=dict[str, ColumnCounts])
    leaves: dict[tuple[str, ...], LeafFigures] = field(default_factory=dict[tuple[str, ...], LeafFigures])
    footers: list[FooterInfo | None] = field(default_factory=list[FooterInfo | None])
    unreadable: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    left_out: int = 0

    def merge(self, other: ShardFigures) -> None:
        """Adds the figures of a shard that comes later."""
        self.rows += other.rows
        self.failures.merge(other.failures)
        self.footers += other.footers
        self.unreadable += other.unreadable
        self.left_out = max(self.left_out, other.left_out)
        for name, counts in other.columns.items():
            mine = self.columns.setdefault(name, ColumnCounts(counts.type))
            mine.rows += counts.rows
            mine.null += counts.null
            mine.nan += counts.nan
            mine.from_statistics |= counts.from_statistics
        for path, figures in other.leaves.items():
            if path not in self.leaves:
                self.leaves[path] = figures
            else:
                self.leaves[path].merge(figures)


def read_shard_figures(output: Storage, rel_path: str, keep: Keep) -> ShardFigures:
    """Reads a shard's columns, all but those of bytes; a shard that cannot be read is noted."""
    figures = ShardFigures(Failures(keep.examples))
    try:
        with open_parquet(output, rel_path) as file:
            try:
                footer = FooterInfo.from_metadata(file.metadata.metadata)
            except ValueError as error:
                raise ShardError(f"{output.uri(rel_path)}: {error}") from error
            _ShardReader(file, rel_path, keep, figures).read()
            figures.footers.append(footer)
    except (ShardError, StorageError, pa.ArrowException, OSError) as error:
        return ShardFigures(Failures(keep.examples), unreadable=[(rel_path, shown(_message(error), limit=600))])
    return figures


class _ShardReader:
    def __init__(self, file: pq.ParquetFile, rel_path: str, keep: Keep, figures: ShardFigures) -> None:
        self._file, self._rel_path, self._keep, self._figures = file, rel_path, keep, figures
        schema = file.schema_arrow
        self._names = [field.name for field in schema if not is_bytes(field.type)]
        if keep.key_column in schema.names and keep.key_column not in self._names:
            self._names.append(keep.key_column)  # a key of bytes
        self._statistics = [field for field in schema if field.name not in self._names]
        self._reasons = find_reason_columns(schema)

    def read(self) -> None:
        """Reads the shard."""
        for column in self._statistics:
            self._figures.columns[column.name] = _null_statistics(self._file, column)
        self._figures.rows = self._file.metadata.num_rows
        schema = pa.schema([self._file.schema_arrow.field(name) for name in self._names])
        no_rows = [column.chunk(0) for column in schema.empty_table().columns]
        self._add(pa.RecordBatch.from_arrays(no_rows, schema=schema), 0)  # a shard without rows has columns too
        row = 0
        for group in range(self._file.metadata.num_row_groups):
            for batch in read_row_group(self._file, group, self._names):
                self._add(batch, row)
                row += batch.num_rows
        for leaf in self._figures.leaves.values():
            leaf.numbers.compact()

    def _add(self, batch: pa.RecordBatch, first_row: int) -> None:
        key_column = self._keep.key_column
        has_key = key_column in batch.schema.names
        keys = batch.column(key_column) if has_key else pa.nulls(batch.num_rows, pa.string())
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            self._add_column(name, array, keys, first_row)
        self._figures.failures.add(batch, self._reasons, keys, RowPlace(self._rel_path, first_row))

    def _add_column(self, name: str, array: pa.Array, keys: pa.Array, first_row: int) -> None:
        counts = self._figures.columns.setdefault(name, ColumnCounts(array.type))
        counts.rows += len(array)
        counts.null += int(pc.sum(null_rows(array)).as_py() or 0)
        odd: Any = None
        for leaf, values in split_leaves(name, array):
            if pa.types.is_floating(values.type):
                found = pc.fill_null(pc.invert(pc.is_finite(values)), fill_value=False)
                odd = found if odd is None else pc.or_(odd, found)
            if name != self._keep.key_column:
                self._add_leaf(leaf, values, keys, first_row)
        counts.nan += int(pc.sum(odd).as_py() or 0) if odd is not None else 0

    def _add_leaf(self, leaf: Leaf, values: pa.Array, keys: pa.Array, first_row: int) -> None:
        leaves = self._figures.leaves
        if leaf.path not in leaves:
            if len(leaves) >= MAX_LEAVES:
                self._figures.left_out += 1 if len(values) == 0 else 0
                return
            leaves[leaf.path] = LeafFigures(leaf, extremes=Extremes(self._keep.extremes))
        figures = leaves[leaf.path]
        if leaf.kind in ("number", "items"):
            if leaf.kind == "items":
                values = pc.list_value_length(values)
            figures.numbers.add(values, seed=f"{leaf.name}\0{self._rel_path}\0{first_row}")
            if leaf.kind == "number":
                figures.extremes.add(values, keys, shard=self._rel_path, first_row=first_row)
        elif leaf.kind == "time":
            figures.times.add(values)
        elif leaf.kind in ("text", "flag"):
            figures.values.add(values)
        else:
            figures.values.rows += len(values)
            figures.values.null += values.null_count
            figures.values.counts = None


def _null_statistics(file: pq.ParquetFile, column: pa.Field) -> ColumnCounts:
    """Counts the nulls of a column without reading its values, where the file says how many there are."""
    metadata = file.metadata
    counts = ColumnCounts(column.type, rows=metadata.num_rows, from_statistics=True)
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        index = next(i for i in range(row_group.num_columns) if row_group.column(i).path_in_schema == column.name)
        statistics = row_group.column(index).statistics
        if statistics is not None and statistics.has_null_count:
            counts.null += statistics.null_count or 0
        elif column.nullable:
            counts.null += sum(batch.column(0).null_count for batch in read_row_group(file, group, [column.name]))
    return counts


def _message(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def footers_by_field(footers: list[FooterInfo | None], name: str) -> Mapping[str, int]:
    """Returns the shards by a field of their footers."""
    found: dict[str, int] = {}
    for footer in footers:
        if footer is not None:
            value = shown(getattr(footer, name))
            found[value] = found.get(value, 0) + 1
    return found
