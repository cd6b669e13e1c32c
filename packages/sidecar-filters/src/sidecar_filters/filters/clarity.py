"""How sharp a picture is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Image, Measures, Picture

BLUR_WIDTH = 11


def measure_clarity(picture: Picture) -> Measures:
    """Variance of the Laplacian, Tenengrad, perceptual blur (0 sharp - 1 blurred) and a score 0-1.

    Sources: Pech-Pacheco et al. 2000 (variance of the Laplacian); Krotkov 1987 (Tenengrad); Crété et al.,
    The blur effect, 2007, as scikit-image's `blur_effect` with h_size 11.
    """
    import cv2

    gray = picture.gray
    laplacian = cv2.Laplacian(gray, cv2.CV_16S, ksize=1)
    variance = _variance(cv2.sumElems(laplacian)[0], cv2.norm(laplacian, cv2.NORM_L2SQR), gray.size)
    gradients = cv2.Sobel(gray, cv2.CV_16S, 1, 0), cv2.Sobel(gray, cv2.CV_16S, 0, 1)
    return {
        "laplacian_variance": variance,
        "tenengrad": sum(cv2.norm(gradient, cv2.NORM_L2SQR) for gradient in gradients) / gray.size,
        "blur": _perceptual_blur(gray, gradients),
        "score": min(1.0, max(0.0, math.log10(1 + variance) / 4)),
    }


def _variance(total: float, squares: float, count: int) -> float:
    return max(0.0, (squares - total * total / count) / count)


def _perceptual_blur(gray: Image, gradients: tuple[Image, Image]) -> float:
    """The larger of both axes' share of gradient that an 11-pixel blur along the axis leaves.

    In whole numbers: with G the gradient and B the gradient of the sum of 11 pixels, the published
    |ΣG − Σmax(0, G − B/11)| / ΣG is Σmin(11·G, B) / Σ11·G, and 11·G fits 16 bits.
    """
    import cv2

    inside = (slice(2, gray.shape[0] - 1), slice(2, gray.shape[1] - 1))  # as scikit-image cuts the border off
    if min(gray[inside].shape) == 0:
        return 1.0
    shares: list[float] = []
    for gradient, (dx, dy) in zip(gradients, ((1, 0), (0, 1)), strict=True):
        box = (BLUR_WIDTH, 1) if dx else (1, BLUR_WIDTH)
        summed = cv2.boxFilter(gray, cv2.CV_16S, box, normalize=False, borderType=cv2.BORDER_REFLECT)
        blurred = abs(cv2.Sobel(summed, cv2.CV_16S, dx, dy)[inside])
        sharp = abs(gradient[inside])
        sharp *= BLUR_WIDTH
        total = cv2.sumElems(sharp)[0]
        if total:
            shares.append(cv2.sumElems(cv2.min(sharp, blurred))[0] / total)
    return max(shares, default=1.0)


CLARITY = register_filter(
    Filter("clarity", struct="filter_clarity_v1", needs=Need.ANALYSIS, measure=measure_clarity, version=2)
)
