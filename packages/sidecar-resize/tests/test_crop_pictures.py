"""Boxes sit on what they name: pictures of known shapes, resized by the engine, then cropped boxes on real pixels."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.engine import run_every_shard
from sidecar_core.testing.example_dataset import example_dataset
from sidecar_resize.boxes import find_boxes
from sidecar_resize.row_checks import ResizeRules
from sidecar_resize.shard_checks import ResizedColumns, Sample
from sidecar_resize.testing.pictures import encoded, exif_block, stored_turned
from sidecar_resize.verify import verify_resized

COLORS = {"red": (220, 30, 30), "green": (30, 160, 50), "blue": (30, 60, 220), "yellow": (235, 210, 40)}
RATIOS = [
    0.26,
    0.3,
    0.36,
    0.42,
    0.5,
    0.5625,
    0.62,
    0.6667,
    0.75,
    0.8,
    0.9,
    1,
    1.1,
    1.25,
    1.3333,
    1.5,
    1.7778,
    2,
    2.9,
    3.9,
]
AREAS = [90_000, 2_600_000]  # scaled up, and down
SIDES = (512, 1024)
TOLERANCE_PX = 2.0  # one of the box, one of the picture's own scaling


def shapes(width, height):
    """Returns the bounds of a rectangle in each corner's quarter, in px: left, top, right, bottom."""
    across, down = width // 10, height // 10
    return {
        "red": (across, down, 4 * across, 3 * down),
        "green": (6 * across, 2 * down, 9 * across, 4 * down),
        "blue": (2 * across, 6 * down, 4 * across, 9 * down),
        "yellow": (5 * across, 5 * down, 8 * across, 8 * down),
    }


def drawn(width, height, orientation):
    picture = Image.new("RGB", (width, height), (128, 128, 128))
    draw = ImageDraw.Draw(picture)
    for color, (left, top, right, bottom) in shapes(width, height).items():
        draw.rectangle((left, top, right - 1, bottom - 1), fill=COLORS[color])
    stored = stored_turned(picture, orientation)
    return encoded(stored, "JPEG", quality=95, subsampling=0, exif=exif_block(orientation))


def described(width, height):
    objects = [
        {
            "label": color,
            "box_2d": [1000 * top / height, 1000 * left / width, 1000 * bottom / height, 1000 * right / width],
        }
        for color, (left, top, right, bottom) in shapes(width, height).items()
    ]
    return json.dumps({"objects": objects})


