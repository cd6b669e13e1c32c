"""What the leaves of struct columns mean, as the installed struct types say."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sidecar_core.errors import ConfigError
from sidecar_core.types import StructTypes


class LeafDocs:
    """Finds the doc of leaves.

    Args:
        columns: the type of each top-level column.
    """

    def __init__(self, columns: Mapping[str, pa.DataType]) -> None:
        self._docs: dict[tuple[str, ...], str] = {}
        try:
            types = StructTypes.installed()
        except ConfigError:  # a broken schema of some package; the figures do not need it
            return
        structs = [(name, types.struct(name)) for name in types.names()]
        for column, dtype in columns.items():
            name = next((name for name, struct in structs if struct == dtype), None)
            if name is not None:
                self._docs |= {(column, field.name): field.doc or "" for field in types.fields(name)}

    def of(self, path: tuple[str, ...]) -> str:
        """Returns what a leaf means, or an empty text."""
        return self._docs.get(path, "")
