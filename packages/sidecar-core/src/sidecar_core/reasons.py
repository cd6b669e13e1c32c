"""The closed list of reasons for which a row's image could not be used."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a row is invalid. Sidecars store the value as text; the list only ever grows."""

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
