"""The size of a resized picture, and what is cropped away to reach it: integers in, integers out.

A target area is met by scaling the picture until it covers a size whose sides are multiples of a patch,
and cropping what stands over at the centre. Everything here works on the displayed (upright) picture.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import lru_cache

MAX_SIDE_PX = 16_383  # WEBP cannot store more
AREA_TOLERANCE = (1, 10)  # a candidate's area may differ from the target's by this fraction
AREA_WEIGHT = 0.25
TIE = 1e-12


@dataclass(frozen=True)
class TargetSize:
    """Where a picture ends up: scaled to `resized_*`, then cut to `width` x `height`.

    Attributes:
        width: width of the result in pixels, a multiple of the patch.
        height: height of the result in pixels, a multiple of the patch.
        crop_loss: share of the scaled picture that the crop cuts away, 0-1.
        resized_width: width in pixels after scaling, before the crop.
        resized_height: height in pixels after scaling, before the crop.
        crop_left: columns cut on the left; the rest of what stands over is cut on the right.
        crop_top: rows cut at the top.
        upscaled: the picture was made larger, not smaller.
    """

    width: int
    height: int
    crop_loss: float
    resized_width: int
    resized_height: int
    crop_left: int
    crop_top: int
    upscaled: bool


@lru_cache(maxsize=16_384)
def target_size(width: int, height: int, area_px: int, patch: int = 32) -> TargetSize:
    """Returns the size for a picture of `width` x `height` at about `area_px`, and how it is cropped.

    Among all sizes that are multiples of `patch`, no side over 16,383 and with an area within 10 % of
    `area_px`, the one with the smallest crop_loss + 0.25 * |area / area_px - 1| wins; ties go to the
    larger area, then to the larger width when the source is at least as wide as high, else to the
    larger height. The crop loss is not limited here: compare `crop_loss` with your own bound.

    Args:
        width: width of the upright source in pixels, at least 1.
        height: height of the upright source in pixels, at least 1.
        area_px: wanted area in square pixels (262,144 for "512").
        patch: both sides are multiples of this, in pixels.

    Raises:
        ValueError: a side is below 1, or no size fits `area_px` and `patch`.
    """
    if width < 1 or height < 1:
        raise ValueError(f"a picture of {width} x {height} px has no pixels")
    best = _best_candidate(width, height, area_px, patch)
    return cover_size(width, height, *best)


def cover_size(width: int, height: int, across: int, down: int) -> TargetSize:
    """Returns how a picture of `width` x `height` is scaled and cropped at the centre to fill `across` x `down`.

    Args:
        width: width of the upright source in pixels, at least 1.
        height: height of the upright source in pixels, at least 1.
        across: width of the result in pixels, at least 1.
        down: height of the result in pixels, at least 1.
    """
    if across * height >= down * width:  # the width decides the scale, across / width
        resized_width, resized_height = across, max(down, _round_half_even(across * height, width))
    else:
        resized_width, resized_height = max(across, _round_half_even(down * width, height)), down
    return TargetSize(
        width=across,
        height=down,
        crop_loss=_crop_loss(width, height, across, down),
        resized_width=resized_width,
        resized_height=resized_height,
        crop_left=(resized_width - across) // 2,
        crop_top=(resized_height - down) // 2,
        upscaled=across > width or down > height,
    )


def is_scaled_to_cover(width: int, height: int, size: tuple[int, int], resized: tuple[int, int]) -> bool:
    """Returns whether a picture of `width` x `height` scaled to `resized` fills `size` as `cover_size` has it.

    A side that comes to half a pixel may have been rounded either way: with floating point it can be.

    Args:
        width: width of the upright source in pixels, at least 1.
        height: height of the upright source in pixels, at least 1.
        size: (width, height) of the result in pixels.
        resized: (width, height) in pixels after scaling, before the crop.
    """
    across, down = size
    if across * height >= down * width:
        return resized[0] == across and 2 * abs(resized[1] * width - across * height) <= width
    return resized[1] == down and 2 * abs(resized[0] * height - down * width) <= height


def exceeds_crop_loss(size: TargetSize, max_crop_loss: float) -> bool:
    """Returns whether more than `max_crop_loss` (0-1) of the picture would be cropped away."""
    return size.crop_loss > max_crop_loss


@lru_cache(maxsize=64)
def candidate_sizes(area_px: int, patch: int = 32) -> tuple[tuple[int, int], ...]:
    """Returns every (width, height) that fits `area_px` and `patch`, from the tallest to the widest.

    Raises:
        ValueError: `area_px` or `patch` is below 1, or nothing fits.
    """
    if area_px < 1 or patch < 1:
        raise ValueError(f"area_px {area_px} and patch {patch} must be at least 1")
    part, whole = AREA_TOLERANCE
    cell = patch * patch * whole
    low, high = -(-area_px * (whole - part) // cell), area_px * (whole + part) // cell
    most = MAX_SIDE_PX // patch
    found = [
        (across * patch, down * patch)
        for across in range(1, min(most, high) + 1)
        for down in range(max(1, -(-low // across)), min(most, high // across) + 1)
    ]
    if not found:
        raise ValueError(f"no size with sides that are multiples of {patch} px has an area within 10 % of {area_px} px")
    return tuple(sorted(found, key=lambda size: (size[0] / size[1], size[0])))


@lru_cache(maxsize=64)
def _candidate_ratios(area_px: int, patch: int) -> list[float]:
    return [across / down for across, down in candidate_sizes(area_px, patch)]


def _best_candidate(width: int, height: int, area_px: int, patch: int) -> tuple[int, int]:
    """Looks outwards from the source's own aspect ratio: the crop loss alone only grows from there."""
    candidates = candidate_sizes(area_px, patch)
    middle = bisect.bisect_left(_candidate_ratios(area_px, patch), width / height)
    seen: list[tuple[float, tuple[int, int]]] = []
    lowest = float("inf")
    for indices in (range(middle - 1, -1, -1), range(middle, len(candidates))):
        for index in indices:
            across, down = candidates[index]
            loss = _crop_loss(width, height, across, down)
            if loss > lowest + TIE:
                break
            cost = loss + AREA_WEIGHT * abs(across * down / area_px - 1)
            lowest = min(lowest, cost)
            seen.append((cost, (across, down)))
    wide = width >= height
    tied = [size for cost, size in seen if cost <= lowest + TIE]
    return max(tied, key=lambda size: (size[0] * size[1], size[0] if wide else size[1]))


def _crop_loss(width: int, height: int, across: int, down: int) -> float:
    """1 - min(q, 1/q) with q = (across * height) / (down * width); one division, so it mirrors exactly."""
    one, other = across * height, down * width
    return 1 - min(one, other) / max(one, other)


def _round_half_even(numerator: int, denominator: int) -> int:
    """round(numerator / denominator) without the division's rounding error."""
    whole, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return whole + (twice > denominator or (twice == denominator and whole % 2 == 1))
