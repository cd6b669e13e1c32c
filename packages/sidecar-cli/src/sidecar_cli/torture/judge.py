"""Judges what a run made: is each row there, are the bad ones marked, and are their neighbours whole?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from sidecar_core.problems import counted

from sidecar_cli.torture.material import Row

_LENGTH, _REASON, _STATUS = "byte_length", "byte_length_reason", "filter_status"
_RESIZED = "image_512"


def read_output(folder: Path) -> dict[str, pa.Table]:
    """Returns the shards of an output by rel_path, without their metadata; partial files would not be readable."""
    return {
        path.name: pq.ParquetFile(path).read().replace_schema_metadata(None)
        for path in sorted(folder.glob("*.parquet"))
    }


def find_wrong_rows(output: Mapping[str, pa.Table], rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """Returns what is not as it must be, one sentence each."""
    wrong: list[str] = []
    for rel_path, expected in rows.items():
        table = output.get(rel_path)
        if table is None or table.num_rows != len(expected):
            there = "is missing" if table is None else f"has {counted(table.num_rows, 'row')}"
            wrong.append(f"{rel_path} {there}, and the main shard has {len(expected)}")
            continue
        keys = table.column("image_key").to_pylist()
        lengths, reasons = table.column(_LENGTH).to_pylist(), table.column(_REASON).to_pylist()
        statuses = [status and status["status"] for status in table.column(_STATUS).to_pylist()]
        resized = table.column(_RESIZED).is_valid().to_pylist()
        for number, row in enumerate(expected):
            where = f"{rel_path} row {number} ({row.kind})"
            if keys[number] != f"{rel_path}/{number}":
                wrong.append(f"{where}: its key is {keys[number]!r}")
            length = None if row.op_reason or row.image is None else len(row.image)
            if (lengths[number], reasons[number]) != (length, row.op_reason):
                wrong.append(f"{where}: the op gave {lengths[number]!r} with reason {reasons[number]!r}")
            used = (statuses[number] == "ok", resized[number])
            if row.picture is not None and used != (row.picture, row.picture):
                wrong.append(f"{where}: filters say {statuses[number]!r}, and a resized picture is there: {used[1]}")
    return wrong


def find_differences(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table]) -> list[str]:
    """Returns where two outputs differ, one sentence each."""
    if one.keys() != other.keys():
        return [f"different shards: {', '.join(sorted(one.keys() ^ other.keys()))}"]
    found: list[str] = []
    for rel_path, table in one.items():
        there = other[rel_path]
        if table.schema != there.schema:
            found.append(f"{rel_path}: different columns or types")
            continue
        columns = [name for name in table.column_names if not table.column(name).equals(there.column(name))]
        if columns:
            found.append(f"{rel_path}: different values in {', '.join(columns)}")
    return found
