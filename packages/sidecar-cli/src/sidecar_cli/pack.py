"""Makes a main dataset from a folder of pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import RefusedError, SidecarError, UsageError
from sidecar_core.problems import counted
from sidecar_core.storage import normalise_prefix, open_storage

from sidecar_cli.folder_scan import FoundPicture, read_text, scan_folder

if TYPE_CHECKING:
    from sidecar_core.storage import Storage

KEY_COLUMN = "image_key"
IMAGE_COLUMN = "image"
CAPTION_COLUMN = "caption"
DESCRIPTION_COLUMN = "structured_description"

SHARD_ROWS = 512
SHARD_BYTES = 256 * 2**20
_GROUP_ROWS = 128
_GROUP_BYTES = 32 * 2**20
_PROBLEMS_SHOWN = 20


@dataclass(frozen=True)
class PackRow:
    """One row of a main dataset.

    Attributes:
        key: the key.
        image: the picture's bytes, untouched, or None.
        caption: its caption, or None.
        description: its structured description, a JSON string, or None.
    """

    key: str
    image: bytes | None
    caption: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class PackReport:
    """What was packed.

    Attributes:
        prefix: the new main dataset.
        shards: paths of its shards below the prefix.
        rows: its rows.
        image_bytes: bytes of all pictures.
        columns: its columns.
        skipped: number of files left out, by why.
    """

    prefix: str
    shards: tuple[str, ...]
    rows: int
    image_bytes: int
    columns: tuple[str, ...]
    skipped: dict[str, int] = field(default_factory=dict)


def pack_folder(
    folder: Path,
    prefix: str,
    *,
    shard_rows: int = SHARD_ROWS,
    shard_bytes: int = SHARD_BYTES,
    storage: StorageOptions | None = None,
) -> PackReport:
    """Makes a main dataset from all pictures below a folder, in the order of their keys.

    A key is the picture's path below the folder, with `/` between its parts, spelled exactly as the
    file system spells it. Bytes are stored as they are and never decoded. Nothing is written unless
    every file can be read; when writing fails, the shards written so far are removed again.

    Args:
        folder: pictures at any depth; a same-name .txt is its caption, a same-name .json its
            structured description.
        prefix: where the dataset goes: a local path, s3://, gs://.
        shard_rows: most rows of a shard.
        shard_bytes: most bytes of pictures in a shard, unless one picture alone has more.
        storage: how to reach the prefix.

    Raises:
        UsageError: the folder does not exist or holds no picture.
        RefusedError: the prefix already holds shards.
        SidecarError: files cannot be read; all of them are named, up to 20.
    """
    try:
        is_folder = folder.is_dir()
    except OSError as error:  # the name is too long, or a folder above may not be looked into
        raise UsageError(f"{str(folder)!r} is not a folder: {error.strerror}", "a folder of pictures") from error
    if not is_folder:
        raise UsageError(f"{str(folder)!r} is not a folder", "a folder of pictures")
    target = open_storage(normalise_prefix(prefix), storage or StorageOptions())
    refuse_existing_shards(target)
    scan = scan_folder(folder)
    if scan.problems:
        shown = "\n".join(f"  {problem}" for problem in scan.problems[:_PROBLEMS_SHOWN])
        rest = len(scan.problems) - _PROBLEMS_SHOWN
        shown += f"\n  and {rest} more" if rest > 0 else ""
        files = counted(len(scan.problems), "file")
        message = f"{files} below {str(folder)!r} cannot be packed; nothing was written\n{shown}"
        raise SidecarError(message, None, "make them readable, or move them out of the folder")
    if not scan.pictures:
        raise UsageError(f"no pictures below {str(folder)!r}", "files such as .jpg, .png, .webp, .tif, .gif, .avif")
    shards = plan_shards([picture.size_bytes for picture in scan.pictures], shard_rows, shard_bytes)
    return write_main_dataset(
        target,
        ([_read(picture) for picture in scan.pictures[start:end]] for start, end in shards),
        shard_count=len(shards),
        captions=any(picture.caption for picture in scan.pictures),
        descriptions=any(picture.description for picture in scan.pictures),
        skipped=dict(scan.skipped),
    )


def plan_shards(sizes_bytes: Sequence[int], shard_rows: int, shard_bytes: int) -> list[tuple[int, int]]:
    """Cuts pictures into shards; returns each shard's first position and the one after its last."""
    if shard_rows < 1:
        raise UsageError(f"--shard-rows {shard_rows}: must be at least 1")
    return list(_runs(sizes_bytes, shard_rows, shard_bytes))


