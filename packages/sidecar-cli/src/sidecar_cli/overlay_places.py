"""Which rows an overlay shows: drawn at random, found by key, or named by their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
from sidecar_core.errors import UsageError
from sidecar_core.problems import counted
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import Storage

from sidecar_cli.overlay_sources import OverlaySource


@dataclass(frozen=True)
class RowPlace:
    """A row.

    Attributes:
        rel_path: its shard.
        row: its position in the shard.
    """

    rel_path: str
    row: int


def choose_rows(source: OverlaySource, sample: int, *, seed: int = 0, subprefix: str = "") -> list[RowPlace]:
    """Returns rows drawn at random, from as many shards as can be, sorted; the same ones for the same seed.

    Where there is a sidecar with moved boxes, rows are drawn from the shards that it has. Footers are read of as
    many shards as there are rows to draw.

    Raises:
        UsageError: there are no shards, or no row in them.
    """
    random = Random(seed)
    order = _shards(source, subprefix)
    random.shuffle(order)
    draws: list[list[RowPlace]] = []
    for rel_path in order:
        rows = _row_count(source.main, rel_path)
        draws.append([RowPlace(rel_path, row) for row in random.sample(range(rows), min(rows, sample))])
        if len(draws) >= sample and sum(map(len, draws)) >= sample:
            break
    chosen: list[RowPlace] = []
    while len(chosen) < sample and any(draws):
        chosen += [draw.pop() for draw in draws if draw][: sample - len(chosen)]
    if not chosen:
        raise UsageError(f"no row in {counted(len(order), 'shard')} at {source.main.prefix}{subprefix}")
    return sorted(chosen, key=lambda place: (place.rel_path, place.row))


def find_rows(source: OverlaySource, keys: Sequence[str], *, subprefix: str = "") -> list[RowPlace]:
    """Returns the first row of each key, in the order of `keys`; reads key columns until all are found.

    Args:
        source: where to look.
        keys: keys as text; those of a column of numbers are read as numbers.
        subprefix: only in the main shards whose path begins with it.

    Raises:
        UsageError: no row has one of the keys, or it is no value of the key column's type.
    """
    found: dict[str, RowPlace] = {}
    for info in source.main.list_shards(subprefix):
        with open_parquet(source.main, info.rel_path) as file:
            _require_column(file.schema_arrow, source.key_column, source.main.uri(info.rel_path))
            first_row = 0
            for batch in file.iter_batches(columns=[source.key_column]):
                column = _plain(batch.column(0))
                for key in [key for key in keys if key not in found]:
                    at = pc.index(column, _as_key(key, column.type)).as_py()
                    if at >= 0:
                        found[key] = RowPlace(info.rel_path, first_row + at)
                first_row += batch.num_rows
        if len(found) == len(set(keys)):
            break
    missing = [key for key in keys if key not in found]
    if missing:
        listed = ", ".join(repr(key) for key in missing[:5]) + (" …" if len(missing) > 5 else "")
        raise UsageError(f"no row at {source.main.prefix}{subprefix} has the key {listed}", fix="--key as it is stored")
    return [found[key] for key in dict.fromkeys(keys)]


def parse_rows(source: OverlaySource, values: Sequence[str]) -> list[RowPlace]:
    """Returns the rows that `--row SHARD:ROW` names.

    Raises:
        UsageError: a value is not SHARD:ROW, or there is no such shard or row.
    """
    places: list[RowPlace] = []
    for value in values:
        rel_path, separator, row = value.rpartition(":")
        if not separator or not rel_path or not row.isascii() or not row.isdecimal():
            raise UsageError(f"--row {value!r} is not SHARD:ROW", fix="--row part-00000.parquet:0")
        if source.main.stat(rel_path) is None:
            raise UsageError(f"--row {value!r}: there is no shard {rel_path!r} at {source.main.prefix}")
        rows = _row_count(source.main, rel_path)
        if int(row) >= rows:
            raise UsageError(
                f"--row {value!r}: the shard has {counted(rows, 'row')}", f"0 to {rows - 1}" if rows else None
            )
        places.append(RowPlace(rel_path, int(row)))
    return places


def _shards(source: OverlaySource, subprefix: str) -> list[str]:
    paths = [info.rel_path for info in source.main.list_shards(subprefix, missing_ok=True)]
    if not paths:
        raise UsageError(f"no shards at {source.main.prefix}{subprefix}", fix="check the main prefix")
    if source.crop is None:
        return paths
    held = {info.rel_path for info in source.crop.list_shards(subprefix, missing_ok=True)}
    shared = [path for path in paths if path in held]
    if not shared:
        raise UsageError(
            f"{source.crop.prefix} has none of {counted(len(paths), 'shard')} at {source.main.prefix}{subprefix}",
            None,
            "name that main dataset's sidecar",
        )
    return shared


def _row_count(storage: Storage, rel_path: str) -> int:
    with open_parquet(storage, rel_path) as file:
        return file.metadata.num_rows


def _require_column(schema: pa.Schema, name: str, uri: str) -> None:
    if name not in schema.names:
        raise UsageError(f"{uri}: no column {name!r}", "columns " + ", ".join(schema.names), "--key-column NAME")


def _plain(column: pa.Array) -> pa.Array:
    """Returns keys in a form that can be searched."""
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _as_key(key: str, dtype: pa.DataType) -> pa.Scalar:
    try:
        if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
            return pa.scalar(key.encode(), dtype)
        return pa.scalar(key, pa.string()).cast(dtype)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"--key {key!r} is no value of the key column's type {dtype}") from error
