"""A plugin that prints: while it is imported, from Python, and from native code."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from sidecar_core import BaseOp, register_op

if TYPE_CHECKING:
    import pyarrow as pa

    from sidecar_core import OpContext

print("noise of an import")  # noqa: T201 - that is what it is for


@register_op("noisy")
class Noisy(BaseOp):
    """Returns the table as it is, and prints a line in two ways."""

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Prints."""
        print("noise of an op")  # noqa: T201
        ctypes.CDLL(None).puts(b"noise of native code")
        return table
