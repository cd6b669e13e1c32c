"""`overlay`: boxes on the pictures of real datasets, as a page in a real browser and as files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.demo_pictures import PictureRecipe, Shape, draw_picture
from sidecar_cli.main import main
from sidecar_cli.overlay_places import RowPlace, choose_rows, find_rows
from sidecar_cli.overlay_rows import sample_overlays
from sidecar_cli.overlay_sources import OverlaySource
from sidecar_cli.testing.picture_checks import look_at
from sidecar_core.dataset import StorageOptions
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.storage import open_storage

HOSTILE_KEY = "<img src=x onerror=\"document.title='hit'\">&amp;'{{ 7*7 }}.jpg"
HOSTILE_LABEL = "</li></script><script>document.title='hit'</script> größe 日本"
HOSTILE_CAPTION = '"><style>body{display:none}</style><b>bold</b> \u202e & <a href="https://example.com">x</a>'
RED = (215, 30, 35)
MAIN = "main ü=1"
SIZES = {512: "0_26mp_process", 1024: "1_05mp_process"}


def recipes():
    """Eight pictures, one in each orientation, with a red square at a quarter of each side."""
    for orientation in range(1, 9):
        square = Shape("red square", "square", RED, (160, 105, 480, 315))
        yield PictureRecipe(640, 420, "JPEG", orientation=orientation, shapes=(square,), tint=(200, 200, 210))


def description(label="red square", box=(250, 250, 750, 750)):
    return json.dumps({"high_level_description": "x", "objects": [{"label": label, "box_2d": list(box)}]})


@pytest.fixture(scope="module")
def pool():
    with IsolationPool(IsolationOptions(workers=2)) as isolation:
        yield isolation


@pytest.fixture(scope="module")
def pictures(pool):
    return pool.map_rows(draw_picture, list(recipes()))


@pytest.fixture(scope="module")
def built(tmp_path_factory, pictures):
    """A main dataset of two shards, its resized datasets, and a sidecar as `crop_structured_description` writes it."""
    root = tmp_path_factory.mktemp("boxes")
    main_prefix = root / MAIN
    (main_prefix / "deep").mkdir(parents=True)
    images = [*pictures, b"<html>404</html>", None]
    keys = [f"{row}.jpg" for row in range(8)] + [HOSTILE_KEY, "null.jpg"]
    described = [*[description()] * 7, description(HOSTILE_LABEL), None, description(HOSTILE_LABEL)]
    captions = ["a caption"] * 7 + [HOSTILE_CAPTION] * 3
    table = pa.table({"image_key": keys, "image": images, "caption": captions, "structured_description": described})
    pq.write_table(table.slice(0, 5), main_prefix / "deep/part-0.parquet", row_group_size=2)
    pq.write_table(table.slice(5), main_prefix / "deep/part-1.parquet")
    targets = [f"--target={side}={root / f'r{side}'}" for side in SIZES]
    assert main(["build-resized", "--main-prefix", str(main_prefix), *targets, "--workers", "2"]) == 0
    for shard in ("deep/part-0.parquet", "deep/part-1.parquet"):
        write_crop(root, main_prefix, shard)
    return root


@pytest.fixture
def boxes(tmp_path, built):
    """A copy of these datasets, to do with as one likes."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return Boxes(tmp_path, tmp_path / MAIN)


def write_crop(root, main, shard):
    rows = pq.read_table(main / shard, columns=["image_key", "structured_description"]).to_pylist()
    columns = {"image_key": [row["image_key"] for row in rows]}
    metas = [{"status": "ok" if row["structured_description"] else "no_description"} for row in rows]
    for side, prefix in SIZES.items():
        audits = pq.read_table(root / f"r{side}" / shard).to_pylist()
        moved = []
        for row, audit, meta in zip(rows, audits, metas, strict=True):
            if not audit[f"{prefix}_valid"]:
                meta["status"] = f"{side}: {audit[f'{prefix}_reason']}"
            usable = row["structured_description"] and audit[f"{prefix}_valid"]
            moved.append(move(row["structured_description"], audit, prefix) if usable else None)
            meta[f"target_{side}"] = {"boxes": 1, "clipped": 2 if row["image_key"] == "0.jpg" else 0, "dropped": 0}
        columns[f"structured_description_crop_{side}"] = moved
    path = root / "crop" / shard
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**columns, "bbox_resize_meta": metas}), path)


