"""Image measures for any Python program: bytes in, a dict out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sidecar_filters.base import DEFAULT_MAX_PIXELS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.types import StructTypes


def score(
    image_bytes: bytes | bytearray | memoryview | None,
    filters: Iterable[str] | None = None,
    *,
    timeout_s: float = 60.0,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    pool: IsolationPool | None = None,
) -> dict[str, dict[str, object]]:
    """Measures one picture.

    It is decoded in a child process, so that bytes that crash, hang or exhaust a decoder do no harm here: they
    give null fields, and the reason in `filter_status`. Children start with the first call (about 0.3 s), stay
    for the next ones, and end with this process. May be called from several threads; they share as many
    children as there are cores.

    Args:
        image_bytes: an encoded picture; may be truncated, empty, not a picture at all, or None.
        filters: names of filters; default all of `filter_names()`.
        timeout_s: seconds that one attempt at the picture may take. When a filter hangs or crashes, the others are
            tried once more without it.
        max_pixels: pictures with more pixels than this, by their header, are not decoded.
        pool: isolated children to use; default this process's own.

    Returns:
        The fields of each filter's struct by the filter's name, None where there is no value, and
        `filter_status` with `status` (`ok`, `partial` or a reason), `failed` and `detail`.

    Raises:
        UsageError: an unknown filter, a name in place of a list, or something other than bytes. Never for what the
            bytes are.
        IsolationError: the pool is closed, or children cannot be started or cannot import a filter.
    """
    from sidecar_core.errors import UsageError
    from sidecar_core.isolation import shared_pool

    from sidecar_filters.isolated import measure_rows
    from sidecar_filters.measure import MeasureSpec
    from sidecar_filters.registry import find_filters
    from sidecar_filters.status import STATUS_COLUMN, row_status, row_values, without_unknown_fields

    chosen = find_filters(filter_names() if filters is None else filters)
    if not isinstance(image_bytes, (bytes, bytearray, memoryview, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller without types
        raise UsageError(
            f"score() got {type(image_bytes).__name__}", "the bytes of an encoded picture", "open(path, 'rb').read()"
        )
    data = None if image_bytes is None else bytes(image_bytes)
    spec = MeasureSpec(chosen, max_pixels)
    (row,) = measure_rows(pool or shared_pool(), [data], spec, timeout_s=timeout_s)
    measures: dict[str, dict[str, object]] = {}
    for each in chosen:
        dtype = struct_type(each.name)
        (row,) = without_unknown_fields(each, dtype, [row])
        measures[each.name] = dict(row_values(each, dtype, row))
    measures[STATUS_COLUMN] = row_status(chosen, row)
    return measures


def filter_names() -> list[str]:
    """Returns the names of all filters that are installed or registered, sorted; imports none of them."""
    from sidecar_filters import registry

    return registry.filter_names()


def struct_type(name: str) -> pa.StructType:
    """Returns the Arrow type of a filter's column.

    Args:
        name: the filter's name.

    Raises:
        UsageError: no filter has that name.
        ConfigError: no installed package declares the filter's struct type.
    """
    from sidecar_filters.registry import find_filter

    return _installed_types().struct(find_filter(name).struct)


@cache
def _installed_types() -> StructTypes:
    from sidecar_core.types import StructTypes

    return StructTypes.installed()
