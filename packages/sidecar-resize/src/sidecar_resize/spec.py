"""What a row is turned into: plain values that travel to the child processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sidecar_resize.geometry import candidate_sizes

OutputFormat = Literal["webp", "png", "jpeg"]


@dataclass(frozen=True)
class PixelSpec:
    """How pixels are decoded, resized and encoded; shared by all targets.

    Attributes:
        patch: sides of the result are multiples of this, in pixels.
        output_format: format of the stored bytes.
        quality: 1-100, for webp and jpeg.
        webp_method: effort of the WEBP encoder, 0-6.
        max_pixels: pictures that declare more pixels are invalid.
        max_crop_loss: pictures that would lose more than this share, 0-1, are invalid.
        no_upscale: pictures that would have to be enlarged are invalid.
        background: (red, green, blue), 0-255, that shows through transparency.
        keep_alpha: keep transparency instead.
        accept_truncated: share of rows, 0-1, that a picture cut short must hold to be valid, or None: never.
    """

    patch: int = 32
    output_format: OutputFormat = "webp"
    quality: int = 95
    webp_method: int = 2
    max_pixels: int = 300_000_000
    max_crop_loss: float = 0.25
    no_upscale: bool = False
    background: tuple[int, int, int] = (255, 255, 255)
    keep_alpha: bool = False
    accept_truncated: float | None = None


@dataclass(frozen=True)
class ResizeSpec:
    """What one row becomes: a picture of about each of `areas_px`, from one read.

    Attributes:
        areas_px: target areas in square pixels.
        pixels: how pixels are treated.

    Raises:
        ValueError: no size fits one of the areas and the patch.
    """

    areas_px: tuple[int, ...]
    pixels: PixelSpec = PixelSpec()

    def __post_init__(self) -> None:
        for area_px in self.areas_px:
            candidate_sizes(area_px, self.pixels.patch)