def move(text, audit, prefix):
    value = json.loads(text)
    at = {name: audit[f"{prefix}_{name}"] for name in ("resized_width", "resized_height", "crop_left", "crop_top")}
    width, height = audit[f"{prefix}_width"], audit[f"{prefix}_height"]
    for item in value["objects"]:
        top, left, bottom, right = item["box_2d"]
        item["box_2d"] = [
            (top / 1000 * at["resized_height"] - at["crop_top"]) / height * 1000,
            (left / 1000 * at["resized_width"] - at["crop_left"]) / width * 1000,
            (bottom / 1000 * at["resized_height"] - at["crop_top"]) / height * 1000,
            (right / 1000 * at["resized_width"] - at["crop_left"]) / width * 1000,
        ]
    return json.dumps(value)


class Boxes:
    def __init__(self, root: Path, main: Path):
        self.root = root
        self.main = main
        self.flags = ["--main-prefix", main, *(f"--resized={side}={root / f'r{side}'}" for side in SIZES)]

    def source(self, *, crop=True):
        open_at = lambda path: open_storage(str(path), StorageOptions())
        resized = {side: open_at(self.root / f"r{side}") for side in SIZES}
        crops = open_at(self.root / "crop") if crop else None
        return OverlaySource(open_at(self.main), "image_key", "image", resized=resized, crop=crops)


# the pictures


@pytest.mark.parametrize("row", range(5))
def test_boxes_are_around_what_they_are_of_in_each_picture(boxes, pool, row):
    (shown,) = sample_overlays(boxes.source(), [RowPlace("deep/part-0.parquet", row)], isolation=pool)
    assert shown.key == f"{row}.jpg"
    assert [picture.name for picture in shown.pictures] == ["original", "512", "1024"]
    ink = shown.colors["red square"]
    for picture in shown.pictures:
        panel = picture.panel
        assert (panel.reason, len(picture.boxes)) == (None, 1)
        top, left, bottom, right = (edge / 1000 for edge in picture.boxes[0].box_yxyx_1000)
        middle_y, middle_x = (top + bottom) / 2, (left + right) / 2
        x_px, y_px = 1.1 / panel.width, 1.1 / panel.height
        on = [(middle_y, left + x_px), (middle_y, right - x_px), (bottom - y_px, middle_x)]
        inside = [(top + 24 * y_px, middle_x), (middle_y, left + 12 * x_px), (middle_y, right - 12 * x_px)]
        outside = [(middle_y, left - 12 * x_px), (middle_y, right + 12 * x_px), (bottom + 12 * y_px, middle_x)]
        seen = pool.call(look_at, (panel.content, [*on, *inside, *outside]))
        assert (seen.format, seen.width, seen.height) == ("PNG", panel.width, panel.height)
        assert set(seen.colors[:3]) == {ink}
        for color in seen.colors[3:6]:
            assert max(abs(a - b) for a, b in zip(color, RED, strict=True)) < 20
        for color in seen.colors[6:]:
            assert max(abs(a - b) for a, b in zip(color, RED, strict=True)) > 60


def test_rows_that_cannot_be_shown_say_why(boxes, pool):
    shard = "deep/part-1.parquet"
    broken, missing = sample_overlays(boxes.source(), [RowPlace(shard, 3), RowPlace(shard, 4)], isolation=pool)
    assert [picture.panel.reason for picture in broken.pictures] == ["not_an_image"] * 3
    assert [picture.panel.reason for picture in missing.pictures] == ["missing"] * 3
    assert (broken.status, missing.status) == ("1024: not_an_image", "1024: missing")


def test_a_picture_that_its_child_does_not_survive_says_so(boxes, pool, monkeypatch):
    monkeypatch.setattr("sidecar_cli.overlay_rows._DRAW_TIMEOUT_S", 1e-5)
    (shown,) = sample_overlays(boxes.source(), [RowPlace("deep/part-0.parquet", 0)], isolation=pool)
    assert {picture.panel.reason for picture in shown.pictures} == {"timeout"}
    assert all(picture.panel.content.startswith(b"\x89PNG") for picture in shown.pictures)


