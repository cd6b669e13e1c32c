"""How much texture a picture has, and how regular it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
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

    found = [_properties(matrix) for matrix in _pair_counts((gray >> 3).astype(np.uint16)) if matrix.any()]
    contrast, homogeneity, energy, entropy = np.mean(found, axis=0).tolist() if found else (0.0, 1.0, 1.0, 0.0)
    return {
        "glcm_contrast": contrast,
        "glcm_homogeneity": homogeneity,
        "glcm_energy": energy,
        "glcm_entropy": entropy,
    }


def _pair_counts(levels: Image) -> list[Image]:
    """Returns four (32, 32) matrices: how often two levels are neighbours in each direction.

    A pixel, its right and its lower neighbour are counted together: of that, three of the four are sums.
    """
    corner, right, below, beyond = levels[:-1, :-1], levels[:-1, 1:], levels[1:, :-1], levels[1:, 1:]
    triples = _counts((corner << 10) | (right << 5) | below, 3)
    last_row, last_column = levels[-1:], levels[:, -1:]
    return [
        triples.sum(axis=2) + _counts((last_row[:, :-1] << 5) | last_row[:, 1:], 2),
        triples.sum(axis=0),
        triples.sum(axis=1) + _counts((last_column[:-1] << 5) | last_column[1:], 2),
        _counts((corner << 5) | beyond, 2),
    ]


def _counts(codes: Image, levels: int) -> Image:
    """Returns how often each code of so many gray levels occurs, as float64, one axis a level."""
    import cv2
    import numpy as np

    bins = GRAY_LEVELS**levels
    if not codes.size:
        return np.zeros((GRAY_LEVELS,) * levels)
    counts = cv2.calcHist([codes], [0], None, [bins], [0, bins])
    return counts.reshape((GRAY_LEVELS,) * levels).astype(np.float64)


def _properties(matrix: Image) -> tuple[float, float, float, float]:
    """Returns contrast, homogeneity, energy and entropy (nats) of the matrix made symmetric and normalised."""
    import numpy as np

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


TEXTURE = register_filter(
    Filter("texture", struct="filter_texture_v1", needs=Need.ANALYSIS, measure=measure_texture, version=2)
)
