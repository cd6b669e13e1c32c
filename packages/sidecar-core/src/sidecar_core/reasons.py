"""The closed list of reasons for which a row's image could not be used."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a row is invalid. Sidecars store the value as text; the list only ever grows.

    Attributes:
        MISSING: the row has no picture: null, or a struct whose bytes are null.
        EMPTY: the picture has no bytes.
        NOT_AN_IMAGE: its bytes begin like no picture: a web page, a pointer file, noise.
        TRUNCATED: the file ends before its format says so, or its data before the last row.
        DECODE_FAILED: it is a picture, and no pixels can be had: damaged, or of a format that is not read.
        UNSUPPORTED_MODE: its samples have no known scale, such as 32-bit or floating-point ones.
        TOO_MANY_PIXELS: its header declares more than `max_pixels`; nothing was decoded.
        ASPECT_RATIO_TOO_EXTREME: more than `max_crop_loss` of it would be cropped away.
        TOO_SMALL: it would have to be enlarged, and `no_upscale` is set.
        ENCODE_FAILED: the resized picture could not be encoded.
        CRASHED: the child process that computed it ended on a signal, or a filter raised an error.
        TIMEOUT: it took longer than `row_timeout_s`.
        OUT_OF_MEMORY: computing it took more memory than a child process may have.
    """

    MISSING = "missing"
    EMPTY = "empty"
    NOT_AN_IMAGE = "not_an_image"
    TRUNCATED = "truncated"
    DECODE_FAILED = "decode_failed"
    UNSUPPORTED_MODE = "unsupported_mode"
    TOO_MANY_PIXELS = "too_many_pixels"
    ASPECT_RATIO_TOO_EXTREME = "aspect_ratio_too_extreme"
    TOO_SMALL = "too_small"
    ENCODE_FAILED = "encode_failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
