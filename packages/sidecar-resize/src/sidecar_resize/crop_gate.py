"""Whether a resized dataset has been proven as it is now: the receipt of its verifier, read and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sidecar_core.errors import ShardError, UsageError
from sidecar_core.first_shard import first_readable_schema
from sidecar_core.problems import counted
from sidecar_core.proof import read_receipt
from sidecar_core.storage import prefixes_overlap

from sidecar_resize.verify import VERIFIER

if TYPE_CHECKING:
    from sidecar_core.storage import Storage


def why_unproven(resized: Storage, main_prefix: str) -> str | None:
    """Returns why a resized dataset does not count as proven, or None when it does.

    It counts when its last receipt says that all its shards were checked against this main dataset, that
    nothing was wrong, and that they are the ones that are there.

    Raises:
        StorageError: it could not be listed.
    """
    shards = resized.list_shards(missing_ok=True)
    if not shards:
        return f"no shards at {resized.prefix}"
    receipt = read_receipt(resized, VERIFIER)
    if receipt is None:
        return f"{resized.prefix} has no receipt of {VERIFIER}"
    told = f"the receipt of {VERIFIER} at {resized.prefix}, written {receipt.written},"
    if not receipt.passed:
        found = f": {receipt.problems[0]}" if receipt.problems else ""
        return f"{told} says that it failed{found}"
    if not prefixes_overlap(receipt.main_prefix, main_prefix):
        return f"{told} is about another main dataset, {receipt.main_prefix}"
    if not receipt.all_shards:
        return f"{told} covers {receipt.checked_shards:,} of {counted(receipt.shards, 'shard')}"
    if not receipt.covers(shards):
        return f"{told} is of other shards than are there now, {counted(len(shards), 'shard')}"
    return None


def picture_column(resized: Storage, expected: str | None) -> str | None:
    """Returns the column with a resized dataset's pictures: the expected one, or the only binary one there is."""
    try:
        schema = first_readable_schema(resized, resized.list_shards(missing_ok=True))
    except (UsageError, ShardError):
        return expected
    binary = [field.name for field in schema if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type)]
    return binary[0] if expected not in binary and len(binary) == 1 else expected
