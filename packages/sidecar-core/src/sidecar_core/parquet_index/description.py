"""What an index's files are, written beside them last, and whether they are still what was made."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.parquet_index.sorted_hashes import BUCKETS_FILE, HASHES_FILE

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""Raised when indexes that an older version made must not be read."""

ROWS_FILE = "rows.arrow"
DESCRIPTION_FILE = "index.json"
DATA_FILES = (ROWS_FILE, HASHES_FILE, BUCKETS_FILE)
_MADE_NS = 1_000_000_000  # a change after an index was made gives its file the present time, whatever the clock's ticks


def write_description(folder: Path, key: pa.Field, values: pa.Schema, num_keys: int) -> None:
    """Writes what the data files are, so that one that is changed later is found out; has all on the disk.

    Args:
        folder: with the finished data files.
        key: the source's key column.
        values: the columns to look up.
        num_keys: how many keys are in it.
    """
    for name in DATA_FILES:
        os.utime(folder / name, ns=(_MADE_NS, _MADE_NS))
        _sync(folder / name)
    description = {
        "format": FORMAT,
        "key": _schema_text(pa.schema([key.remove_metadata()])),
        "values": _schema_text(values),
        "keys": num_keys,
        "bytes": {name: (folder / name).stat().st_size for name in DATA_FILES},
    }
    path = folder / DESCRIPTION_FILE
    path.write_text(json.dumps(description), encoding="utf-8")
    _sync(path)
    _sync(folder)


class DamagedIndexError(Exception):
    """An index is not what was made; it has to be made again."""


@dataclass(frozen=True)
class Description:
    """What an index's data files are.

    Attributes:
        key: the key column, with the type of the source.
        values: the columns to look up, with the types of the source.
        num_keys: how many keys are in it.
    """

    key: pa.Field
    values: pa.Schema
    num_keys: int


def read_description(folder: Path) -> Description:
    """Returns what `build_index` wrote, having checked that no data file changed since.

    Raises:
        DamagedIndexError: one did, or something is missing.
    """
    try:
        values = json.loads((folder / DESCRIPTION_FILE).read_bytes())
        for name in DATA_FILES:
            found = (folder / name).stat()
            if (found.st_size, found.st_mtime_ns) != (values["bytes"][name], _MADE_NS):
                raise DamagedIndexError(f"{folder / name} was changed after it was made")
        if values["format"] != FORMAT:
            raise DamagedIndexError(f"{folder} has the format {values['format']!r}")
        key = _schema_of(values["key"]).field(0)
        return Description(key, _schema_of(values["values"]), values["keys"])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        raise DamagedIndexError(f"{folder}: {type(error).__name__}: {error}") from error


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode("ascii")


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
