"""Makes one picture small. Its function runs in isolated children, the only place that imports Pillow."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar_cli.report.figures import Picture


@dataclass(frozen=True)
class ThumbnailSpec:
    """How thumbnails are made.

    Attributes:
        side_px: the longer side at most.
        max_pixels: a picture that declares more is not decoded.
        quality: of WEBP, 1-100.
    """

    side_px: int = 144
    max_pixels: int = 100_000_000
    quality: int = 60


def draw_thumbnail(image: bytes, spec: ThumbnailSpec) -> Picture:
    """Returns the picture as displayed, made small, or why it cannot be shown; raises nothing on bad bytes."""
    from sidecar_resize.encode import encode
    from sidecar_resize.headers import UnusableImageError
    from sidecar_resize.overlay import PanelStyle
    from sidecar_resize.overlay_drawing import load_upright
    from sidecar_resize.spec import PixelSpec

    try:
        style = PanelStyle(spec.side_px, "webp", spec.max_pixels)
        small, (width, height) = load_upright(bytes(image), style)
        content = encode(small, PixelSpec(output_format="webp", quality=spec.quality, webp_method=4))
        return Picture(content, "image/webp", small.width, small.height, size=f"{width:,} × {height:,} px")
    except UnusableImageError as problem:
        return Picture(None, note=f"{problem.reason}: {problem.detail}")
    except MemoryError:
        return Picture(None, note="out_of_memory: the memory cap was reached while decoding")
    except Exception as error:  # noqa: BLE001 - whatever bad bytes bring about costs one picture, and is said
        return Picture(None, note=f"decode_failed: {type(error).__name__}: {str(error)[:200]}")
