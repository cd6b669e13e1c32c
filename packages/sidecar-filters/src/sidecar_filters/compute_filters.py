"""`compute_filters`: one struct column a filter, and a column that says what became of each row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
from pydantic import AfterValidator, AliasChoices, Field, field_validator
from sidecar_core.errors import SidecarError
from sidecar_core.isolation import shared_pool
from sidecar_core.op import BaseOp, OpParams, set_columns
from sidecar_core.reasons import Reason
from sidecar_core.registry import register_op

from sidecar_filters.base import DEFAULT_MAX_PIXELS
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec, RowMeasures
from sidecar_filters.registry import find_filter, find_filters
from sidecar_filters.status import STATUS_COLUMN, STATUS_STRUCT, row_status, row_values, without_unknown_fields

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar_core.dataset import Dataset
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.op import OpContext

    from sidecar_filters.base import Filter


def _known_filter(name: str) -> str:
    try:
        find_filter(name)
    except SidecarError as error:
        raise ValueError(str(error)) from error
    return name


@register_op("compute_filters")
class ComputeFilters(BaseOp):
    """Adds `filter_<name>` for each filter, and `filter_status`.

    ```yaml
    operations:
      - type: compute_filters
        filters: [luma, clarity, exif_rotation]
    ```

    Each picture is decoded once for all filters, in an isolated child process. A row whose picture cannot be
    measured keeps null structs for the filters concerned; `filter_status` says which, and why.
    """

    class Params(OpParams):
        """Parameters of `compute_filters`.

        Attributes:
            filters: names of filters, in the order of the columns.
            workers: child processes (also accepted as `threads`); default what the run was given.
            row_timeout_s: seconds after which a row is given up; where one filter hangs, the others get as long again.
            max_pixels: pictures whose header declares more are not decoded.
        """

        filters: Annotated[tuple[Annotated[str, AfterValidator(_known_filter)], ...], Field(min_length=1)]
        workers: Annotated[int, Field(ge=1, le=1024)] | None = Field(
            None, validation_alias=AliasChoices("workers", "threads")
        )
        row_timeout_s: Annotated[float, Field(gt=0)] = 60.0
        max_pixels: Annotated[int, Field(ge=1)] = DEFAULT_MAX_PIXELS

        @field_validator("filters")
        @classmethod
        def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"filter {twice[0]!r} is named twice")
            return names

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self._filters = find_filters(params.filters)

    def validate(self, dataset: Dataset) -> None:
        dataset.require_image_column()

    def input_columns(self, dataset: Dataset) -> list[str]:
        return [dataset.require_image_column()]

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        types = dataset.struct_types
        fields = [pa.field(column_name(each), types.struct(each.struct)) for each in self._filters]
        return [*fields, pa.field(STATUS_COLUMN, types.struct(STATUS_STRUCT))]

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        chosen = [each for each in self._filters if column_name(each) in columns or STATUS_COLUMN in columns]
        versions = {each.name: each.version for each in chosen}
        return {"filters": versions, "max_pixels": self.params.max_pixels}

    def reason_columns(self) -> dict[str, str]:
        return {STATUS_COLUMN: f"{STATUS_COLUMN}.status"}

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        images = encoded_images(table.column(ctx.dataset.require_image_column()))
        spec = MeasureSpec(self._filters, self.params.max_pixels)
        rows = measure_rows(self._pool(ctx.isolation), images, spec, timeout_s=self.params.row_timeout_s)
        schema = pa.schema(self.output_fields(ctx.dataset))
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        for each in self._filters:
            columns[column_name(each)], rows = filter_column(each, schema.field(column_name(each)).type, rows)
        statuses = [row_status(self._filters, row) for row in rows]
        columns[STATUS_COLUMN] = pa.array(statuses, schema.field(STATUS_COLUMN).type)
        return set_columns(table, columns, schema)

    def _pool(self, given: IsolationPool) -> IsolationPool:
        """Returns the run's pool, or one with as many children as the parameters ask for."""
        if self.params.workers in (None, given.options.workers):
            return given
        return shared_pool(replace(given.options, workers=self.params.workers))


def column_name(each: Filter) -> str:
    """Returns the name of a filter's column."""
    return f"filter_{each.name}"


def encoded_images(column: pa.ChunkedArray) -> list[bytes | None]:
    """Returns each row's encoded picture, or None.

    Args:
        column: binary of any kind, or a struct with a binary field `bytes`; a dictionary of them too.
    """
    images: list[bytes | None] = []
    for chunk in column.chunks:
        array = chunk.dictionary_decode() if isinstance(chunk, pa.DictionaryArray) else chunk
        if isinstance(array, pa.StructArray):
            array = array.flatten()[array.type.get_field_index("bytes")]
        images.extend(array.to_pylist())
    return images


def filter_column(each: Filter, dtype: pa.DataType, rows: list[RowMeasures]) -> tuple[pa.Array, list[RowMeasures]]:
    """Returns a filter's column; a row with values that its type does not have is null there, and says so.

    Args:
        each: the filter.
        dtype: its struct type.
        rows: what was measured.

    Returns:
        The column, and the rows with such failures added.
    """
    rows = without_unknown_fields(each, dtype, rows)
    values = [row_values(each, dtype, row) for row in rows]
    try:
        return pa.array(values, dtype), rows
    except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
        pass
    checked = list(rows)
    for index, value in enumerate(values):
        try:
            pa.array([value], dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError) as error:
            checked[index] = RowMeasures(
                {**rows[index].values, each.name: {}},
                {**rows[index].failed, each.name: Reason.CRASHED},
                (*rows[index].details, f"filter {each.name!r}: {type(error).__name__}: {error}"[:300]),
            )
            values[index] = row_values(each, dtype, checked[index])
    return pa.array(values, dtype), checked
