"""What an index is made of: a source, its key column, the columns to look up, and what a key is that is there twice."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - pydantic reads annotations while running
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from sidecar_core.align import check_comparable
from sidecar_core.config import StrictModel
from sidecar_core.errors import AlignmentError, UsageError
from sidecar_core.problems import did_you_mean
from sidecar_core.side_inputs import SideInputSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

Duplicates = Literal["error", "first", "last"]


class IndexSpec(StrictModel):
    """The parameters of the loader `parquet_index`.

    Attributes:
        source: a Parquet file, or a prefix with Parquet files below; absolute.
        key_column: the source's column of keys.
        columns: the columns to look up; None for all but the key column.
        duplicates: which row a key means that the source has twice, in file, then row order; or that it is an error.
    """

    source: str
    key_column: str
    columns: tuple[str, ...] | None = None
    duplicates: Duplicates = "error"


def parquet_index_spec(
    source: str, *, key_column: str, columns: Sequence[str] | None, duplicates: Duplicates = "error"
) -> SideInputSpec:
    """Returns the side input that an op declares to look up columns by key.

    Args:
        source: a Parquet file, or a prefix with Parquet files below; absolute.
        key_column: the source's column of keys.
        columns: the columns to look up; None for all but the key column.
        duplicates: as in `IndexSpec`.
    """
    params = {
        "source": source,
        "key_column": key_column,
        "columns": None if columns is None else list(columns),
        "duplicates": duplicates,
    }
    return SideInputSpec("parquet_index", params, sources=(source,))


def value_schema(schema: pa.Schema, spec: IndexSpec) -> pa.Schema:
    """Returns the columns that an index has, of a source with this schema; each may be null.

    Raises:
        UsageError: the source lacks a column or has it twice, or the key column is of a type that cannot be a key.
    """
    wanted = [name for name in schema.names if name != spec.key_column] if spec.columns is None else spec.columns
    for name in (spec.key_column, *wanted):
        found = schema.names.count(name)
        if found == 0:
            role = "key column" if name == spec.key_column else "column"
            message = f"{spec.source}: no {role} {name!r}{did_you_mean(name, schema.names)}"
            raise UsageError(message, "columns " + _listed(schema.names))
        if found > 1:
            raise UsageError(f"{spec.source}: {found} columns {name!r}", "one column of a name")
    twice = next((name for name in wanted if list(wanted).count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"column {twice!r} of {spec.source} is asked for twice")
    key_type = schema.field(spec.key_column).type
    try:
        check_comparable(key_type, pa.null())
    except AlignmentError as error:
        raise UsageError(f"{spec.source}: {spec.key_column!r}: {error.message}", error.expected) from error
    return pa.schema([schema.field(name).remove_metadata().with_nullable(True) for name in wanted])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