def refuse_existing_shards(storage: Storage) -> None:
    """Raises RefusedError when the prefix already holds shards."""
    there = storage.list_shards(missing_ok=True)
    if there:
        raise RefusedError(
            f"{storage.prefix} already holds {counted(len(there), 'shard')}, the first is {there[0].rel_path!r}",
            "a prefix without shards: main datasets are never rewritten",
            "choose another prefix",
        )


def write_main_dataset(
    storage: Storage,
    shards: Iterable[Sequence[PackRow]],
    *,
    shard_count: int,
    captions: bool,
    descriptions: bool,
    skipped: dict[str, int] | None = None,
) -> PackReport:
    """Writes a main dataset shard by shard, or nothing.

    Args:
        storage: where; must hold no shards.
        shards: the rows of each shard; read one shard at a time.
        shard_count: how many shards there are, for their names.
        captions: whether there is a caption column.
        descriptions: whether there is a structured_description column.
        skipped: what the report says was left out.

    Raises:
        StorageError: writing failed; the shards written so far were removed again.
    """
    schema = _schema(captions=captions, descriptions=descriptions)
    digits = max(5, len(str(max(shard_count - 1, 0))))
    staging = storage.staging_dir(f"pack-{uuid4().hex[:8]}")
    written: list[str] = []
    rows = image_bytes = 0
    try:
        for index, shard in enumerate(shards):
            name = f"part-{index:0{digits}d}.parquet"
            staged = staging / name
            _write_shard(staged, shard, schema)
            storage.commit_file(staged, name)
            written.append(name)
            rows += len(shard)
            image_bytes += sum(len(row.image or b"") for row in shard)
    except BaseException:
        for name in written:
            storage.delete(name)
        raise
    finally:
        _remove_staging(staging, storage.prefix)
    return PackReport(storage.prefix, tuple(written), rows, image_bytes, tuple(schema.names), skipped or {})


def _schema(*, captions: bool, descriptions: bool) -> pa.Schema:
    columns = [pa.field(KEY_COLUMN, pa.string()), pa.field(IMAGE_COLUMN, pa.binary())]
    if captions:
        columns.append(pa.field(CAPTION_COLUMN, pa.string()))
    if descriptions:
        columns.append(pa.field(DESCRIPTION_COLUMN, pa.string()))
    return pa.schema(columns)


def _write_shard(path: Path, rows: Sequence[PackRow], schema: pa.Schema) -> None:
    """Writes small row groups, so that readers need little memory; pictures are compressed already."""
    compression: dict[str, Literal["none", "zstd"]] = {
        name: "none" if name == IMAGE_COLUMN else "zstd" for name in schema.names
    }
    with pq.ParquetWriter(
        path,
        schema,
        compression=compression,  # pyright: ignore[reportArgumentType] - dicts of fewer values are fine
        use_dictionary=False,
        write_page_checksum=True,
        write_statistics=[name for name in schema.names if name == KEY_COLUMN],
    ) as writer:
        for start, end in _runs([len(row.image or b"") for row in rows], _GROUP_ROWS, _GROUP_BYTES):
            group = rows[start:end]
            values: dict[str, list[str | None] | list[bytes | None]] = {
                KEY_COLUMN: [row.key for row in group],
                IMAGE_COLUMN: [row.image for row in group],
                CAPTION_COLUMN: [row.caption for row in group],
                DESCRIPTION_COLUMN: [row.description for row in group],
            }
            writer.write_table(pa.table({name: values[name] for name in schema.names}, schema=schema))


def _runs(sizes_bytes: Sequence[int], most_rows: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Cuts a sequence into runs of at most so many items and bytes, each with one item at least."""
    start = total = 0
    for position, size in enumerate(sizes_bytes):
        if position > start and (position - start == most_rows or total + size > most_bytes):
            yield start, position
            start, total = position, 0
        total += size
    if len(sizes_bytes) > start:
        yield start, len(sizes_bytes)


def _read(picture: FoundPicture) -> PackRow:
    try:
        return PackRow(
            picture.key,
            picture.path.read_bytes(),
            read_text(picture.caption) if picture.caption else None,
            read_text(picture.description) if picture.description else None,
        )
    except (OSError, UnicodeDecodeError) as error:
        raise SidecarError(f"{str(picture.path)!r} changed while it was packed: {error}") from error


def _remove_staging(staging: Path, prefix: str) -> None:
    """Removes this run's folder, and the folders above it that are empty then, up to the dataset's."""
    rmtree(staging, ignore_errors=True)
    root = Path(prefix)
    for folder in staging.parents:
        if root not in folder.parents:
            break
        with suppress(OSError):
            folder.rmdir()
