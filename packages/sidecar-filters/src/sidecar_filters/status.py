"""What the column `filter_status` says about a row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sidecar_core.reasons import Reason
from sidecar_core.types import null_scalar_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from sidecar_filters.base import Filter
    from sidecar_filters.measure import RowMeasures, Value

OK, PARTIAL = "ok", "partial"
STATUS_COLUMN, STATUS_STRUCT = "filter_status", "filter_status_v1"


def row_status(filters: tuple[Filter, ...], row: RowMeasures) -> dict[str, object]:
    """Returns status, failed and detail, as `filter_status_v1` has them.

    `ok`: every filter has its values. `partial`: some filter that looks at pixels has, some filter has not.
    Otherwise the reason of the first filter without values, pixels first.
    """
    failed = [each for each in filters if each.name in row.failed]
    pixels = [each for each in filters if each.looks_at_pixels]
    if not failed:
        status = OK
    elif any(each.name not in row.failed for each in pixels):
        status = PARTIAL
    else:
        status = row.failed[next((each for each in pixels), failed[0]).name].value
    return {
        "status": status,
        "failed": [{"filter": each.name, "reason": row.failed[each.name].value} for each in failed],
        "detail": "; ".join(row.details) or None,
    }


def without_unknown_fields(each: Filter, dtype: pa.DataType, rows: Iterable[RowMeasures]) -> list[RowMeasures]:
    """Returns the rows; where the filter's values have a name that its struct lacks, it has crashed and none count.

    A misspelt name would else be a null that nobody can tell from a picture without a value.
    """
    fields = set(null_scalar_for(dtype) or {})
    return [_without_unknown(each, fields, row) for row in rows]


def _without_unknown(each: Filter, fields: set[str], row: RowMeasures) -> RowMeasures:
    unknown = sorted(row.values.get(each.name, {}).keys() - fields, key=repr)
    if not unknown:
        return row
    names = ", ".join(map(repr, unknown))[:300]
    return replace(
        row,
        values={**row.values, each.name: {}},
        failed={**row.failed, each.name: Reason.CRASHED},
        details=(*row.details, f"filter {each.name!r} returned {names}, which {each.struct} lacks"),
    )


def row_values(each: Filter, dtype: pa.DataType, row: RowMeasures) -> dict[str, Value]:
    """Returns a value for each field of the filter's struct, None where there is none."""
    nulls = null_scalar_for(dtype) or {}
    return {**nulls, **row.values.get(each.name, {})}  # pyright: ignore[reportReturnType] - structs of plain fields
