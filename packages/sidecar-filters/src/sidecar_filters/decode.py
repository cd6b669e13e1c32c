"""Encoded bytes to pixels: what is decoded, at which scale, by which library. Used in isolated children only.

One decode serves the analysis image, and the luma of every pixel too, unless the JPEG was decoded at a
reduced scale; then the luma is a second, gray decode, made only when a filter asks for it.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import cv2
import numpy as np
from sidecar_core.isolation import native_stderr

from sidecar_filters.area import shrink_by_area
from sidecar_filters.base import Reason, UnreadableError
from sidecar_filters.containers import png_of_pixels
from sidecar_filters.header import ignoring_warnings
from sidecar_filters.jpeg import jpeg_without_end
from sidecar_filters.pillow_pixels import pillow_to_bgr

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from PIL.ImageFile import ImageFile

    from sidecar_filters.base import Image, Picture
    from sidecar_filters.header import Header

cv2.utils.logging.setLogLevel(
    cv2.utils.logging.LOG_LEVEL_SILENT
)  # its own remarks carry the time; those of libjpeg and libpng still reach stderr
cv2.setNumThreads(0)  # the children share the cores; results must not depend on how many there are

ANALYSIS_PIXELS = 512 * 512
_REDUCED_COLOR = {
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}
_NO_MEMORY = -4  # cv::Error::StsNoMem
# A file of these formats that ends early is not decoded: decoders show the rest as gray, or as anything.
_NEEDS_ITS_END = frozenset({"JPEG", "PNG", "WEBP"})
_OPENCV_READS_TOO = frozenset({"JPEG", "PNG", "BMP", "TIFF"})


def analysis_size(width: int, height: int) -> tuple[int, int]:
    """Returns (width, height) of the analysis image: at most 512² pixels, the shape kept, never larger.

    Args:
        width: of the stored picture, at least 1.
        height: of the stored picture, at least 1.

    Source: s = min(1, 512/√(w·h)), ⌊w·s⌋ × ⌊h·s⌋, in whole numbers so that no rounding decides.
    """
    if width * height <= ANALYSIS_PIXELS:
        return width, height
    w = max(1, math.isqrt(width * ANALYSIS_PIXELS // height))
    h = max(1, math.isqrt(height * ANALYSIS_PIXELS // width))
    if w * h > ANALYSIS_PIXELS:  # a side of 1 pixel cannot shrink, so the other one must
        w, h = (ANALYSIS_PIXELS // h, h) if w > h else (w, ANALYSIS_PIXELS // w)
    return w, h


def reduction(width: int, height: int) -> int:
    """Returns the largest k of 1, 2, 4, 8 at which both sides are at least twice the analysis image's."""
    w, h = analysis_size(width, height)
    return max(k for k in (1, 2, 4, 8) if k == 1 or (-(-width // k) >= 2 * w and -(-height // k) >= 2 * h))


def analysis_image(picture: Picture) -> Image:
    """Returns the (h, w, 3) uint8 BGR analysis image. Raises UnreadableError."""
    header = picture.header
    source = _reduced_image(picture) if _scale(header) > 1 else picture.full
    width, height = analysis_size(header.width, header.height)
    return source if source.shape[:2] == (height, width) else shrink_by_area(source, width, height)


def full_image(picture: Picture) -> Image:
    """Returns every pixel as (H, W, 3) uint8 BGR, in stored orientation. Raises UnreadableError."""
    header = picture.header
    check_worth_decoding(picture)
    errors: list[UnreadableError] = []
    for decode in _decoders(header):
        try:
            with _noting_messages(picture) as messages:
                pixels = decode(picture, header)
            if messages:
                _check_data_reach_the_end(picture)
        except UnreadableError as error:
            errors.append(error)
            if error.reason is Reason.TRUNCATED and header.jpeg is not None:
                break  # another decoder would fill in what is missing
            continue
        if pixels.shape[:2] == (header.height, header.width):
            return pixels
        found = (
            f"decoded {pixels.shape[1]}×{pixels.shape[0]} pixels where the header says {header.width}×{header.height}"
        )
        errors.append(UnreadableError(Reason.DECODE_FAILED, found))
    cut_short = header.container is not None and header.container.truncated
    reason = Reason.TRUNCATED if cut_short else errors[-1].reason
    raise UnreadableError(reason, "; ".join(error.detail for error in errors))


def full_luma(picture: Picture) -> Image:
    """Returns the (H, W) uint8 luma of every pixel, in stored orientation. Raises UnreadableError."""
    if _scale(picture.header) > 1:
        check_worth_decoding(picture)
        with _noting_messages(picture) as messages:
            luma = _imdecode(picture.data, cv2.IMREAD_GRAYSCALE)
        if messages:
            _check_data_reach_the_end(picture)
        if luma is not None and luma.shape == (picture.header.height, picture.header.width):
            return luma
    return cast("Image", cv2.cvtColor(picture.full, cv2.COLOR_BGR2GRAY))


def check_worth_decoding(picture: Picture) -> None:
    """Raises UnreadableError when the header shows that this picture must not be decoded."""
    header = picture.header
    if header.width * header.height > picture.max_pixels:
        size = f"{header.width}×{header.height} = {header.width * header.height} pixels"
        raise UnreadableError(Reason.TOO_MANY_PIXELS, f"the header says {size}, the limit is {picture.max_pixels}")
    container = header.container
    if container is not None and container.truncated and container.format in _NEEDS_ITS_END:
        raise UnreadableError(Reason.TRUNCATED, "; ".join(container.problems[-3:]))
    if container is not None and container.unknown_scale:
        raise UnreadableError(Reason.UNSUPPORTED_MODE, container.unknown_scale)


def _scale(header: Header) -> int:
    """Returns the reduced scale's denominator at which this picture is decoded for the analysis image."""
    scales = header.jpeg is not None and header.jpeg.scales_down
    return reduction(header.width, header.height) if scales else 1


def _decoders(header: Header) -> tuple[Callable[[Picture, Header], Image], ...]:
    """Returns who decodes this picture, in order.

    OpenCV is the fast one for JPEG; it must not see animated PNGs, which kill it when they are damaged, and
    shows what transparency hides. Pillow has the better CMYK, and reads more formats.
    """
    container = header.container
    if header.jpeg is not None and len(header.jpeg.components) in (1, 3):
        return (_by_opencv, _by_pillow)
    if container is not None and container.animated:
        return (_by_pillow,)
    if container is not None and container.format == "PNG":
        return (_by_pillow, _by_opencv) if container.transparent else (_by_opencv, _by_pillow)
    if container is not None and container.format in _OPENCV_READS_TOO:
        return (_by_pillow, _by_opencv)
    return (_by_pillow,)


@contextmanager
def _noting_messages(picture: Picture | None) -> Generator[list[str]]:
    """Yields a list, to which it adds what native code writes to stderr inside; also to `picture.decoder_messages`."""
    before = native_stderr()
    new: list[str] = []
    try:
        yield new
    finally:
        written = native_stderr().removeprefix(before)  # only the last 64 KiB are kept
        new.extend(line for line in written.splitlines() if line.strip())
        if picture is not None:
            picture.decoder_messages.extend(new)


def _check_data_reach_the_end(picture: Picture) -> None:
    """Raises UnreadableError when the coded data of a JPEG end before its last row.

    Decoders fill the rest with gray, and say something that they also say of other damage. So what they said
    something about is decoded again without its end marker, by a decoder that fails when it needs more.
    """
    jpeg = picture.header.jpeg
    if jpeg is None or not jpeg.one_scan:
        return
    try:
        _decode_by_pillow(jpeg_without_end(picture.data, jpeg))
    except UnreadableError as error:
        if error.reason is Reason.TRUNCATED:
            raise UnreadableError(Reason.TRUNCATED, "its data end before the last row") from error


def _reduced_image(picture: Picture) -> Image:
    """Returns a JPEG as its decoder scales it, or every pixel when it does not."""
    check_worth_decoding(picture)
    header = picture.header
    k = _scale(header)
    with _noting_messages(None) as messages:  # integrity counts those of the decode of every pixel
        pixels = _imdecode(picture.data, _REDUCED_COLOR[k])
    if messages:
        _check_data_reach_the_end(picture)
    if pixels is not None and pixels.shape[:2] == (-(-header.height // k), -(-header.width // k)):
        return pixels
    return picture.full


def _by_opencv(picture: Picture, header: Header) -> Image:
    pixels = _imdecode(picture.data, cv2.IMREAD_COLOR_BGR)
    if pixels is None:
        raise UnreadableError(Reason.DECODE_FAILED, "OpenCV decodes no picture from it")
    if header.format == "TIFF" and pixels.shape[:2] != (header.height, header.width):
        pixels = to_stored(pixels, header.orientation)  # OpenCV turns a TIFF whatever it is told
    return pixels


def _by_pillow(picture: Picture, header: Header) -> Image:
    jpeg = header.jpeg
    pixels = _decode_by_pillow(jpeg_without_end(picture.data, jpeg) if jpeg and jpeg.one_scan else picture.data)
    return to_stored(pixels, header.orientation) if header.format == "TIFF" else pixels  # Pillow turns a TIFF


def _decode_by_pillow(data: bytes) -> Image:
    from sidecar_filters.header import read_header

    header = read_header(data)
    image = header.image  # a fresh one: a second load after a failed one shows what was left
    if image is None and header.format == "PNG" and len(pixels := png_of_pixels(data)) < len(data):
        return _decode_by_pillow(pixels)
    if image is None:
        raise UnreadableError(Reason.DECODE_FAILED, "Pillow does not read it")
    image.info.pop("xmp", None)  # by which Pillow would turn a TIFF that has no orientation tag
    if image.format == "JPEG":
        cast("ImageFile", image).decodermaxblock = len(data)  # libjpeg gets it in one piece
    try:
        with ignoring_warnings():
            return pillow_to_bgr(image, data, header.container)
    except (MemoryError, UnreadableError):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        reason = Reason.TRUNCATED if "runcated" in text else Reason.DECODE_FAILED
        raise UnreadableError(reason, f"Pillow: {text}"[:300]) from error


def _imdecode(data: bytes, flags: int) -> Image | None:
    """Decodes in stored orientation; None when OpenCV cannot. Raises cv2.error only when memory is short."""
    try:
        return cast("Image | None", cv2.imdecode(np.frombuffer(data, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION))
    except cv2.error as error:
        if error.code == _NO_MEMORY:
            raise
        return None


def upright(pixels: Image, orientation: int | None) -> Image:
    """Returns an array in stored orientation as it is to be looked at; a view. `orientation` is EXIF's, 1-8."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def to_stored(pixels: Image, orientation: int | None) -> Image:
    """Undoes `upright`."""
    inverse = {6: 8, 8: 6}
    return np.ascontiguousarray(upright(pixels, inverse.get(orientation or 1, orientation)))
