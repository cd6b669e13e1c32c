"""The pixels of a Pillow image where they lie, without a copy. Imported only in isolated child processes."""

from __future__ import annotations

import ctypes

from PIL import Image

_BLOCK_BYTES = 1 << 28
_PIXEL_BYTES = 4  # of Pillow's RGB; the fourth is not used

# Rows lie one after the other, without gaps, and all of them in one block up to 67 million pixels.
Image.core.set_alignment(1)
Image.core.set_block_size(_BLOCK_BYTES)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class _ArrowArray(ctypes.Structure):
    """The beginning of `struct ArrowArray` of Arrow's C data interface."""


_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
]


def pixels_of(image: Image.Image) -> tuple[bytes | memoryview, str]:
    """Returns a picture's pixels, row by row, and the raw mode by which Pillow knows their layout.

    Args:
        image: L or RGB.

    Returns:
        For RGB the uint8 of (height, width, 4), raw mode RGBX, where they lie: valid as long as `image` lives and is
        not changed. Else, or when it lies in several blocks, a copy of (height, width, bands).
    """
    if image.mode == "RGB":  # rows of other modes have gaps
        try:
            _, capsule = image.__arrow_c_array__()
        except ValueError:  # it lies in several blocks
            return image.tobytes(), image.mode
        pixels = _ArrowArray.from_address(_capsule_pointer(capsule, b"arrow_array")).children[0].contents
        if (pixels.length, pixels.offset) == (image.width * image.height * _PIXEL_BYTES, 0):
            return memoryview((ctypes.c_uint8 * pixels.length).from_address(pixels.buffers[1])).cast("B"), "RGBX"
    return image.tobytes(), image.mode
