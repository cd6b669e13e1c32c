"""The loader `parquet_index` of side inputs."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sidecar_core.errors import UsageError
from sidecar_core.parquet_index.spec import IndexSpec
from sidecar_core.side_inputs import register_side_input_loader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.dataset import Dataset
    from sidecar_core.parquet_index.index import ParquetIndex


@register_side_input_loader("parquet_index")
def load_parquet_index(params: Mapping[str, object], dataset: Dataset) -> ParquetIndex:
    """Returns the index of a source, from this machine's cache; makes it first when it is not there.

    Processes that ask for the same index at the same time wait for the one that makes it. Opening an index takes
    some milliseconds, besides looking at the source to see whether it is still the same.

    Args:
        params: as `parquet_index_spec` gives them.
        dataset: its storage options say how to reach the source.

    Raises:
        UsageError: a parameter or a column is wrong, NumPy is not installed, or the source has a key twice and
            `duplicates` is "error".
        ShardError: a file of the source is no complete Parquet file, or its columns do not fit the first one's.
        StorageError: the source cannot be read, or the cache folder has no room or cannot be written.
        RefusedError: the source changed while it was read.
    """
    try:
        spec = IndexSpec.model_validate(dict(params))
    except ValidationError as error:
        raise UsageError(f"parameters of the side-input loader 'parquet_index': {error}") from error
    require_numpy()
    from sidecar_core.parquet_index.cached import open_cached

    return open_cached(spec, options=dataset.storage)


def require_numpy() -> None:
    """Raises UsageError when NumPy is not installed; does not load it."""
    try:
        found = importlib.util.find_spec("numpy") is not None
    except ValueError:  # something put a stand-in into sys.modules
        found = False
    if not found:
        raise UsageError(
            "looking up columns by key needs the package 'numpy', which is not installed",
            None,
            'pip install "sidecar-core[join]"',
        )
