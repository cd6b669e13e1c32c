"""GIF: blocks up to the trailer; only the first frame is handed on."""

from __future__ import annotations

from sidecar_core.reasons import Reason

from sidecar_resize.headers.facts import Header, UnusableImageError

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B


def read_gif(data: bytes) -> Header:
    """Reads a GIF's blocks.

    Raises:
        UnusableImageError: no frame was found, or the screen has no pixels.
    """
    if len(data) < 13:
        raise UnusableImageError(Reason.TRUNCATED, "ends within the GIF header; 0 % of the rows decoded")
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    boxes: list[tuple[int, int, int, int]] = []
    payload, cut, notes = b"", None, list[str]()
    while True:
        block = data[at] if at < len(data) else None
        if block == _TRAILER:
            break
        if block is None or block not in (_EXTENSION, _IMAGE):
            cut, damaged = _end_without_trailer(data, at, found=bool(payload))
            notes.extend(damaged)
            break
        if block == _IMAGE:
            box = _box(data, at)
            at = _image_data(data, at)
            boxes.append(box)
        else:
            at += 2
        at = _skip_sub_blocks(data, at)
        if block == _IMAGE and not payload:
            payload = data[:at] + b";"
    if not boxes:
        reason = Reason.TRUNCATED if cut else Reason.DECODE_FAILED
        raise UnusableImageError(reason, "GIF without a frame; 0 % of the rows decoded")
    left, top, right, bottom = boxes[0]
    canvas = max(width, right), max(height, bottom)
    return Header(
        source_format="GIF",
        pillow_formats=("GIF",),
        payload=payload,
        width=canvas[0],
        height=canvas[1],
        declared_px=max(canvas[0] * canvas[1], *((box[2] - box[0]) * (box[3] - box[1]) for box in boxes[:1])),
        frames=len(boxes),
        cut=cut,
        notes=notes,
        frame_box=None if (left, top, right, bottom) == (0, 0, *canvas) else boxes[0],
    )


def _end_without_trailer(data: bytes, at: int, *, found: bool) -> tuple[str | None, list[str]]:
    if at < len(data) and found and data.rstrip(b"\0").endswith(b";"):
        return None, ["damaged after the first frame"]
    return "ends before the GIF trailer", []


def _box(data: bytes, at: int) -> tuple[int, int, int, int]:
    left, top, width, height = (int.from_bytes(data[at + i : at + i + 2], "little") for i in (1, 3, 5, 7))
    return left, top, left + width, top + height


def _image_data(data: bytes, at: int) -> int:
    """Returns where the sub-blocks of the image at `at` begin: after its palette and its code size."""
    flags = data[at + 9] if at + 9 < len(data) else 0
    return at + 10 + (3 << (flags & 7) + 1 if flags & 0x80 else 0) + 1


def _skip_sub_blocks(data: bytes, at: int) -> int:
    """Returns the offset after the terminator; at or past the end of `data` when there is none."""
    end = len(data)
    while at < end and data[at]:
        at += 1 + data[at]
    return at + 1
