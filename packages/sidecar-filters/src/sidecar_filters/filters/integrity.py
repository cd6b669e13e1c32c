"""Whether a file is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_filters.base import Filter, Need, Reason, UnreadableError
from sidecar_filters.registry import register_filter

if TYPE_CHECKING:
    from sidecar_filters.base import Measures, Picture
    from sidecar_filters.containers import Container

LONGEST_DETAIL = 500


def measure_integrity(picture: Picture) -> Measures:
    """Verdict `whole`, `truncated`, `damaged` or `not_an_image`, and what it rests on.

    A file is whole when its structure has no fault and reaches its end, and every pixel decodes without a
    native warning. Costs a decode of every pixel.

    Raises:
        UnreadableError: the file reaches its end, but is not decoded here: too large, or no decoder for it.

    Source: each format's structure (`sidecar_filters.containers`); libjpeg's and libpng's warnings.
    """
    from sidecar_filters.containers import read_container

    container = read_container(picture.data)
    failure: UnreadableError | None = None
    try:
        _ = picture.full_luma
    except UnreadableError as error:
        failure = error
    problems = list(container.problems) if container is not None else []
    facts = [*problems, *([failure.detail] if failure else []), *picture.decoder_messages]
    detail = "; ".join(dict.fromkeys(facts))[:LONGEST_DETAIL] or None
    ends = container is not None and container.knows_end
    end = container.end if container is not None and ends else None
    if failure is not None and _is_no_picture(container, failure):
        verdict = "not_an_image"
    elif (container is not None and container.truncated) or (failure and failure.reason is Reason.TRUNCATED):
        verdict = "truncated"
    elif failure is not None and (failure.reason is not Reason.DECODE_FAILED or _has_no_decoder(container)):
        raise failure
    else:
        verdict = "damaged" if failure or problems or picture.decoder_messages else "whole"
    return {
        "verdict": verdict,
        "format": container.format if container is not None else None if failure else picture.header.format,
        "end_reached": (end is not None) if ends else None,
        "trailing_bytes": len(picture.data) - end if end is not None else None,
        "decoder_warnings": len(picture.decoder_messages),
        "detail": detail,
    }


def _is_no_picture(container: Container | None, failure: UnreadableError) -> bool:
    return failure.reason is Reason.EMPTY or (container is None and failure.reason is Reason.NOT_AN_IMAGE)


def _has_no_decoder(container: Container | None) -> bool:
    """Whether it is of a kind that nothing here decodes, so that a failure says nothing about the file."""
    from sidecar_filters.containers import UNREAD_FORMATS

    if container is None:
        return False
    return container.format in UNREAD_FORMATS or (container.jpeg is not None and container.jpeg.lossless)


INTEGRITY = register_filter(
    Filter("integrity", struct="filter_integrity_v1", needs=Need.BYTES, measure=measure_integrity, version=2)
)
