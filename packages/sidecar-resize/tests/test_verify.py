"""The verifier of resized datasets, on datasets that the op made and that were then broken."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import ShardError, UsageError
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.op import OpContext
from sidecar_core.proof import read_receipt
from sidecar_core.storage import open_storage
from sidecar_core.testing.example_dataset import example_dataset
from sidecar_resize.ops.resize_image import ResizeImage
from sidecar_resize.row_checks import ResizeRules
from sidecar_resize.shard_checks import ResizedColumns, Sample, find_audit_prefix
from sidecar_resize.testing.pictures import encoded, exif_block, jpeg_with_exif, scene
from sidecar_resize.verify import verify_resized

GOOD = encoded(scene(320, 240), "JPEG")
PICTURES = [GOOD, None, GOOD[:500], encoded(scene(100, 150), "PNG"), b"<html>", GOOD]
PREFIX = "0_26mp_process"
RULES = ResizeRules(area_px=512 * 512)


@pytest.fixture(scope="module")
def pool():
    with IsolationPool(IsolationOptions(workers=2)) as children:
        yield children


@pytest.fixture(scope="module")
def resized_table(pool):
    main = pa.table({"key": [f"k{row}" for row in range(6)], "image": pa.array(PICTURES, pa.binary())})
    dataset = replace(example_dataset(), key_column="key", image_column="image")
    op = ResizeImage(ResizeImage.Params(targets=[{"area": 512, "column": "made"}]))
    with ExitStack() as scope:
        table = op.apply(main, OpContext(dataset, "a.parquet", 0, pool, {}, main.num_rows, scope))
    return table.drop_columns(["image"]).rename_columns({"made": "image"})


@pytest.fixture
def datasets(tmp_path, resized_table):
    """Writes two shards of main and output; returns a function that rewrites one shard of the output."""
    main, output = tmp_path / "main", tmp_path / "resized"

    def write(table, name="part-1.parquet"):
        pq.write_table(table, output / name, row_group_size=4)

    for folder in (main, output):
        folder.mkdir()
    for name in ("part-0.parquet", "part-1.parquet"):
        keys = resized_table.column("key")
        pq.write_table(pa.table({"key": keys, "image": pa.array(PICTURES, pa.binary())}), main / name)
        write(resized_table, name)
    return tmp_path, write


def verify(folder, pool, **options):
    main, output = (open_storage(f"{folder}/{name}/", StorageOptions()) for name in ("main", "resized"))
    return verify_resized(
        main, output, **{"columns": ResizedColumns("key"), "isolation": pool, "rules": RULES, **options}
    )


def changed(table, name, row, value):
    column = table.column(name).to_pylist()
    column[row] = value
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), pa.array(column, table.schema.field(index).type))


def test_a_good_dataset_passes_and_leaves_a_receipt(datasets, pool):
    folder, _ = datasets
    report = verify(folder, pool, sample=Sample(rows=None))
    assert report.ok
    assert (report.main_shards, report.output_shards, report.checked_shards, report.all_shards) == (2, 2, 2, True)
    assert (report.rows, report.checked_rows, report.valid) == (12, 12, 6)
    assert report.invalid == {"missing": 2, "truncated": 2, "not_an_image": 2}
    assert report.main_bytes > 0 < report.output_bytes
    assert [example.row for example in report.examples["truncated"]] == [2, 2]
    assert report.examples["not_an_image"][0].detail == "an HTML page"
    output = open_storage(f"{folder}/resized/", StorageOptions())
    receipt = read_receipt(output, "verify-resized")
    assert receipt.passed
    assert receipt.all_shards
    assert receipt.covers(output.list_shards())
    assert json.loads((folder / "resized/_sidecar/verify-resized.json").read_text())["checked_rows"] == 12


def test_what_was_found_is_returned_where_no_receipt_can_be_left(datasets, pool, caplog):
    folder, _ = datasets
    (folder / "resized/_sidecar/verify-resized.json").mkdir(parents=True)
    report = verify(folder, pool, sample=Sample(rows=1))
    assert (report.ok, report.rows) == (True, 12)
    (said,) = caplog.messages
    assert said.startswith("no receipt is left: ")


def test_samples_follow_the_seed_and_say_what_they_cover(datasets, pool):
    folder, _ = datasets
    report = verify(folder, pool, sample=Sample(shards=1, rows=2, seed=3))
    assert (report.checked_shards, report.all_shards, report.rows, report.checked_rows) == (1, False, 6, 2)
    assert report == verify(folder, pool, sample=Sample(shards=1, rows=2, seed=3))
    receipt = read_receipt(open_storage(f"{folder}/resized/"), "verify-resized")
    assert (receipt.checked_shards, receipt.all_shards, receipt.checked_rows, receipt.seed) == (1, False, 2, 3)


def test_a_shard_that_is_wrong_throughout_is_told_in_a_few_words(datasets, resized_table, pool):
    folder, write = datasets
    many = pa.concat_tables([resized_table] * 200)
    write(many)
    pq.write_table(many.select(["key"]), folder / "main/part-1.parquet")
    report = verify(folder, pool, rules=ResizeRules(area_px=1024 * 1024))
    found = [problem for problem in report.problems if problem.rel_path == "part-1.parquet"]
    assert len(found) == 101
    assert re.search(r"rows failed [1-9]\d+ more checks", found[-1].message)


def test_an_omitted_invalid_row_is_an_error(datasets, resized_table, pool):
    folder, write = datasets
    write(resized_table.filter(resized_table.column(f"{PREFIX}_valid")))
    report = verify(folder, pool)
    assert [problem.kind for problem in report.problems] == ["misaligned"]
    assert not report.ok


@pytest.mark.parametrize(
    ("name", "row", "value", "said"),
    [
        ("key", 0, "other", "part-1.parquet"),
        ("image", 0, b"no picture", "does not decode"),
        ("image", 0, GOOD, "the image is jpeg, not webp"),
        ("image", 0, None, "valid, and has no image"),
        ("image", 1, b"something", "invalid, and has an image"),
        (f"{PREFIX}_width", 0, 640, "and the audit says 640 x 448"),
        (f"{PREFIX}_width", 0, 1216, "is not within 10 % of 262144 px"),
        (f"{PREFIX}_width", 0, 600, "no multiple of 32"),
        (f"{PREFIX}_output_bytes", 0, 1, "and the audit says 1"),
        (f"{PREFIX}_crop_loss", 0, 0.2, "crop_loss is 0.2"),
        (f"{PREFIX}_source_height", 0, 1000, "lost"),
        (f"{PREFIX}_crop_top", 0, 30, "reaches out of"),
        (f"{PREFIX}_reason", 0, "truncated", "valid, and has the reason"),
        (f"{PREFIX}_reason", 1, "bad luck", "none of the list"),
        (f"{PREFIX}_valid", 1, None, "valid is null"),
        (f"{PREFIX}_height", 0, None, "height is null"),
        (f"{PREFIX}_height", 0, 0, "a side has no pixel"),
        (f"{PREFIX}_upscaled", 0, None, "upscaled is null"),
        (f"{PREFIX}_output_bytes", 0, None, "output_bytes is null"),
        (f"{PREFIX}_resized_height", 0, 912, "320 x 240 covers 608 x 448 as 608 x 456, and the audit says 608 x 912"),
        (f"{PREFIX}_resized_height", 0, 457, "and the audit says 608 x 457"),
        (f"{PREFIX}_resized_width", 0, 609, "and the audit says 609 x 456"),
        (f"{PREFIX}_crop_top", 0, 0, "the crop is at 0, 0, and the middle is at 0, 4"),
        (f"{PREFIX}_upscaled", 0, False, "320 x 240 became 608 x 448, and upscaled is False"),
        (f"{PREFIX}_orientation", 0, 9, "orientation is 9"),
        (f"{PREFIX}_source_bytes", 0, None, "valid, and source_bytes is null"),
        (f"{PREFIX}_reason", 1, "truncated", "invalid with the reason 'truncated', and source_bytes is null"),
        (f"{PREFIX}_reason", 2, "missing", "invalid with the reason 'missing', and source_bytes is 500"),
        (f"{PREFIX}_reason", 2, "empty", "invalid with the reason 'empty', and source_bytes is 500"),
        (f"{PREFIX}_reason", 2, "too_small", "invalid with the reason 'too_small', and crop_loss is null"),
        (f"{PREFIX}_width", 1, 512, "invalid, and width is 512"),
        (f"{PREFIX}_upscaled", 1, False, "invalid, and upscaled is False"),
    ],
)
def test_what_is_wrong_in_a_row_is_found(datasets, resized_table, pool, name, row, value, said):
    folder, write = datasets
    write(changed(resized_table, name, row, value))
    report = verify(folder, pool, sample=Sample(rows=None))
    assert any(said in problem.message for problem in report.problems), report.problems
    assert {problem.rel_path for problem in report.problems} == {"part-1.parquet"}


def test_a_moved_crop_that_still_fits_is_found(datasets, resized_table, pool):
    """Boxes follow these columns, so that a crop inside the scaled picture is not good enough."""
    folder, write = datasets
    write(changed(changed(resized_table, f"{PREFIX}_resized_width", 0, 708), f"{PREFIX}_crop_left", 0, 50))
    (problem,) = verify(folder, pool).problems
    assert problem.message.endswith("row 0: 320 x 240 covers 608 x 448 as 608 x 456, and the audit says 708 x 456")


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [
        (f"{PREFIX}_resized_height", 5, 912),
        (f"{PREFIX}_upscaled", 5, False),
        (f"{PREFIX}_reason", 4, "missing"),
        (f"{PREFIX}_valid", 4, None),
    ],
)
def test_what_contradicts_itself_is_found_in_rows_outside_the_sample_too(
    datasets, resized_table, pool, name, row, value
):
    folder, write = datasets
    write(changed(resized_table, name, row, value))
    report = verify(folder, pool, sample=Sample(rows=0))
    assert report.checked_rows == 0
    assert {(problem.rel_path, problem.row) for problem in report.problems} == {("part-1.parquet", row)}


def test_images_outside_the_sample_are_counted_where_the_file_counts_them(datasets, resized_table, pool):
    folder, write = datasets
    write(changed(resized_table, "image", 4, b"something"))
    (problem,) = verify(folder, pool, sample=Sample(rows=0)).problems
    assert problem.message == "part-1.parquet rows 4 to 5: 1 row invalid, and 0 rows without an image"
    pq.write_table(resized_table, folder / "resized/part-1.parquet", write_statistics=False)
    assert verify(folder, pool, sample=Sample(rows=0)).ok


def test_a_decoded_row_brings_its_neighbours_images_into_view(datasets, resized_table, pool):
    folder, write = datasets
    images = resized_table.column("image").to_pylist()
    write(changed(resized_table, "image", 3, images[3] + b"\0"))
    found = [
        {problem.row for problem in verify(folder, pool, sample=Sample(rows=1, seed=seed)).problems}
        for seed in range(8)
    ]
    assert {3} in found  # the first row group has rows 0 to 3; of the second, only metadata is read
    assert all(rows <= {3} for rows in found)


@pytest.mark.parametrize("resized_height", [456, 457])
def test_half_a_pixel_may_be_rounded_either_way(datasets, resized_table, pool, resized_height):
    folder, write = datasets
    table = changed(changed(resized_table, f"{PREFIX}_source_width", 0, 1216), f"{PREFIX}_source_height", 0, 913)
    table = changed(changed(table, f"{PREFIX}_crop_loss", 0, 1 - 448 / 456.5), f"{PREFIX}_upscaled", 0, False)
    write(changed(table, f"{PREFIX}_resized_height", 0, resized_height))
    assert not verify(folder, pool, sample=Sample(rows=0)).problems


@pytest.mark.parametrize(
    ("size", "params"),
    [
        ((320, 240), {"no_upscale": True}),
        ((2000, 100), {}),
        ((4000, 200), {"max_crop_loss": 0.01}),
        ((900, 700), {"patch": 64, "output_format": "png"}),
        ((901, 600), {"output_format": "jpeg"}),
        ((1, 1), {}),
        ((3, 4), {}),
    ],
)
@pytest.mark.parametrize("area", [128, 512, 1024])
def test_what_the_op_makes_passes(tmp_path, pool, size, params, area):
    whole = encoded(scene(*size), "JPEG")
    turned = jpeg_with_exif(scene(*size), exif_block(6))
    pictures = [whole, turned, whole[: len(whole) * 9 // 10], whole[:-2], b"", None, b"BM is text"]
    main = pa.table({"key": [str(row) for row in range(len(pictures))], "image": pa.array(pictures, pa.binary())})
    op = ResizeImage(ResizeImage.Params(targets=[{"area": area, "column": "made"}], accept_truncated=0.2, **params))
    with ExitStack() as scope:
        dataset = replace(example_dataset(), key_column="key", image_column="image")
        table = op.apply(main, OpContext(dataset, "a.parquet", 0, pool, {}, main.num_rows, scope))
    for name, written in {
        "main": main,
        "resized": table.drop_columns(["image"]).rename_columns({"made": "image"}),
    }.items():
        (tmp_path / name).mkdir()
        pq.write_table(written, tmp_path / name / "a.parquet")
    rules = ResizeRules(
        area_px=area * area,
        **{name: params[name] for name in ("patch", "output_format") if name in params},
    )
    assert not verify(tmp_path, pool, rules=rules, sample=Sample(rows=None)).problems


def test_shards_that_are_missing_surplus_unreadable_or_of_another_schema_are_named(datasets, resized_table, pool):
    folder, write = datasets
    write(resized_table.append_column("more", pa.nulls(6, pa.int32())))
    (folder / "resized/surplus.parquet").write_bytes(b"")
    (folder / "main/lost.parquet").write_bytes((folder / "main/part-0.parquet").read_bytes())
    report = verify(folder, pool)
    assert sorted(problem.kind for problem in report.problems) == ["missing", "schema", "surplus"]
    (folder / "resized/part-0.parquet").write_bytes(b"PAR1")
    assert "unreadable" in {problem.kind for problem in verify(folder, pool).problems}
    write(resized_table.drop_columns([f"{PREFIX}_detail"]))
    report = verify(folder, pool, columns=ResizedColumns("key", audit_prefix=PREFIX))
    assert any(f"column '{PREFIX}_detail' is missing" in problem.message for problem in report.problems)


def test_a_main_dataset_without_shards_is_refused(tmp_path, pool):
    for name in ("main", "resized"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="no shards"):
        verify(tmp_path, pool)


def test_the_audit_prefix_is_found_in_the_schema(resized_table):
    assert find_audit_prefix(resized_table.schema) == PREFIX
    with pytest.raises(ShardError, match="exactly one target"):
        find_audit_prefix(pa.schema([("key", pa.string())]))