def test_a_resized_dataset_without_the_shard_and_a_sidecar_without_it(boxes, pool):
    (boxes.root / "r512/deep/part-0.parquet").unlink()
    (boxes.root / "crop/deep/part-0.parquet").unlink()
    (shown,) = sample_overlays(boxes.source(), [RowPlace("deep/part-0.parquet", 0)], isolation=pool)
    assert [picture.panel.reason for picture in shown.pictures] == [None, "no_such_shard", None]
    assert shown.pictures[2].notes == ("not in the sidecar",)


@pytest.mark.parametrize("meta", [5, "text", [1], {"status": 5}, {"target_512": 5}, {"target_512": {"clipped": "x"}}])
def test_a_sidecar_whose_counts_are_no_counts_is_shown_without_them(boxes, pool, meta):
    path = boxes.root / "crop/deep/part-0.parquet"
    table = pq.read_table(path).drop_columns(["bbox_resize_meta"])
    pq.write_table(table.append_column("bbox_resize_meta", pa.array([meta] * table.num_rows)), path)
    (shown,) = sample_overlays(boxes.source(), [RowPlace("deep/part-0.parquet", 0)], isolation=pool)
    assert [len(picture.boxes) for picture in shown.pictures] == [1, 1, 1]


def test_a_sidecar_with_a_column_twice_is_named(boxes, sidecar_here):
    path = boxes.root / "crop/deep/part-0.parquet"
    table = pq.read_table(path)
    name = "structured_description_crop_512"
    pq.write_table(table.append_column(name, table.column(name)), path)
    done = sidecar_here("overlay", boxes.root / "crop", *boxes.flags, "--row", "deep/part-0.parquet:0")
    assert (done.returncode, f"part-0.parquet: 2 columns '{name}'" in done.stderr) == (1, True), done.stderr


def test_resized_datasets_may_be_given_as_other_commands_take_them(sidecar_here, tmp_path):
    (tmp_path / "main").mkdir()
    for flag in ("--resized", "--target"):
        done = sidecar_here("overlay", "--main-prefix", "main", flag, "512")
        assert (done.returncode, "'512' is not AREA=PREFIX" in done.stderr) == (2, True), done.stderr


def test_only_the_row_groups_of_the_rows_are_read(boxes, sidecar_here):
    path = boxes.main / "deep/part-0.parquet"
    metadata = pq.ParquetFile(path).metadata
    index = metadata.schema.names.index("image")
    chunk = metadata.row_group(2).column(index)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start : start + 64] = bytes(64)
    path.write_bytes(damaged)
    arguments = ["overlay", boxes.root / "crop", *boxes.flags, "-o", "o.html", "--row"]
    assert sidecar_here(*arguments, "deep/part-0.parquet:3").returncode == 0
    failed = sidecar_here(*arguments, "deep/part-0.parquet:4")
    assert failed.returncode == 1
    assert "deep/part-0.parquet: unreadable" in failed.stderr


# the page


def test_the_page_shows_every_picture_and_takes_all_text_as_text(boxes, sidecar, chromium_page, images_shown):
    done = sidecar("overlay", boxes.root / "crop", *boxes.flags, "--sample", "10", "-o", "a page ü.html")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "rows drawn: 10/10"
    page = chromium_page
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto((boxes.root / "a page ü.html").as_uri())
    assert images_shown(page) == [True] * 30
    assert page.locator("h2").all_inner_texts() == [*(f"{row}.jpg" for row in range(8)), HOSTILE_KEY, "null.jpg"]
    labels = page.locator("li bdi").all_inner_texts()
    assert labels == ["red square"] * 21 + [HOSTILE_LABEL] * 4  # the last of a row without a picture
    assert page.locator(".caption").nth(8).inner_text() == HOSTILE_CAPTION.replace("\u202e", "\\u202e")
    assert page.title() == "Boxes: a page ü"
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.querySelectorAll('a, b:not(li b), style').length") == 1  # its own style
    assert page.evaluate("getComputedStyle(document.body).display") != "none"
    assert dialogs == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
