"""The demo's pictures are what their descriptions say; they are decoded in isolated children."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.demo_data import _COLORS, demo_rows, make_demo_dataset
from sidecar_cli.testing.picture_checks import look_at
from sidecar_core.errors import RefusedError, WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("demo")
    report = make_demo_dataset(str(prefix), workers=2)
    return report, pa.concat_tables([pq.read_table(Path(report.prefix) / shard) for shard in report.shards])


@pytest.fixture(scope="module")
def seen(demo):
    """What a viewer shows of each row, with the colour in the middle of each described box."""
    tasks = []
    for row in demo[1].to_pylist():
        boxes = [o["box_2d"] for o in json.loads(row["structured_description"] or '{"objects": []}')["objects"]]
        # a third from the bottom: inside a triangle as well
        places = [((y0 + 2 * y1) / 3000, (x0 + x1) / 2000) for y0, x0, y1, x1 in boxes]
        tasks.append((row["image"] or b"", places))
    with IsolationPool(IsolationOptions(workers=2)) as pool:
        return dict(zip(demo[1]["image_key"].to_pylist(), pool.map_rows(look_at, tasks), strict=True))


def test_it_is_small_and_has_shards(demo):
    report, table = demo
    assert len(report.shards) == 3
    assert 60 <= table.num_rows <= 100
    assert report.image_bytes < 20_000_000
    assert table.schema.names == ["image_key", "image", "caption", "structured_description"]
    assert len(set(table["image_key"].to_pylist())) == table.num_rows


def test_every_clean_picture_is_what_it_says(demo, seen):
    rows = [row for row in demo_rows() if not row.key.startswith("dirty/")]
    assert len(rows) > 60
    for row in rows:
        picture = seen[row.key]
        assert not isinstance(picture, WorkerCallFailed), (row.key, picture)
        assert (picture.width, picture.height) == (row.recipe.width, row.recipe.height), row.key
        assert picture.format in (row.recipe.format, "MPO"), row.key
        assert picture.orientation == row.recipe.orientation, row.key
        assert len(picture.colors) == len(row.recipe.shapes) > 0
        for shape, color in zip(row.recipe.shapes, picture.colors, strict=True):
            if " " in shape.label:
                expected = _COLORS[shape.label.split()[0]]
                assert max(abs(a - b) for a, b in zip(expected, color, strict=True)) < 60, (row.key, shape, color)


def test_formats_modes_and_orientations_are_all_there(seen):
    pictures = [picture for picture in seen.values() if not isinstance(picture, WorkerCallFailed)]
    assert {p.format for p in pictures} >= {"JPEG", "PNG", "WEBP", "GIF", "TIFF", "AVIF", "BMP"}
    assert {p.mode for p in pictures} >= {"RGB", "L", "CMYK", "RGBA", "P", "I;16", "LA"}
    assert {p.orientation for p in pictures} >= set(range(1, 9))
    assert any(p.frames > 1 for p in pictures)


def test_the_dirty_part_is_dirty(demo, seen):
    by_reason = Counter(str(reason) for row in demo_rows() for side, reason in row.reasons if side == 512)
    assert by_reason.keys() >= {
        *("truncated", "not_an_image", "empty", "missing", "too_many_pixels", "aspect_ratio_too_extreme", "None")
    }
    for row in demo_rows():
        reason = dict(row.reasons).get(512)
        if reason in ("truncated", "not_an_image", "empty", "missing", "too_many_pixels"):
            assert isinstance(seen[row.key], WorkerCallFailed), row.key


def test_boxes_are_inside_and_in_order(demo):
    boxes = [
        box["box_2d"]
        for text in demo[1]["structured_description"].to_pylist()
        if text
        for box in json.loads(text)["objects"]
    ]
    assert len(boxes) > 100
    for y0, x0, y1, x1 in boxes:
        assert 0 <= y0 < y1 <= 1000
        assert 0 <= x0 < x1 <= 1000


def test_the_same_seed_gives_the_same_bytes(demo, tmp_path):
    table = demo[1]
    again = make_demo_dataset(str(tmp_path), workers=1)
    assert pa.concat_tables([pq.read_table(Path(again.prefix) / shard) for shard in again.shards]).equals(table)
    assert [row.key for row in demo_rows(seed=1)] != [row.key for row in demo_rows()]


def test_a_prefix_with_shards_is_refused(demo):
    with pytest.raises(RefusedError):
        make_demo_dataset(demo[0].prefix)


def test_the_parent_never_loads_an_image_library(tmp_path):
    program = (
        "import sys; from sidecar_cli.demo_data import make_demo_dataset; make_demo_dataset(sys.argv[1]);"
        "print(sorted({'PIL', 'cv2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"
