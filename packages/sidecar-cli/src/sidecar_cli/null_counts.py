"""How many rows of a file are null, column by column and leaf by leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sidecar_core.foreign_types import holds_pictures
from sidecar_core.nulls import null_rows
from sidecar_core.shard_reader import read_row_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq


def count_nulls(file: pq.ParquetFile) -> dict[str, int | None]:
    """Returns the null rows of each column, and of each field inside structs as `column.field`.

    A struct's row is null when everything in it is null, or, of a struct with a picture, when its bytes are. What
    the footer tells is not read; pictures never are, and None is the count of those of which it tells nothing.
    """
    told = _told_by_footer(file)
    counts: dict[str, int | None] = {}
    for field in file.schema_arrow:
        name = field.name
        paths = [path for path, _ in leaf_types(name, field.type)]
        if holds_pictures(field.type):
            counts.update({path: told.get(path) for path in paths})
            if len(paths) > 1:
                counts[name] = told.get(f"{name}.bytes")
        elif all(told.get(path) == 0 for path in _leaf_paths(name, field.type)):
            counts.update(dict.fromkeys(paths, 0))
        elif name in told:
            counts[name] = told[name]
        else:
            counts.update(_counted(file, field))
    return counts


def leaf_types(path: str, dtype: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yields a column, and the fields inside it when it is a struct, each before those inside it."""
    yield path, dtype
    if isinstance(dtype, pa.StructType):
        for field in dtype:
            yield from leaf_types(f"{path}.{field.name}", field.type)


def _leaf_paths(path: str, dtype: pa.DataType) -> list[str]:
    return [each for each, inner in leaf_types(path, dtype) if not isinstance(inner, pa.StructType)]


def _told_by_footer(file: pq.ParquetFile) -> dict[str, int]:
    """Returns the nulls of each leaf of which every row group has statistics; leaves of lists are left out."""
    told: dict[str, int] = {}
    metadata = file.metadata
    for index in range(len(file.schema)):
        column = file.schema.column(index)
        if column.max_repetition_level:
            continue
        total = 0
        for group in range(metadata.num_row_groups):
            if not metadata.row_group(group).num_rows:
                continue
            statistics = metadata.row_group(group).column(index).statistics
            if statistics is None or statistics.null_count is None:
                break
            total += statistics.null_count
        else:
            told[column.path] = total
    return told


def _counted(file: pq.ParquetFile, field: pa.Field) -> dict[str, int]:
    counts = {path: 0 for path, _ in leaf_types(field.name, field.type)}
    for group in range(file.metadata.num_row_groups):
        for batch in read_row_group(file, group, [field.name]):
            for path, values in _leaves(field.name, batch.column(field.name)):
                counts[path] += null_rows(values).true_count
    return counts


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    yield path, values
    if isinstance(values, pa.StructArray):
        for field, child in zip(values.type, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", child)