def test_the_page_fits_narrow_and_wide_screens_light_and_dark(boxes, sidecar_here, chromium_page, width, scheme):
    assert sidecar_here("overlay", boxes.root / "crop", *boxes.flags, "--sample", "4", "-o", "o.html").returncode == 0
    page = chromium_page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((boxes.root / "o.html").as_uri())
    page.evaluate("document.querySelector('h2').textContent = 'k'.repeat(400)")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    tops = page.evaluate("[...document.querySelectorAll('.row:first-child figure')].map(f => f.offsetTop)")
    assert len(tops) == 3
    assert len(set(tops)) == (3 if width == 390 else 1)  # below, or beside each other
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert (brightness(ground) > brightness(ink)) == (scheme == "light")


def test_a_picture_can_be_enlarged_without_a_script(boxes, sidecar_here, chromium_page):
    done = sidecar_here("overlay", boxes.root / "crop", *boxes.flags, "--key", "3.jpg", "-o", "o.html")
    assert done.returncode == 0, done.stderr
    page = chromium_page
    page.goto((boxes.root / "o.html").as_uri())
    picture = page.locator("img").nth(2)
    before = picture.bounding_box()["width"]
    picture.click()
    assert picture.bounding_box()["width"] > 1.5 * before
    picture.click()
    assert picture.bounding_box()["width"] == before


def brightness(css):
    return sum(int(part) for part in css.removeprefix("rgb(").rstrip(")").split(","))


# what comes from where


