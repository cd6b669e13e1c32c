"""What compression has done to a picture."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sidecar_filters.base import Image, Measures, Picture

GRID = 8
MOST_BLOCKINESS = 100.0
BAND_BLOCK = 16
MOST_BAND_LEVELS = 4
LEAST_BAND_RANGE = 4

# ITU-T T.81, table K.1, in zigzag order.
_LUMINANCE = (
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40,
    26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60, 57, 51,
    56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87,
    95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
)  # fmt: skip


def measure_jpeg_artifact(picture: Picture) -> Measures:
    """Steps at 8-pixel block borders (1 none - 100), banding (fraction), and how a JPEG was encoded.

    `quality`, `subsampling` and `progressive` are None for other formats; `blockiness` is None for pictures
    under 9 pixels on both sides. Costs a second decode, in gray, of large JPEGs.

    Source: the Independent JPEG Group's quality scale (libjpeg, jcparam.c).
    """
    jpeg = picture.header.jpeg
    table = jpeg.luminance_table if jpeg is not None else None
    return {
        "blockiness": _blockiness(picture.full_luma),
        "quality": _nearest_quality(table) if table is not None else None,
        "subsampling": jpeg.subsampling if jpeg is not None else None,
        "progressive": jpeg.progressive if jpeg is not None else None,
        "banding": _banding(picture.full_luma),
    }


def _blockiness(luma: Image) -> float | None:
    """Mean step across the lines of the 8-pixel grid over the mean step elsewhere, both directions averaged."""
    import cv2

    ratios: list[float] = []
    for axis in (1, 0):
        if luma.shape[axis] <= GRID:
            continue
        before, after = (luma[:, :-1], luma[:, 1:]) if axis else (luma[:-1], luma[1:])
        steps = cv2.reduce(cv2.absdiff(before, after), 1 - axis, cv2.REDUCE_SUM, dtype=cv2.CV_32S).ravel()
        on_grid = steps[GRID - 1 :: GRID]
        elsewhere_sum, elsewhere_count = steps.sum() - on_grid.sum(), len(steps) - len(on_grid)
        border, inside = float(on_grid.mean()), float(elsewhere_sum / elsewhere_count)
        ratios.append(min(MOST_BLOCKINESS, border / inside) if inside else 1.0 if not border else MOST_BLOCKINESS)
    return sum(ratios) / len(ratios) if ratios else None


def _banding(luma: Image) -> float:
    """Fraction of the whole 16×16 blocks (of the one smaller block) with 2-4 levels that span at least 4."""
    import numpy as np

    height, width = luma.shape
    rows, columns = max(1, height // BAND_BLOCK), max(1, width // BAND_BLOCK)
    tall, wide = min(height, BAND_BLOCK), min(width, BAND_BLOCK)
    blocks = luma[: rows * tall, : columns * wide].reshape(rows, tall, columns, wide)
    # Few blocks are looked at whole: most are too flat, or have too many levels in a row, a column or here and there.
    few = _may_have_few_levels(blocks[:, tall // 2].reshape(-1, wide))
    y, x = np.divmod(np.flatnonzero(few & (_ranges(blocks).ravel() >= LEAST_BAND_RANGE)), columns)
    few = _may_have_few_levels(blocks[y, :, x, wide // 2])
    y, x = y[few], x[few]
    whole = blocks[y, :, x].reshape(len(y), tall * wide)
    whole = whole[_may_have_few_levels(whole[:, ::5])]
    whole = np.sort(whole[_may_have_few_levels(whole)], axis=1)
    levels = 1 + np.count_nonzero(whole[:, 1:] != whole[:, :-1], axis=1)
    return int((levels <= MOST_BAND_LEVELS).sum()) / (rows * columns)


def _ranges(blocks: Image) -> Image:
    """Returns (rows, columns) uint8: the largest level less the smallest of each (rows, tall, columns, wide) block."""
    import cv2
    import numpy as np

    rows, tall, columns, wide = blocks.shape
    bands = blocks.reshape(rows, tall, columns * wide)
    along = np.ones((1, wide), np.uint8)
    highest = cv2.dilate(bands.max(axis=1), along, anchor=(0, 0))[:, ::wide]
    return highest - cv2.erode(bands.min(axis=1), along, anchor=(0, 0))[:, ::wide]


def _may_have_few_levels(pixels: Image) -> NDArray[np.bool_]:
    """Returns for each row of pixels whether it may have as few levels as bands have; no such row is missed.

    Levels that differ by a multiple of 64 count as one.
    """
    import numpy as np

    bits = np.left_shift(np.uint64(1), np.arange(256, dtype=np.uint64) & np.uint64(63))
    return np.bitwise_count(np.bitwise_or.reduce(np.take(bits, pixels.T), axis=0)) <= MOST_BAND_LEVELS


@cache
def _quality_tables() -> NDArray[np.int64]:
    """Returns (100, 64): the luminance tables of quality 1-100."""
    import numpy as np

    quality = np.arange(1, 101)
    scale = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    return np.clip((np.outer(scale, _LUMINANCE) + 50) // 100, 1, 255)


def _nearest_quality(table: tuple[int, ...]) -> int:
    """Returns the quality whose luminance table differs least, summed over its entries; of several, the highest."""
    import numpy as np

    distance = np.abs(_quality_tables() - np.array(table)).sum(axis=1)
    return 100 - int(distance[::-1].argmin())


JPEG_ARTIFACT = register_filter(
    Filter(
        "jpeg_artifact",
        struct="filter_jpeg_artifact_v1",
        needs=Need.HEADER | Need.FULL_LUMA,
        measure=measure_jpeg_artifact,
        version=2,
    )
)
