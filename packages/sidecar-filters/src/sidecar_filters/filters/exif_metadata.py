"""What a picture's header says about how it was made."""

from __future__ import annotations

import math
import operator
import re
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from sidecar_filters.base import Filter, Need
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sidecar_filters.base import Measures, Picture

LONGEST_TEXT: Final = 256
_LARGEST_INT32: Final = 2**31 - 1
_LARGEST_FLOAT32: Final = 3.4028234e38
_MAKE, _MODEL, _SOFTWARE = 0x010F, 0x0110, 0x0131
_EXIF, _GPS = 0x8769, 0x8825
_EXPOSURE, _F_NUMBER, _ISO, _FOCAL_LENGTH = 0x829A, 0x829D, 0x8827, 0x920A
_TAKEN, _TAKEN_OFFSET, _LENS = 0x9003, 0x9011, 0xA434
# Source: IPTC NewsCodes, digital source type; those that say that an algorithm made the picture, or a part of it.
_BY_ALGORITHM: Final = frozenset(
    {"algorithmicMedia", "trainedAlgorithmicMedia", "compositeWithTrainedAlgorithmicMedia", "compositeSynthetic"}
)
_SOURCE_TYPE: Final = re.compile(
    rb"DigitalSourceType\s*(?:=\s*[\"']|>|rdf:resource\s*=\s*[\"'])\s*(?:https?://[^\s\"'<>]*/)?([A-Za-z]+)"
)


def measure_exif_metadata(picture: Picture) -> Measures:
    """Size as stored, format and camera settings; each value of the type that its field has, or None.

    Sources: EXIF 2.32; IPTC Photo Metadata 2023.1 (digital source type).
    """
    from sidecar_filters.header import ignoring_warnings

    header = picture.header
    image = header.image
    main: Mapping[int, object] = {}
    exif: Mapping[int, object] = {}
    gps: Mapping[int, object] = {}
    frames = profile = description = None
    if image is not None:
        with ignoring_warnings():
            main = _tags(header.exif)
            exif = _tags(lambda: header.exif().get_ifd(_EXIF))
            gps = _tags(lambda: header.exif().get_ifd(_GPS))
            frames = _tolerating(lambda: getattr(image, "n_frames", 1))
            profile = image.info.get("icc_profile")
            description = _tolerating(lambda: _icc_description(profile)) if profile else None
    packets = header.xmp_packets()
    return {
        "width": header.width,
        "height": header.height,
        "format": text(header.format),
        "mode": text(header.mode),
        "frames": whole_number(frames),
        "make": text(main.get(_MAKE)),
        "model": text(main.get(_MODEL)),
        "lens": text(exif.get(_LENS)),
        "software": text(main.get(_SOFTWARE)),
        "datetime_original": timestamp(exif.get(_TAKEN), exif.get(_TAKEN_OFFSET)),
        "exposure_time_s": number(exif.get(_EXPOSURE)),
        "f_number": number(exif.get(_F_NUMBER)),
        "iso": whole_number(exif.get(_ISO)),
        "focal_length_mm": number(exif.get(_FOCAL_LENGTH)),
        "has_gps": any(tag in gps for tag in (1, 2, 3, 4)),
        "has_icc_profile": bool(profile),
        "icc_description": text(description),
        "has_xmp": bool(packets),
        "xmp_ai_source": ai_source(packets),
    }


def _tolerating(read: Callable[[], object]) -> object:
    """Returns what `read` returns, or None: one malformed tag must not cost the others."""
    try:
        return read()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - Pillow raises SyntaxError, OSError, struct.error, TypeError, KeyError…
        return None


def _tags(read: Callable[[], object]) -> Mapping[int, object]:
    """Returns the tags that can be read, by number."""
    found = cast("Mapping[int, object]", _tolerating(read) or {})
    keys = cast("list[int]", _tolerating(lambda: list(found)) or [])
    return {key: _tolerating(partial(operator.getitem, found, key)) for key in keys}


def _icc_description(profile: object) -> str | None:
    import io

    from PIL import ImageCms

    if not isinstance(profile, bytes):
        return None
    return ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(profile)))


def text(value: object) -> str | None:
    """Returns text up to the first NUL, stripped, at most 256 characters; None for what is no text, or blank."""
    if isinstance(value, str):
        try:
            value = value.encode("latin-1")  # how Pillow reads ASCII tags, whatever is in them
        except UnicodeEncodeError:
            value = value.encode("utf-8", "replace")
    if not isinstance(value, bytes):
        return None
    value = value.split(b"\0", 1)[0][: 4 * LONGEST_TEXT + 4]
    try:
        decoded = value.decode("utf-8")
    except UnicodeDecodeError as error:
        cut_short = error.end == len(value) and len(value) > 4 * LONGEST_TEXT
        decoded = value.decode("utf-8", "ignore") if cut_short else value.decode("latin-1")
    return decoded.strip()[:LONGEST_TEXT].strip() or None


def number(value: object) -> float | None:
    """Returns a finite float32 of at least 0; None for zero denominators, text, and several numbers."""
    value = _single(value)
    if value is None:
        return None
    try:
        result = float(cast("Any", value))
    except (ArithmeticError, TypeError, ValueError):
        return None
    return result if math.isfinite(result) and 0 <= result <= _LARGEST_FLOAT32 else None


def whole_number(value: object) -> int | None:
    """Returns an int32 of at least 0; None when the value is not a whole number."""
    result = number(value)
    return int(result) if result is not None and result == int(result) and result <= _LARGEST_INT32 else None


def _single(value: object) -> object:
    """Returns the number that a value is or, as several cameras write it, the first of a tuple."""
    if isinstance(value, tuple) and value:
        value = cast("tuple[object, ...]", value)[0]
    if isinstance(value, (bool, str, bytes, tuple)):
        return None
    if getattr(value, "denominator", 1) == 0:
        return None
    return value


def timestamp(value: object, offset: object = None) -> str | None:
    """Returns EXIF's `YYYY:MM:DD HH:MM:SS` as ISO 8601, with the UTC offset when there is one; else None."""
    moment = text(value)
    if moment is None:
        return None
    zone = text(offset) or ""
    for candidate in (moment[:19] + zone, moment[:19]):
        for pattern in ("%Y:%m:%d %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"):
            try:
                return datetime.strptime(candidate, pattern + ("%z" if candidate != moment[:19] else "")).isoformat()  # noqa: DTZ007 - cameras do not say
            except ValueError:
                continue
    return None


def ai_source(packets: list[bytes]) -> str | None:
    """Returns the digital source type of an XMP packet when it says that an algorithm made the picture."""
    for packet in packets:
        for found in _SOURCE_TYPE.finditer(packet):
            name = found[1].decode("ascii")
            if name in _BY_ALGORITHM:
                return name
    return None


EXIF_METADATA = register_filter(
    Filter("exif_metadata", struct="filter_exif_metadata_v1", needs=Need.HEADER, measure=measure_exif_metadata)
)
