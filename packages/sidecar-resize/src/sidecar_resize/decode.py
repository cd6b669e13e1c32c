"""From a header to upright-able pixels. Imported only in isolated child processes: it loads Pillow."""

from __future__ import annotations

import io
import math
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from PIL import AvifImagePlugin, Image, ImageFile
from sidecar_core.reasons import Reason

from sidecar_resize.headers import UnusableImageError
from sidecar_resize.headers.tags import exif_orientation

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sidecar_resize.headers import Header

# The product's own cap (from the header, before anything is allocated) stands in for Pillow's, which warns
# at one size and raises at another.
Image.MAX_IMAGE_PIXELS = None
AvifImagePlugin.DEFAULT_MAX_THREADS = 1

_MAX_MEASURED_PX = 50_000_000  # above this, how much of a cut picture decodes is not worth finding out


def open_picture(header: Header) -> Image.Image:
    """Opens the payload without decoding it, and completes `header` with what only the decoder knows.

    Raises:
        UnusableImageError: `truncated` or `decode_failed`.
    """
    try:
        image = Image.open(io.BytesIO(header.payload), formats=list(header.pillow_formats))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises nearly every builtin on damaged files
        failure = _failure(header, error)
        if failure.reason is Reason.TRUNCATED:
            failure = UnusableImageError(failure.reason, f"{failure.detail}; {_share(None)}")
        raise failure from error
    if image.format == "JPEG":
        image.decodermaxblock = len(header.payload)  # type: ignore[attr-defined] - libjpeg gets the file in one piece
    header.declared_px = max(header.declared_px, image.width * image.height)
    header.width, header.height = image.size
    if header.source_format == "AVIF":
        # the decoder reports the container's rotation and mirror as an orientation tag, and applies neither
        header.orientation = exif_orientation(image.info.get("exif"))
        header.profile = image.info.get("icc_profile")
        header.frames = getattr(image, "n_frames", 1)
    elif header.source_format == "JPEG2000":
        header.profile = image.info.get("icc_profile")
    elif header.source_format == "TIFF":
        # Pillow would turn the picture, and trip over hostile tags that no pixel depends on
        image.load_end = _nothing  # type: ignore[attr-defined]
    return image


def decode(
    header: Header, *, reduction: int = 1, accept_truncated: float | None = None
) -> tuple[Image.Image, str | None]:
    """Decodes the first frame as stored: not yet turned, in the decoder's own mode.

    Args:
        header: from `read_header`, completed by `open_picture`.
        reduction: 1, 2, 4 or 8: decode a JPEG at that fraction of its size.
        accept_truncated: share of rows, 0-1, that must decode for a cut picture to be used, or None.

    Returns:
        The picture, and what was tolerated (None when nothing was). Rows of an accepted picture that
        did not decode are zero.

    Raises:
        UnusableImageError: `truncated` (with the share of rows that decode) or `decode_failed`.
        MemoryError: the pixels do not fit in the memory cap.
    """
    image = _reduced(open_picture(header), reduction)
    try:
        _load(image)
    except MemoryError:
        raise
    except Exception as error:
        failure = _failure(header, error)
        if failure.reason is not Reason.TRUNCATED:
            raise failure from error
        share = decoded_share(header)
        damaged = "truncated" not in str(error).lower()  # its rows may be there, but not as they were
        if accept_truncated is None or share is None or share < accept_truncated or damaged:
            raise UnusableImageError(failure.reason, f"{failure.detail}; {_share(share)}") from error
        with _tolerating_cuts():
            image = _reduced(open_picture(header), reduction)  # afresh: a failed object shows old pixels
            _stop_at_the_end(image)
            _load_what_comes(image)
        return image, f"truncated: {failure.detail}; {_share(share)}"
    if header.cut:
        if accept_truncated is None:
            raise UnusableImageError(Reason.TRUNCATED, f"{header.cut}; {_share(1.0)}")
        return image, f"truncated: {header.cut}; {_share(1.0)}"
    return image, None


def decoded_share(header: Header) -> float | None:
    """Returns the share of rows, 0-1, that decode before the data end, or None when it cannot be measured.

    The picture is decoded onto two different grounds; rows that show their ground were not decoded.
    """
    if header.declared_px > _MAX_MEASURED_PX or header.source_format in ("WEBP", "AVIF", "JPEG2000"):
        return None
    results: list[tuple[tuple[int, int], bytes]] = []
    for ink in (0, 255):
        try:
            with _tolerating_cuts():
                image = open_picture(header)
                _paint_ground(image, ink)
                _stop_at_the_end(image)
                _load_what_comes(image)
                results.append((image.size, image.tobytes()))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - not measurable: said so to the caller
            return None
    (size, one), (_, other) = results
    stride = len(one) // size[1] if size[1] else 0
    same = (one[at : at + stride] == other[at : at + stride] for at in range(0, stride * size[1], stride or 1))
    return sum(same) / size[1]


def reduction_for(scale: float, *, keep: float) -> int:
    """Returns the largest of 8, 4, 2, 1 that leaves at least `keep` times the wanted size.

    Args:
        scale: source side over wanted side, the smaller of both axes.
        keep: how many times the wanted side must be left for the resampler.
    """
    return next((reduction for reduction in (8, 4, 2) if scale / reduction >= keep), 1)


def _reduced(image: Image.Image, reduction: int) -> Image.Image:
    if reduction > 1:
        image.draft(None, (image.width // reduction, image.height // reduction))
    return image


def _load(image: Image.Image) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image.load()


def _load_what_comes(image: Image.Image) -> None:
    """Loads, and keeps the rows that came before an error that tolerating cuts does not cover."""
    try:
        _load(image)
    except MemoryError:
        raise
    except Exception:
        if getattr(image, "_im", None) is None:
            raise
        image.tile = []  # type: ignore[attr-defined]


def _paint_ground(image: Image.Image, ink: int) -> None:
    prepare: Callable[[], None] = image.load_prepare  # type: ignore[attr-defined]

    def painted() -> None:
        prepare()
        core = image.im
        bands = len(image.getbands())
        core.paste(ink if bands == 1 else (ink,) * bands, (0, 0, *core.size))  # type: ignore[attr-defined]

    image.load_prepare = painted  # type: ignore[attr-defined]


def _stop_at_the_end(image: Image.Image) -> None:
    """Pillow ends a cut JPEG with a marker of its own, and libjpeg then fills the rest with gray."""
    if image.format == "JPEG":
        image.load_read = image.fp.read  # type: ignore[attr-defined]


@contextmanager
def _tolerating_cuts() -> Generator[None]:
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False


def _failure(header: Header, error: Exception) -> UnusableImageError:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    said = said.replace(" <_io.BytesIO object", "").split(" at 0x")[0]
    if header.cut:
        return UnusableImageError(Reason.TRUNCATED, header.cut)
    if "truncated" in said.lower():
        return UnusableImageError(Reason.TRUNCATED, "its data end before its last row")
    return UnusableImageError(Reason.DECODE_FAILED, f"{type(error).__name__}: {said}")


def _share(share: float | None) -> str:
    if share is None:
        return "how much decodes is not known"
    return f"{math.floor(share * 1000) / 10:g} % of the rows decoded"


def _nothing() -> None:
    return None
