"""The whole corpus of real, odd and broken files in one go, when it lies beside the repository."""

import math
import os
from pathlib import Path

import pytest
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.reasons import Reason
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec
from sidecar_filters.registry import find_filters
from sidecar_filters.status import row_status

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
NAMES = [
    "luma",
    "saturation",
    "color_entropy",
    "clarity",
    "texture",
    "edge_density",
    "jpeg_artifact",
    "exif_rotation",
    "exif_metadata",
    "integrity",
    "fingerprint",
]
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.slow,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {os.path.relpath(CORPUS)}"),
]


def manifest():
    lines = (CORPUS / "manifest.tsv").read_text().splitlines()
    head = lines[0].split("\t")
    return {row[0]: dict(zip(head, row, strict=False)) for row in (line.split("\t") for line in lines[1:])}


@pytest.fixture(scope="module")
def measured():
    files = sorted(manifest())
    filters = find_filters(NAMES)
    with IsolationPool(IsolationOptions(workers=2)) as pool:
        rows = measure_rows(pool, [(CORPUS / name).read_bytes() for name in files], MeasureSpec(filters), timeout_s=60)
        deaths = pool.counters.deaths
    assert len(rows) == len(files) == 248
    return {name: (row, row_status(filters, row)) for name, row in zip(files, rows, strict=True)}, deaths


def test_every_null_is_explained(measured):
    reasons = {reason.value for reason in Reason}
    for name, (row, status) in measured[0].items():
        for each in NAMES:
            assert (each in row.failed) or (each in row.values), (name, each)
        assert status["status"] in {"ok", "partial", *reasons}, name
        assert (status["status"] == "ok") == (not row.failed), name
        assert all(entry["reason"] in reasons for entry in status["failed"]), name
        assert status["detail"] or not row.failed, name
        assert "sha256" in row.values["fingerprint"], name


def test_no_value_is_nan_or_infinite(measured):
    for name, (row, _) in measured[0].items():
        for each, values in row.values.items():
            for field, value in values.items():
                assert not isinstance(value, float) or math.isfinite(value), (name, each, field)


def test_no_file_reached_a_decoder_that_it_kills(measured):
    assert measured[1] == {}


def test_header_filters_are_filled_wherever_the_header_parses(measured):
    """What Pillow opened when the manifest was made, but for formats that we leave out."""
    left_out = ("020_", "026_", "032_")
    for name, facts in manifest().items():
        if facts["pillow_open"] == "ok" and not name.startswith(left_out):
            values = measured[0][name][0].values
            assert {"exif_metadata", "exif_rotation"} <= set(values), name


def test_orientations_are_those_of_the_manifest(measured):
    """But for files whose EXIF has none, where Pillow takes it from XMP or text."""
    for name, facts in manifest().items():
        if name.startswith(("036_", "040_", "047_")):
            assert measured[0][name][0].values["exif_rotation"]["orientation"] is None, name
            continue
        found = measured[0][name][0].values.get("exif_rotation", {}).get("orientation")
        kind, _, value = facts["pillow_orientation"].partition(":")
        if kind == "int" and 1 <= int(value) <= 8:
            assert found == int(value), name
        elif kind == "int":
            assert found is None, name


def test_sizes_are_those_of_the_manifest_as_stored(measured):
    for name, facts in manifest().items():
        values = measured[0][name][0].values.get("exif_metadata")
        if values and facts["pillow_size"] not in ("-", ""):
            size = [values["width"], values["height"]]
            if facts["format"] == "TIFF" and facts["pillow_orientation"] in ("int:5", "int:6", "int:7", "int:8"):
                size.reverse()
            assert "x".join(map(str, size)) == facts["pillow_size"], name


def test_means_agree_with_the_manifest_where_both_decoders_agree(measured):
    """The corpus knows what Pillow and OpenCV show; where these are alike and opaque, so are we."""
    compared = 0
    for name, facts in manifest().items():
        both = facts["pillow_mean_rgb"], facts["cv2_mean_rgb"]
        row, status = measured[0][name]
        if (
            "-" in both
            or status["status"] != "ok"
            or facts["pillow_mode"] not in ("RGB", "L")
            or "4)" in facts["cv2_unchanged"]
            or "trns" in name
        ):
            continue
        pillow, opencv = ([float(value) for value in text.split(",")] for text in both)
        if max(abs(a - b) for a, b in zip(pillow, opencv, strict=True)) > 1:
            continue
        red, green, blue = pillow
        if row.values["exif_metadata"]["frames"] == 1:
            compared += 1
            assert abs(row.values["luma"]["mean"] - (0.299 * red + 0.587 * green + 0.114 * blue)) < 1.5, name
    assert compared > 50


@pytest.mark.parametrize(
    ("category", "verdicts"),
    [
        ("der_jpeg_trunc", {"truncated"}),
        ("der_png_trunc", {"truncated"}),
        ("der_gif_trunc_pil_ok", {"truncated"}),
        ("der_webp_trunc", {"truncated"}),
        ("der_bmp_trunc", {"truncated"}),
        ("der_jp2_trunc", {"truncated"}),
        ("der_png_damaged", {"damaged"}),
        ("not_image", {"not_an_image"}),
        ("lfs_pointer", {"not_an_image"}),
        ("jpeg_baseline", {"whole"}),
        ("png_rgba", {"whole"}),
        ("webp_lossy", {"whole"}),
        ("avif", {"whole"}),
    ],
)
def test_verdicts_of_whole_and_cut_files(measured, category, verdicts):
    names = [name for name, facts in manifest().items() if facts["category"] == category]
    assert names
    for name in names:
        assert measured[0][name][0].values["integrity"]["verdict"] in verdicts, name
