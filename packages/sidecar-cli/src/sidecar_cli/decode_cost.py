"""What decoding alone costs: pictures of a dataset, decoded in a child process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.shard_reader import open_parquet

if TYPE_CHECKING:
    import pyarrow as pa
    from sidecar_core.dataset import Dataset
    from sidecar_core.storage import ObjectInfo, Storage

_SAMPLE_ROWS = 48


def decode_seconds(image: bytes, common: object = None) -> float | None:
    """Returns the CPU seconds of a full decode by Pillow, or None for bytes that it cannot decode.

    For child processes only.
    """
    del common
    import io

    from PIL import Image

    started = time.process_time()
    try:
        with Image.open(io.BytesIO(image)) as picture:
            picture.load()
    except Exception:  # noqa: BLE001 - decoders raise anything on broken pictures
        return None
    return time.process_time() - started


def mean_decode_seconds(main: Storage, shard: ObjectInfo, dataset: Dataset) -> float | None:
    """Returns the mean CPU seconds of decoding a picture, over the first rows of a shard; None when none decodes."""
    import pyarrow.compute as pc
    import pyarrow.types as pt

    column = dataset.require_image_column()
    with open_parquet(main, shard.rel_path) as file:
        batch = next(file.iter_batches(_SAMPLE_ROWS, columns=[column]), None)
    if batch is None:
        return None
    images: pa.Array = batch.column(0)
    if pt.is_struct(images.type):
        images = pc.struct_field(images, "bytes")
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        found = pool.map_rows(decode_seconds, images.drop_null().to_pylist(), timeout_s=20.0)
    times = [each for each in found if isinstance(each, float)]
    times = times[1:] or times  # the first one bears the decoder's start
    return sum(times) / len(times) if times else None