def test_json_says_what_is_shown(boxes, sidecar_here):
    done = sidecar_here("overlay", boxes.root / "crop", *boxes.flags, "--key", "0.jpg", "--key", "7.jpg", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert Path(report["output"]) == boxes.root / "overlay.html"
    assert [(row["key"], row["shard"], row["row"]) for row in report["rows"]] == [
        ("0.jpg", "deep/part-0.parquet", 0),
        ("7.jpg", "deep/part-1.parquet", 2),
    ]
    original, target, _ = report["rows"][0]["pictures"]
    assert original["boxes"] == [{"label": "red square", "box_yxyx_1000": [250, 250, 750, 750]}]
    assert (original["width"], original["height"], target["notes"]) == (640, 420, ["2 clipped"])
    assert report["rows"][1]["pictures"][0]["boxes"][0]["label"] == HOSTILE_LABEL


def test_pngs_side_by_side_in_a_new_folder(boxes, pool, sidecar_here):
    arguments = ["overlay", boxes.root / "crop", *boxes.flags, "--sample", "10", "-o", "shown"]
    done = sidecar_here(*arguments)
    assert done.returncode == 0, done.stderr
    files = sorted((boxes.root / "shown").iterdir())
    assert len(files) == 10
    assert files[0].name == "001-0.jpg.png"
    assert all(path.name[:3].isdigit() and "<" not in path.name and path.suffix == ".png" for path in files)
    seen = pool.call(look_at, (files[0].read_bytes(), []))
    assert seen.width == 640 + 640 + 1024 + 4 * 16
    again = sidecar_here(*arguments)
    assert again.returncode == 3
    assert "not an empty folder" in again.stderr


def test_the_original_alone_without_boxes_or_with_a_struct_of_them(boxes, sidecar_here):
    path = boxes.main / "deep/part-0.parquet"
    table = pq.read_table(path).drop_columns(["caption"])
    value = [{"objects": [{"label": "s", "bbox": [1, 2, 300, 400]}]}] * 5
    pq.write_table(table.set_column(2, "structured_description", pa.array(value)), path)
    second = boxes.main / "deep/part-1.parquet"
    pq.write_table(pq.read_table(second).drop_columns(["structured_description"]), second)
    done = sidecar_here("overlay", "--main-prefix", boxes.main, "--sample", "10", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {len(row["pictures"]) for row in rows} == {1}
    assert rows[0]["pictures"][0]["boxes"] == [{"label": "s", "box_yxyx_1000": [1, 2, 300, 400]}]
    assert rows[6]["pictures"][0]["notes"] == ["no column structured_description"]
    resized = sidecar_here("overlay", *boxes.flags, "--key", "1.jpg", "--json")
    assert json.loads(resized.stdout)["rows"][0]["pictures"][1]["notes"] == ["boxes not moved: no sidecar named"]


def test_the_manifest_of_the_last_run_tells_the_main_dataset_and_the_resized_ones(boxes, sidecar_here):
    runs = boxes.root / "crop/_sidecar/runs"
    runs.mkdir(parents=True)
    crop = {"type": "crop_structured_description", "resized": {side: str(boxes.root / f"r{side}") for side in SIZES}}
    dataset = {"main_prefix": str(boxes.main), "key_column": "image_key", "image_column": "image", "storage": {}}
    (runs / "1.json").write_text(json.dumps({"dataset": dataset, "pipeline": {"operations": [crop]}}))
    done = sidecar_here("overlay", "crop", "--key", "2.jpg", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report["sources"]) == ["main dataset", "512 dataset", "1024 dataset", "moved boxes"]
    assert [len(picture["boxes"]) for picture in report["rows"][0]["pictures"]] == [1, 1, 1]


def test_a_pipeline_tells_everything_from_build_to_overlay(boxes, sidecar_here):
    root = boxes.root
    for side in SIZES:
        verified = sidecar_here("verify-resized", "--main-prefix", boxes.main, f"--target={side}={root / f'r{side}'}")
        assert verified.returncode == 0, verified.stderr
    (root / "configs").mkdir()
    (root / "configs/team.yaml").write_text(
        f'name: team\nmain_prefix: "../{MAIN}"\nsidecar_prefix: ../boxes\nkey_column: image_key\nimage_column: image\n',
        encoding="utf-8",
    )
    pipeline = root / "configs/boxes.yaml"
    pipeline.write_text(
        "dataset: team.yaml\noperations:\n  - type: crop_structured_description\n"
        "    resized: {512: ../r512, 1024: ../r1024}\n"
    )
    shown = ["overlay", pipeline, "--sample", "10", "--json"]
    early = sidecar_here(*shown)
    assert (early.returncode, "--output-prefix" in early.stderr) == (2, True)
    for arguments in (["run", pipeline, "--output-prefix", root / "boxes"], ["verify", pipeline]):
        done = sidecar_here(*arguments)
        assert done.returncode == 0, done.stderr
    done = sidecar_here(*shown)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [[len(picture["boxes"]) for picture in row["pictures"]] for row in rows[:8]] == [[1, 1, 1]] * 8
    assert {row["status"] for row in rows[:8]} == {"ok"}
    assert [row["status"] for row in rows[8:]] == ["no_description", "512: missing"]
    target = rows[0]["pictures"][1]
    assert (target["width"], target["height"]) == (640, 416)
    assert target["boxes"][0]["box_yxyx_1000"] == [248, 250, 752, 750]  # two of 420 rows were cut at the top
    # the sidecar alone tells as much
    alone = sidecar_here("overlay", root / "boxes", "--sample", "10", "--json")
    assert json.loads(alone.stdout)["rows"] == rows


def test_rows_out_of_line_end_with_1_and_name_shard_row_and_both_keys(boxes, sidecar_here):
    path = boxes.root / "r512/deep/part-1.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take([0, 2, 1, 3, 4]), path)
    arguments = ["overlay", boxes.root / "crop", *boxes.flags, "-o", "o.html", "--row"]
    assert sidecar_here(*arguments, "deep/part-1.parquet:0").returncode == 0
    done = sidecar_here(*arguments, "deep/part-1.parquet:1")
    assert done.returncode == 1
    for words in ("deep/part-1.parquet row 1", "'6.jpg' in the main shard", "'7.jpg' at", str(boxes.root / "r512")):
        assert words in done.stderr
    pq.write_table(table.slice(1), path)
    shorter = sidecar_here(*arguments, "deep/part-1.parquet:1")
    assert (shorter.returncode, "5 rows in the main shard, 4 in" in shorter.stderr) == (1, True)
    assert not list(boxes.root.glob(".o.html*"))  # nothing half written is left


def test_a_sample_is_the_same_for_a_seed_and_from_all_shards(boxes):
    source = boxes.source()
    chosen = choose_rows(source, 4, seed=5)
    assert chosen == choose_rows(source, 4, seed=5)
    assert {place.rel_path for place in chosen} == {"deep/part-0.parquet", "deep/part-1.parquet"}
    assert len({choose_rows(source, 4, seed=seed)[0].row for seed in range(8)}) > 1
    everything = choose_rows(source, 1000)
    assert everything == [RowPlace(f"deep/part-{shard}.parquet", row) for shard in range(2) for row in range(5)]
    (boxes.root / "crop/deep/part-0.parquet").unlink()
    assert {place.rel_path for place in choose_rows(source, 1000)} == {"deep/part-1.parquet"}


def test_a_sidecar_of_another_main_dataset(boxes, sidecar_here):
    for path in (boxes.root / "crop/deep").iterdir():
        path.rename(path.with_name(f"other-{path.name}"))
    done = sidecar_here("overlay", boxes.root / "crop", *boxes.flags)
    assert (done.returncode, "has none of 2 shards" in done.stderr) == (2, True)


def test_keys_of_numbers_and_of_bytes_are_found(tmp_path):
    for name, keys, wanted in (
        ("numbers", pa.array([7, None, 9], pa.int32()), "9"),
        ("bytes", pa.array([b"a", None, "größe".encode()], pa.large_binary()), "größe"),
        ("words", pa.array(["a", None, "b"]).dictionary_encode(), "b"),
    ):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"image_key": keys, "image": [b"x"] * 3}), tmp_path / name / "part-0.parquet")
        source = OverlaySource(open_storage(str(tmp_path / name), StorageOptions()), "image_key", "image")
        assert find_rows(source, [wanted, wanted]) == [RowPlace("part-0.parquet", 2)]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "there is nothing to show"),
        (["crop"], 2, "--main-prefix"),
        (["crop", "FLAGS", "--key", "nobody.jpg"], 2, "has the key 'nobody.jpg'"),
        (["crop", "FLAGS", "--row", "deep/part-0.parquet"], 2, "not SHARD:ROW"),
        (["crop", "FLAGS", "--row", "deep/part-0.parquet:5"], 2, "the shard has 5 rows"),
        (["crop", "FLAGS", "--row", "part-9.parquet:5"], 2, "no shard 'part-9.parquet'"),
        (["crop", "FLAGS", "--sample", "0"], 2, "at least 1"),
        (["crop", "FLAGS", "--max-side", "0"], 2, "at least 32"),
        (["crop", "FLAGS", "--resized", "x=y"], 2, "--resized x=y"),
        (["crop", "FLAGS", "--output-prefix", "x"], 2, "for a pipeline YAML"),
        (["crop", "FLAGS", "-o", "s3://b/o.html"], 2, "local file or folder"),
        (["crop", "FLAGS", "-o", "main ü=1/deep/o.html"], 3, "lies in the main dataset"),
        (["crop", "FLAGS", "-o", "r512/o"], 3, "lies in the 512 dataset"),
        (["crop", "FLAGS", "-o", "main ü=1"], 3, "lies in the main dataset"),
        (["crop", "FLAGS", "--image-column", "picture"], 1, "no column 'picture'"),
        (["crop", "FLAGS", "--key-column", "name"], 1, "no column 'name'"),
        (["elsewhere", "FLAGS"], 2, "no shards at"),
        (["no_such_folder"], 2, "nothing is at"),
        (["crop", "FLAGS", "--resized", "64=elsewhere"], 2, "--resized 64=PREFIX"),
        (["crop", "FLAGS", "--input-subprefix", "flat/"], 2, "no shards at"),
        (["missing.yaml"], 2, "missing.yaml"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_refused_with_words(boxes, sidecar_here, arguments, status, said):
    given = [part for argument in arguments for part in (boxes.flags if argument == "FLAGS" else [argument])]
    done = sidecar_here("overlay", *given)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_neither_help_nor_a_drawn_page_loads_an_image_library(boxes):
    code = (
        "import sys\nfrom sidecar_cli.main import main\nstatus = main(sys.argv[1:])\n"
        "print([name for name in ('PIL', 'cv2', 'pyarrow') if name in sys.modules], file=sys.stderr)\nsys.exit(status)"
    )
    for arguments, loaded in (
        (["overlay", "--help"], "[]"),
        (["overlay", boxes.root / "crop", *boxes.flags, "-o", boxes.root / "o.html"], "['pyarrow']"),
    ):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (0, loaded)
