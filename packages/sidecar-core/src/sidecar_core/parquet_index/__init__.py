"""Columns of a Parquet file, or of all below a prefix, by key: for 100 million keys and any number of workers.

An index is made once per machine, in a cache folder (`cache`), and memory-mapped by every worker, so that its
pages are shared. It is two Arrow files: the rows of the source in their order, and 64-bit hashes of the keys,
sorted, with the row of each (`sorted_hashes`). Keys that share a hash are told apart by the keys themselves.

NumPy is needed (the extra `join`), and loaded with the first index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.parquet_index.load import load_parquet_index
from sidecar_core.parquet_index.spec import IndexSpec, parquet_index_spec, value_schema

if TYPE_CHECKING:
    from sidecar_core.parquet_index.index import ParquetIndex

__all__ = ["IndexSpec", "ParquetIndex", "load_parquet_index", "parquet_index_spec", "value_schema"]


def __getattr__(name: str) -> object:
    if name == "ParquetIndex":
        from sidecar_core.parquet_index.index import ParquetIndex

        return ParquetIndex
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
