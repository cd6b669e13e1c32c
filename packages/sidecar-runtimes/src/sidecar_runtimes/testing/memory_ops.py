"""An op that tells the memory of the process that processes shards: name this module under `plugins`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from sidecar_core.errors import StorageError
from sidecar_core.op import BaseOp, OpContext, OpParams, set_columns
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    from sidecar_core.dataset import Dataset

_LOOK_S = 0.05


@register_op("tell_memory")
class TellMemory(BaseOp):
    """Adds a column of ones; each batch leaves a file `<pid>.json` with the process's memory. Linux only.

    The file holds `private_bytes`, which no other process shares (heap, and pages written to), and `mapped`, the
    paths of the files that the process has mapped. A process goes on only when `processes` of them have told.
    """

    class Params(OpParams):
        """Parameters of `tell_memory`.

        Attributes:
            told: a folder for the files.
            processes: how many processes to wait for.
            timeout_s: how long to wait for them.
        """

        told: str
        processes: int = 1
        timeout_s: float = 120.0

    params: Params

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        """Returns the one column."""
        del dataset
        return [pa.field("told", pa.int8())]

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Tells, and waits for the others."""
        folder = Path(self.params.told)
        folder.mkdir(parents=True, exist_ok=True)
        told = {"private_bytes": private_bytes(), "mapped": mapped_files()}
        written = folder / f".{os.getpid()}-{ctx.rel_path.replace('/', '_')}"
        written.write_text(json.dumps(told), encoding="utf-8")
        written.replace(folder / f"{os.getpid()}.json")
        until = time.monotonic() + self.params.timeout_s
        while len(list(folder.glob("[0-9]*.json"))) < self.params.processes:
            if time.monotonic() > until:
                raise StorageError(f"{ctx.rel_path}: no {self.params.processes} processes had a shard")
            time.sleep(_LOOK_S)
        schema = pa.schema(self.output_fields(ctx.dataset))
        return set_columns(table, {"told": pa.array([1] * table.num_rows, pa.int8())}, schema)


def private_bytes() -> int:
    """Returns the memory that this process alone has written to; file pages that are only read do not count."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_Dirty:"))


def mapped_files() -> list[str]:
    """Returns the paths of the files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6 and "/" in line})
