"""Makes one picture small. Its function runs in isolated children, the only place that imports Pillow."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.reasons import Reason

from sidecar_cli.report.figures import Picture

if TYPE_CHECKING:
    from sidecar_resize.headers import Header

_KEEP = 2  # times the wanted size that a reduced decode must leave
_WHITE = (255, 255, 255)
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


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
    """Returns the picture as displayed, made small, or why it cannot be shown; raises nothing on bad bytes.

    Of a picture that is cut short, what there is is shown.
    """
    from sidecar_resize.headers import UnusableImageError, read_header

    try:
        return _draw(read_header(bytes(image)), spec)
    except UnusableImageError as problem:
        return Picture(None, note=f"{problem.reason}: {problem.detail}")
    except MemoryError:
        return Picture(None, note=f"{Reason.OUT_OF_MEMORY}: the memory cap was reached while decoding")
    except Exception as error:  # noqa: BLE001 - whatever bad bytes bring about costs one picture, and is said
        return Picture(None, note=f"{Reason.DECODE_FAILED}: {type(error).__name__}: {str(error)[:200]}")


def _draw(header: Header, spec: ThumbnailSpec) -> Picture:
    from PIL import Image
    from sidecar_resize.color import to_srgb
    from sidecar_resize.decode import decode, open_picture, reduction_for

    _check_pixels(header, spec)
    open_picture(header)
    _check_pixels(header, spec)
    longer = max(header.width, header.height)
    reduction = reduction_for(longer / spec.side_px, keep=_KEEP) if header.may_reduce else 1
    decoded, _ = decode(header, reduction=reduction, accept_truncated=0.0)
    small, _ = to_srgb(decoded, header, background=_WHITE, keep_alpha=False)
    small.thumbnail((spec.side_px, spec.side_px), Image.Resampling.LANCZOS)
    if header.orientation in _UPRIGHT:
        small = small.transpose(Image.Transpose[_UPRIGHT[header.orientation]])
    small.info.clear()  # neither profile nor comment
    out = io.BytesIO()
    small.save(out, "WEBP", quality=spec.quality, method=4)
    shown = (header.height, header.width) if (header.orientation or 1) >= 5 else (header.width, header.height)
    size = f"{shown[0]:,} × {shown[1]:,} px"
    return Picture(out.getvalue(), "image/webp", small.width, small.height, size=size)


def _check_pixels(header: Header, spec: ThumbnailSpec) -> None:
    from sidecar_resize.headers import UnusableImageError

    if header.declared_px > spec.max_pixels:
        raise UnusableImageError(Reason.TOO_MANY_PIXELS, f"{header.declared_px:,} px declared, too many to be shown")
