"""Small main datasets for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["read_dataset", "write_main"]


def write_main(
    folder: Path,
    shards: Mapping[str, Sequence[bytes | None]],
    *,
    key_type: pa.DataType | None = None,
    row_group_rows: int = 1_000_000,
) -> Path:
    """Writes a main dataset with the columns `image_key` and `image`; returns its folder.

    Args:
        folder: where the shards go.
        shards: per rel_path, the image bytes of each row; keys are `<rel_path>#<row>`, or row numbers
            for an integer key type.
        key_type: type of the key column; default string.
        row_group_rows: rows a row group.
    """
    key_type = key_type or pa.string()
    row = 0
    for rel_path, images in shards.items():
        keys: list[object] = []
        for index in range(len(images)):
            keys.append(row if pa.types.is_integer(key_type) else f"{rel_path}#{index}")
            row += 1
        value_type = key_type.value_type if pa.types.is_dictionary(key_type) else key_type
        if pa.types.is_binary(value_type) or pa.types.is_large_binary(value_type):
            keys = [str(key).encode() for key in keys]
        key_column = pa.array(keys, value_type).cast(key_type) if keys else pa.array([], value_type).cast(key_type)
        path = folder / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"image_key": key_column, "image": pa.array(list(images), pa.binary())})
        pq.write_table(table, path, row_group_size=row_group_rows)
    return folder


def read_dataset(folder: Path) -> dict[str, pa.Table]:
    """Returns every shard of a local dataset by rel_path, without metadata: what "the same dataset" compares."""
    return {
        path.relative_to(folder).as_posix(): pq.ParquetFile(path).read().replace_schema_metadata(None)
        for path in sorted(folder.rglob("*.parquet"))
        if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    }


def damage_column(path: Path, column: str) -> None:
    """Overwrites the pages of a column of flat values, so that whoever reads them fails; the footer stays."""
    metadata = pq.read_metadata(path)
    with path.open("r+b") as file:
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(metadata.schema.names.index(column))
            file.seek(min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset))
            file.write(b"\xff" * chunk.total_compressed_size)
