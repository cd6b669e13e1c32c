"""How much texture a picture has, and how regular it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sidecar_filters.base import Image, Measures, Picture

WINDOW = 7
FLAT_STD = 2
BLOCK = 16
GRAY_LEVELS = 32


def measure_texture(picture: Picture) -> Measures:
    """Local standard deviation of luma (0-127.5), flat blocks (fraction), and gray-level co-occurrence.

    Source: Haralick et al. 1973, with scikit-image's definitions of contrast, homogeneity, energy, entropy.
    """
    gray = picture.gray
    return {"local_std": _local_std(gray), "flat_fraction": _flat_fraction(gray), **_cooccurrence(gray)}


def _local_std(gray: Image) -> float:
    """Mean over all pixels of the standard deviation in the window around each, borders mirrored."""
    import cv2
    import numpy as np

    size = (WINDOW, WINDOW)
    sums = cv2.boxFilter(gray, cv2.CV_32S, size, normalize=False)
    squares = cv2.sqrBoxFilter(gray, cv2.CV_32S, size, normalize=False)
    squares *= WINDOW**2  # in place: n²·variance = n·Σx² − (Σx)², in whole numbers below 2^31
    sums *= sums
    squares -= sums
    return float(cv2.sumElems(cv2.sqrt(squares.astype(np.float32)))[0]) / (gray.size * WINDOW**2)


def _flat_fraction(gray: Image) -> float:
    """Fraction of the whole 16×16 blocks (of the one smaller block) in which the standard deviation is below 2."""
    import cv2

    height, width = gray.shape
    tall, wide = min(height, BLOCK), min(width, BLOCK)
    sums, squares = (table[::tall, ::wide][: height // tall + 1, : width // wide + 1] for table in cv2.integral2(gray))
    count = tall * wide
    total = _block_sums(sums.astype("float64"))
    return float((count * _block_sums(squares) - total * total < (FLAT_STD * count) ** 2).mean())


def _block_sums(corners: Image) -> Image:
    """Returns the sum over each block, from the integral image at the blocks' corners."""
    return corners[1:, 1:] - corners[1:, :-1] - corners[:-1, 1:] + corners[:-1, :-1]


def _cooccurrence(gray: Image) -> dict[str, float]:
    """Co-occurrence of gray levels one pixel apart at 0, 45, 90 and 135 degrees, each property averaged."""
    import numpy as np

    levels: Image = gray >> 3
    pairs = (
        (levels[:, :-1], levels[:, 1:]),
        (levels[:-1, :-1], levels[1:, 1:]),
        (levels[:-1], levels[1:]),
        (levels[:-1, 1:], levels[1:, :-1]),
    )
    found = [_properties(*pair) for pair in pairs if pair[0].size]
    contrast, homogeneity, energy, entropy = np.mean(found, axis=0).tolist() if found else (0.0, 1.0, 1.0, 0.0)
    return {
        "glcm_contrast": contrast,
        "glcm_homogeneity": homogeneity,
        "glcm_energy": energy,
        "glcm_entropy": entropy,
    }


def _properties(first: Image, second: Image) -> tuple[float, float, float, float]:
    import numpy as np

    matrix = _pair_counts(first, second)
    matrix = matrix + matrix.T
    p = matrix / matrix.sum()
    levels = np.arange(GRAY_LEVELS)
    squared = (levels[:, None] - levels[None, :]) ** 2
    present = p[p > 0]
    return (
        float((p * squared).sum()),
        float((p / (1 + squared)).sum()),
        float((p * p).sum() ** 0.5),
        max(0.0, float(-(present * np.log(present)).sum())),
    )


def _pair_counts(first: Image, second: Image) -> NDArray[np.float64]:
    """Returns (32, 32): how often level i is at a place of `first` where `second` has level j."""
    import cv2
    import numpy as np

    counts = cv2.calcHist([first, second], [0, 1], None, [GRAY_LEVELS] * 2, [0, GRAY_LEVELS] * 2)
    return cast("NDArray[np.float64]", counts.astype(np.float64))


TEXTURE = register_filter(Filter("texture", struct="filter_texture_v1", needs=Need.ANALYSIS, measure=measure_texture))
