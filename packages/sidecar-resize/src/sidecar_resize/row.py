"""One row: encoded picture in, one encoded picture and its audit out for every target.

`resize_row` runs in an isolated child process; this module itself loads no imaging library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sidecar_core.reasons import Reason

from sidecar_resize.audit import Audit
from sidecar_resize.geometry import TargetSize, exceeds_crop_loss, target_size
from sidecar_resize.headers import UnusableImageError, read_header

if TYPE_CHECKING:
    from sidecar_resize.headers import Header
    from sidecar_resize.spec import PixelSpec, ResizeSpec

# A reduced JPEG decode averages whole blocks; the resampler must be left clearly more than twice the size.
# Decoding at 1/2 costs 0.10 dB and 0.0002 SSIM at 2.5 times (0.21 dB at 2.0, 0.08 dB at 3.0), measured on
# photos of 4 megapixels after WEBP encoding, against a full decode.
REDUCED_DECODE_KEEP = 2.5

Resized = tuple[bytes | None, Audit]


@dataclass
class _Job:
    """A target that geometry lets pass."""

    index: int
    size: TargetSize
    reduction: int


def resize_row(image: bytes | None, spec: ResizeSpec) -> list[Resized]:
    """Resizes one picture to every target, from one read and (at equal reduction) one decode.

    A target's bytes and audit do not depend on which other targets are asked for. Nothing is raised on bad bytes, but
    a decoder may still crash, hang or fill memory: of pictures that you do not know, call it in an isolated child
    (`sidecar_core.IsolationPool.map_rows`).

    Args:
        image: the encoded picture, whole or broken, in any format; None for a null.
        spec: what to make.

    Returns:
        For each of `spec.areas_px`, the encoded picture (None when invalid) and the audit.
    """
    base = Audit(source_bytes=None if image is None else len(image))
    if image is None:
        return _all_invalid(spec, base, Reason.MISSING, None)
    try:
        header = read_header(image)
        return _resize(header, base, spec)
    except UnusableImageError as problem:
        return _all_invalid(spec, base, problem.reason, problem.detail)
    except MemoryError:
        return _all_invalid(spec, base, Reason.OUT_OF_MEMORY, "the memory cap was reached while decoding")
    except Exception as error:  # noqa: BLE001 - whatever bad bytes bring about costs one row, and is said
        return _all_invalid(spec, base, Reason.DECODE_FAILED, f"{type(error).__name__}: {str(error)[:200]}")


def displayed_size(header: Header) -> tuple[int, int]:
    """Returns (width, height) in pixels after the orientation is applied; zeros while only the decoder knows them."""
    turned = (header.orientation or 1) >= 5
    return (header.height, header.width) if turned else (header.width, header.height)


def check_pixels(header: Header, max_pixels: int) -> None:
    """Raises UnusableImageError `too_many_pixels` when any part of the file declares more than `max_pixels`."""
    if header.declared_px > max_pixels:
        size = f"{header.width} x {header.height}: " if header.width else ""
        raise UnusableImageError(
            Reason.TOO_MANY_PIXELS, f"{size}{header.declared_px} px declared, more than {max_pixels}"
        )


def _resize(header: Header, base: Audit, spec: ResizeSpec) -> list[Resized]:
    from sidecar_resize.decode import open_picture

    pixels = spec.pixels
    base.source_format, base.frames, base.orientation = header.source_format, header.frames or None, header.orientation
    _record_size(header, base)
    check_pixels(header, pixels.max_pixels)
    base.source_mode = open_picture(header).mode
    base.frames, base.orientation = header.frames, header.orientation
    shown = _record_size(header, base)
    check_pixels(header, pixels.max_pixels)
    results: list[Resized | None] = []
    jobs: list[_Job] = []
    for index, area_px in enumerate(spec.areas_px):
        size = target_size(*shown, area_px, pixels.patch)
        refused = _refuse(base, size, pixels)
        results.append(refused)
        if refused is None:
            jobs.append(_Job(index, size, _reduction(header, shown, size)))
    for reduction in sorted({job.reduction for job in jobs}):
        for job, result in _decode_once(header, base, pixels, [job for job in jobs if job.reduction == reduction]):
            results[job.index] = result
    return [result for result in results if result is not None]


def _record_size(header: Header, base: Audit) -> tuple[int, int]:
    """Returns (width, height) as displayed; the audit has them when they are known and fit its columns."""
    shown = displayed_size(header)
    if shown[0] and max(shown) < 2**31:
        base.source_width, base.source_height = shown
    return shown


def _refuse(base: Audit, size: TargetSize, pixels: PixelSpec) -> Resized | None:
    best = f"{size.width} x {size.height}"
    if exceeds_crop_loss(size, pixels.max_crop_loss):
        detail = f"the best size, {best}, would lose {size.crop_loss:.1%}, more than {pixels.max_crop_loss:.1%}"
        return _invalid(replace(base, crop_loss=size.crop_loss), Reason.ASPECT_RATIO_TOO_EXTREME, detail)
    if pixels.no_upscale and size.upscaled:
        shown = f"{base.source_width} x {base.source_height}"
        return _invalid(replace(base, crop_loss=size.crop_loss), Reason.TOO_SMALL, f"{shown} is smaller than {best}")
    return None


def _reduction(header: Header, shown: tuple[int, int], size: TargetSize) -> int:
    """Decided from the header's size and this target alone: no other target may change this one's bytes."""
    from sidecar_resize.decode import reduction_for

    if not header.may_reduce:
        return 1
    scale = min(shown[0] / size.resized_width, shown[1] / size.resized_height)
    return reduction_for(scale, keep=REDUCED_DECODE_KEEP)


def _decode_once(header: Header, base: Audit, pixels: PixelSpec, jobs: list[_Job]) -> list[tuple[_Job, Resized]]:
    from sidecar_resize.color import to_srgb
    from sidecar_resize.decode import decode

    try:
        decoded, tolerated = decode(header, reduction=jobs[0].reduction, accept_truncated=pixels.accept_truncated)
        srgb, color_notes = to_srgb(decoded, header, background=pixels.background, keep_alpha=pixels.keep_alpha)
    except UnusableImageError as problem:
        return [(job, _invalid(base, problem.reason, problem.detail)) for job in jobs]
    except MemoryError:
        return [
            (job, _invalid(base, Reason.OUT_OF_MEMORY, "the memory cap was reached while decoding")) for job in jobs
        ]
    except Exception as error:  # noqa: BLE001 - whatever a damaged picture makes Pillow raise costs one row
        detail = f"{type(error).__name__}: {str(error)[:200]}"
        return [(job, _invalid(base, Reason.DECODE_FAILED, detail)) for job in jobs]
    said = _decoder_said()
    shared = replace(
        base,
        detail="; ".join(filter(None, [tolerated, said])) or None,
        color_note="; ".join([*header.notes, *color_notes]) or None,
    )
    return [(job, _make(srgb, header, shared, pixels, job)) for job in jobs]


def _make(srgb: object, header: Header, base: Audit, pixels: PixelSpec, job: _Job) -> Resized:
    from PIL import Image

    from sidecar_resize.encode import encode, resize_upright

    if not isinstance(srgb, Image.Image):
        raise TypeError(f"a picture was expected, not {type(srgb).__name__}")
    size = job.size
    try:
        stored = (header.width, header.height)
        small = resize_upright(srgb, stored, size, orientation=header.orientation, reduction=job.reduction)
        encoded = encode(small, pixels)
    except UnusableImageError as problem:
        return _invalid(base, problem.reason, problem.detail)
    except MemoryError:
        return _invalid(base, Reason.OUT_OF_MEMORY, "the memory cap was reached while resizing")
    audit = replace(
        base,
        valid=True,
        resized_width=size.resized_width,
        resized_height=size.resized_height,
        crop_left=size.crop_left,
        crop_top=size.crop_top,
        width=size.width,
        height=size.height,
        crop_loss=size.crop_loss,
        upscaled=size.upscaled,
        output_bytes=len(encoded),
    )
    return encoded, audit


def _decoder_said() -> str:
    """What native code wrote to stderr since the row began: warnings that no exception carries."""
    from sidecar_core.isolation import native_stderr

    lines = native_stderr().strip().splitlines()
    return f"decoder said: {lines[-1].strip()[:200]}" if lines else ""


def _invalid(base: Audit, reason: Reason, detail: str | None) -> Resized:
    return None, replace(base, valid=False, reason=reason.value, detail=detail)


def _all_invalid(spec: ResizeSpec, base: Audit, reason: Reason, detail: str | None) -> list[Resized]:
    return [_invalid(base, reason, detail) for _ in spec.areas_px]