def whole(description):
    """Returns the description with whole numbers, as models write them."""
    value = json.loads(description)
    for each in value["objects"]:
        each["box_2d"] = [round(number) for number in each["box_2d"]]
    return json.dumps(value)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Builds, verifies and crops a dataset of 40 pictures; returns their sizes, pictures, descriptions and meta."""
    folder = tmp_path_factory.mktemp("shapes")
    rows = []
    for number, ratio in enumerate(RATIOS):
        for area in AREAS:
            width, height = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
            rows.append((width, height, (number + AREAS.index(area)) % 8 + 1))
    (folder / "main").mkdir()
    descriptions = [described(width, height) for width, height, _ in rows]
    table = pa.table(
        {
            "image_key": [f"{width}x{height} {orientation}" for width, height, orientation in rows],
            "image": pa.array([drawn(*row) for row in rows], pa.binary()),
            "structured_description": [text if row % 2 else whole(text) for row, text in enumerate(descriptions)],
        }
    )
    pq.write_table(table, folder / "main/part-0.parquet", row_group_size=16)
    dataset = example_dataset(
        main_prefix=f"{folder}/main/", sidecar_prefix=f"{folder}/out/", schema_extensions=[], carry_columns=[]
    )
    names = {512: "0_26mp_process", 1024: "1_05mp_process"}
    resize = build_pipeline(
        dataset,
        [{"type": "resize_image", "targets": [{"area": side} for side in SIDES]}],
        outputs=[
            OutputSpec(
                name=str(side),
                prefix=f"{folder}/{side}/",
                columns={"image": f"image_{side}", f"{names[side]}_*": f"{names[side]}_*"},
            )
            for side in SIDES
        ],
    )
    run_every_shard(resize, {str(side): f"{folder}/{side}" for side in SIDES})
    with IsolationPool(IsolationOptions(workers=2)) as isolation:
        for side in SIDES:
            report = verify_resized(
                open_storage(f"{folder}/main/"),
                open_storage(f"{folder}/{side}/"),
                columns=ResizedColumns("image_key"),
                rules=ResizeRules(area_px=side * side),
                isolation=isolation,
                sample=Sample(shards=None, rows=4),
            )
            assert report.ok, report.problems
    crop = build_pipeline(
        dataset,
        [{"type": "crop_structured_description", "resized": {side: f"{folder}/{side}/" for side in SIDES}}],
    )
    assert list(crop.operations[0].check_start(dataset, open_storage)) == []
    run_every_shard(crop, {crop.outputs[0].name: f"{folder}/out"})
    result = read_dataset(folder / "out")["part-0.parquet"]
    pictures = {side: read_dataset(folder / str(side))["part-0.parquet"].column("image").to_pylist() for side in SIDES}
    texts = {side: result.column(f"structured_description_crop_{side}").to_pylist() for side in SIDES}
    metas = result.column("bbox_resize_meta").to_pylist()
    return rows, pictures, texts, metas


@pytest.mark.parametrize("side", SIDES)
def test_the_colour_inside_each_moved_box_is_the_shapes(made, side):
    rows, pictures, texts, metas = made
    assert {orientation for _, _, orientation in rows} == set(range(1, 9))
    for row, (picture, text, meta) in enumerate(zip(pictures[side], texts[side], metas, strict=True)):
        assert meta["status"] == "ok"
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        boxes = find_boxes(text)
        assert [box.label for box in boxes] == list(COLORS)
        for box in boxes:
            top, left, bottom, right = (
                value * px / 1000 for value, px in zip(box.box_yxyx_1000, (image.height, image.width) * 2, strict=True)
            )
            assert bottom - top > 8 * TOLERANCE_PX
            inset = TOLERANCE_PX + max(image.size) / 1000  # a whole number is a thousandth of the side
            inside = image.crop((int(left + inset) + 1, int(top + inset) + 1, int(right - inset), int(bottom - inset)))
            worst = worst_difference(inside, COLORS[box.label])
            assert worst < 40, (rows[row], side, box, worst)


@pytest.mark.parametrize("side", SIDES)
def test_a_moved_box_holds_the_whole_shape(made, side):
    """Its edges are, within a pixel and the box's own step, where the colour ends."""
    rows, pictures, texts, _ = made
    for row, (picture, text) in enumerate(zip(pictures[side], texts[side], strict=True)):
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        scale = max(image.width / rows[row][0], 1)  # an edge is as soft as the picture was enlarged
        for box in find_boxes(text):
            found = bounds_of(image, COLORS[box.label])
            top, left, bottom, right = box.box_yxyx_1000
            expected = (left * image.width, top * image.height, right * image.width, bottom * image.height)
            for got, wanted, px in zip(found, expected, (image.width, image.height) * 2, strict=True):
                assert abs(got - wanted / 1000) <= 1 + scale + 0.5 * px / 1000, (rows[row], side, box, found)


def test_the_recorded_sizes_are_those_of_the_pictures(made):
    rows, pictures, _, metas = made
    for index, ((width, height, _), meta) in enumerate(zip(rows, metas, strict=True)):
        assert (meta["source_width"], meta["source_height"]) == (width, height)
        for side in SIDES:
            size = Image.open(io.BytesIO(pictures[side][index])).size
            assert (meta[f"target_{side}"]["width"], meta[f"target_{side}"]["height"]) == size
            assert meta[f"target_{side}"]["boxes"] == 4
            assert meta[f"target_{side}"]["dropped"] == 0


def worst_difference(image, color):
    """Returns the largest difference of the mean and of all but the worst hundredth of the pixels, 0-255."""
    pixels = image.width * image.height
    worst = 0
    for band, wanted in zip(image.split(), color, strict=True):
        counts = band.histogram()
        beyond, level = 0, 255
        while level > 0:
            beyond += sum(counts[value] for value in {wanted - level, wanted + level} if 0 <= value <= 255)
            if beyond > pixels / 100:
                break
            level -= 1
        worst = max(worst, level)
    return worst


def bounds_of(image, color):
    """Returns the bounds, in px, of what is nearer to a colour than to the gray around it."""
    masks = [
        band.point([255 if abs(level - wanted) < abs(level - 128) else 0 for level in range(256)])
        for band, wanted in zip(image.split(), color, strict=True)
    ]
    both = masks[0]
    for mask in masks[1:]:
        both = Image.composite(mask, Image.new("L", image.size), both)
    return both.getbbox()
