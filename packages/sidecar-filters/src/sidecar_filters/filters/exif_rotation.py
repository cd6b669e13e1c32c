"""How a picture must be turned to stand upright."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Measures, Picture

# Orientation: degrees clockwise, and whether to mirror left-right before that.
UPRIGHT: Final = {
    1: (0, False),
    2: (0, True),
    3: (180, False),
    4: (180, True),
    5: (270, True),
    6: (90, False),
    7: (90, True),
    8: (270, False),
}


def measure_exif_rotation(picture: Picture) -> Measures:
    """Orientation 1-8 (None when absent or something else), and what it asks for.

    Source: EXIF 2.32, tag 0x0112, of the EXIF block alone (in a TIFF, of its first directory).
    """
    orientation = picture.header.orientation
    degrees, mirrored = UPRIGHT[orientation or 1]
    return {
        "orientation": orientation,
        "mirrored": mirrored,
        "rotation_degrees": degrees,
        "swaps_dimensions": degrees in (90, 270),
    }


EXIF_ROTATION = register_filter(
    Filter(
        "exif_rotation", struct="filter_exif_rotation_v1", needs=Need.HEADER, measure=measure_exif_rotation, version=2
    )
)
