"""Whole, truncated, damaged, not an image: files of each kind, broken in each way; in children, for their stderr."""

import io

import numpy as np
import pytest
from PIL import Image
from sidecar_core.isolation import shared_pool
from sidecar_core.reasons import Reason
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec
from sidecar_filters.registry import find_filters
from sidecar_filters.testing.pictures import damaged_apng, encoded, jpeg_declaring, scene

KINDS = {
    "JPEG": {},
    "JPEG progressive": {"progressive": True},
    "PNG": {},
    "GIF": {},
    "WEBP": {},
    "WEBP lossless": {"lossless": True},
    "BMP": {},
    "TIFF": {},
    "JPEG2000": {},
    "AVIF": {},
}


def whole(kind):
    return encoded(scene(200, 150), kind.split()[0], **KINDS[kind])


def integrity(*images):
    rows = measure_rows(shared_pool(), list(images), MeasureSpec(find_filters(["integrity"])), timeout_s=60)
    return [row.values.get("integrity", row.failed) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_files_are_whole(kind):
    (found,) = integrity(whole(kind))
    assert found == {
        "verdict": "whole",
        "format": kind.split()[0],
        "end_reached": True,
        "trailing_bytes": 0,
        "decoder_warnings": 0,
        "detail": None,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_files_cut_anywhere_are_truncated(kind):
    data = whole(kind)
    cuts = [int(len(data) * share) for share in (0.3, 0.6, 0.9)] + [len(data) - 1]
    for cut, found in zip(cuts, integrity(*(data[:cut] for cut in cuts)), strict=True):
        assert (found["verdict"], found["end_reached"], found["trailing_bytes"]) == ("truncated", False, None), cut
        assert found["detail"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("JPEG2000", "AVIF")])
def test_what_follows_the_end_is_counted(kind):
    (found,) = integrity(whole(kind) + b"\0" * 37)
    assert (found["verdict"], found["trailing_bytes"]) == ("whole", 37)


def test_a_jpeg_with_a_part_of_its_scan_twice_is_damaged():
    """Both decoders show it."""
    data = whole("JPEG")
    at = len(data) // 2
    (found,) = integrity(data[:at] + data[at - 200 :])
    assert found["verdict"] == "damaged"
    assert found["decoder_warnings"] > 0
    assert "JPEG data" in found["detail"]


@pytest.mark.parametrize("kind", ["JPEG", "JPEG progressive"])
def test_a_jpeg_that_was_cut_and_closed_again_is_truncated(kind):
    data = whole(kind)
    for found in integrity(*(data[: int(len(data) * share)] + b"\xff\xd9" for share in (0.4, 0.6))):
        assert (found["verdict"], found["end_reached"], found["trailing_bytes"]) == ("truncated", True, 0)
        assert found["detail"]


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_a_png_with_a_flipped_bit_is_damaged(at):
    data = bytearray(whole("PNG"))
    data[int(len(data) * at)] ^= 4
    (found,) = integrity(bytes(data))
    assert (found["verdict"], found["end_reached"]) == ("damaged", True)
    assert "checksum" in found["detail"]


def test_a_damaged_second_frame_is_found_though_the_first_one_decodes():
    (found,) = integrity(damaged_apng())
    assert found["verdict"] == "damaged"


def test_what_is_no_image():
    for data in (b"", b"<html></html>", b"\0" * 100, b"GIF is a format"):
        (found,) = integrity(data)
        assert (found["verdict"], found["format"]) == ("not_an_image", None)
        assert found["detail"]


def test_the_format_is_that_of_the_bytes_and_a_signature_alone_is_truncated():
    (found,) = integrity(whole("PNG")[:8])
    assert (found["verdict"], found["format"]) == ("truncated", "PNG")


def test_what_is_too_large_to_decode_has_no_verdict():
    assert integrity(jpeg_declaring(whole("JPEG"), 30_000, 30_000)) == [{"integrity": "too_many_pixels"}]


def test_formats_without_a_structure_to_walk():
    """A PPM: too large for a verdict, cut, and whole."""
    whole_ppm = encoded(scene(200, 150), "PPM")
    spec = MeasureSpec(find_filters(["luma", "integrity"]), max_pixels=10_000)
    (large,) = measure_rows(shared_pool(), [whole_ppm], spec, timeout_s=60)
    assert large.failed == dict.fromkeys(("luma", "integrity"), Reason.TOO_MANY_PIXELS)
    assert large.values == {}
    found = integrity(whole_ppm[:-5000], whole_ppm)
    assert [row["verdict"] for row in found] == ["truncated", "whole"]


def test_what_nothing_here_decodes_has_no_verdict():
    heic = b"\0\0\0\x18ftypheic\0\0\0\0heicmif1\0\0\0\x08mdat"
    assert integrity(heic) == [{"integrity": "decode_failed"}]


def test_warnings_are_those_of_the_row_and_not_of_its_neighbours():
    """Whichever filters decode the picture before."""
    damaged = whole("JPEG")[:4000] + b"\xff\xd9"
    good = whole("JPEG")
    large = encoded(np.kron(scene(300, 200), np.ones((6, 6, 1), np.uint8)))
    damaged_large = large[: len(large) // 2] + b"\xff\xd9"
    images = [damaged, good, damaged_large, good, large]
    for names in (["integrity"], ["luma", "jpeg_artifact", "integrity"], ["integrity", "luma", "jpeg_artifact"]):
        spec = MeasureSpec(find_filters(names))
        rows = measure_rows(shared_pool(), images, spec, timeout_s=60)
        found = [row.values["integrity"] for row in rows]
        assert [row["decoder_warnings"] for row in found] == [1, 0, 1, 0, 0]
        assert [row["verdict"] for row in found] == ["truncated", "whole", "truncated", "whole", "whole"]


def test_pages_of_a_tiff_are_walked_to_the_last():
    target = io.BytesIO()
    pages = [Image.fromarray(scene(60, 40, seed)) for seed in range(3)]
    pages[0].save(target, "TIFF", save_all=True, append_images=pages[1:])
    data = target.getvalue()
    assert [row["verdict"] for row in integrity(data, data[:-100])] == ["whole", "truncated"]
