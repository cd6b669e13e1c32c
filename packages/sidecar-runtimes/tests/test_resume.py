from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import RefusedError
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run


def write(path, rows, start=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": pa.array(range(start, start + rows), pa.int64())}), path)


@pytest.fixture
def world(tmp_path):
    write_main(tmp_path / "main", {"a.parquet": [b"x"] * 3, "b.parquet": [b"y"] * 2})
    write(tmp_path / "ocr/a.parquet", 3)
    write(tmp_path / "ocr/b.parquet", 2)
    write(tmp_path / "table.parquet", 7)
    return tmp_path


@pytest.fixture
def pipeline(world, make_pipeline):
    return make_pipeline(
        [
            {"type": "copy_from_sibling", "source_prefix": f"{world}/ocr", "required": False},
            {"type": "count_source", "source": f"{world}/table.parquet"},
        ]
    )


def whys(pipeline, world):
    standings = prepare_run(pipeline, RunOptions(output_prefix=f"{world}/out")).standings
    return {standing.shard.rel_path: (standing.state.value, standing.why) for standing in standings}


def run(pipeline, world, **options):
    return execute_run(prepare_run(pipeline, RunOptions(output_prefix=f"{world}/out", workers=2, **options)))


def test_what_was_made_from_other_inputs_is_stale_and_made_again(world, pipeline):
    assert run(pipeline, world).ok
    assert set(whys(pipeline, world).values()) == {("done", "")}
    write(world / "ocr/b.parquet", 2, start=50)
    assert whys(pipeline, world) == {
        "a.parquet": ("done", ""),
        "b.parquet": ("stale", f"the sibling's shard {world}/ocr/b.parquet changed"),
    }
    with pytest.raises(RefusedError, match=r"stale: 1 of 2 shards there(.|\n)*ocr/b\.parquet changed"):
        run(pipeline, world, skip_existing=True)
    assert run(pipeline, world, skip_existing=True, redo_stale=True).shards["done"] == 1
    assert read_dataset(world / "out")["b.parquet"].column("value").to_pylist() == [50, 51]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda world: (world / "ocr/a.parquet").unlink(), "is gone"),
        (lambda world: write(world / "table.parquet", 9), "table.parquet changed"),
    ],
    ids=["sibling gone", "source"],
)
def test_each_kind_of_change_is_said(world, pipeline, change, why):
    assert run(pipeline, world).ok
    change(world)
    state, said = whys(pipeline, world)["a.parquet"]
    assert state == "stale"
    assert why in said


def test_a_sibling_that_appears_later_makes_its_shard_stale(world, pipeline):
    (world / "ocr/a.parquet").rename(world / "away")
    assert run(pipeline, world).ok
    assert set(whys(pipeline, world).values()) == {("done", "")}
    (world / "away").rename(world / "ocr/a.parquet")
    assert whys(pipeline, world)["a.parquet"][0] == "stale"
    assert whys(pipeline, world)["b.parquet"][0] == "done"


@pytest.fixture
def elsewhere(world, make_pipeline):
    return make_pipeline(
        [
            {"type": "copy_from_sibling", "source_prefix": f"{world}/other", "required": False},
            {"type": "count_source", "source": f"{world}/other.parquet"},
        ]
    )


def test_what_was_moved_or_copied_makes_nothing_stale(world, pipeline, elsewhere):
    assert run(pipeline, world).ok
    shutil.copytree(world / "ocr", world / "other", copy_function=shutil.copyfile)
    (world / "table.parquet").rename(world / "other.parquet")
    assert set(whys(elsewhere, world).values()) == {("done", "")}


def test_other_content_elsewhere_is_stale_and_both_places_are_said(world, pipeline, elsewhere):
    assert run(pipeline, world).ok
    shutil.copytree(world / "ocr", world / "other")
    write(world / "other/a.parquet", 3, start=1)
    write(world / "other.parquet", 7, start=1)
    said = {rel_path: why for rel_path, (_, why) in whys(elsewhere, world).items()}
    assert said == {
        "a.parquet": f"the sibling's shard {world}/other/a.parquet is another one than {world}/ocr/a.parquet",
        "b.parquet": f"{world}/other.parquet is another one than {world}/table.parquet",
    }


def test_two_sources_that_change_places_make_shards_stale(world, make_pipeline):
    for name, text in (("one", "of one"), ("two", "of two")):
        pq.write_table(pa.table({"image_key": ["key-0"], "text": [text]}), world / f"{name}.parquet")

    def recaption(*files):
        sources = [
            {"name": name, "source": f"{world}/{file}.parquet", "text_column": "text"}
            for name, file in zip("ab", files, strict=True)
        ]
        return make_pipeline([{"type": "recaption_merge", "sources": sources}])

    assert run(recaption("one", "two"), world).ok
    assert whys(recaption("one", "two"), world)["a.parquet"] == ("done", "")
    why = f"{world}/two.parquet is another one than {world}/one.parquet"
    assert whys(recaption("two", "one"), world)["a.parquet"] == ("stale", why)


def test_two_siblings_that_change_places_make_shards_stale(world, make_pipeline):
    for name, value in (("x", 1), ("y", 2)):
        for rel_path in ("a.parquet", "b.parquet"):
            keys = pq.read_table(world / "main" / rel_path).column("image_key")
            path = world / name / rel_path
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.table({"image_key": keys, "n": [value] * len(keys), "m": [value] * len(keys)}), path)

    def merge(*prefixes):
        return make_pipeline(
            [
                {"type": "merge_from_sidecar", "source_prefix": f"{world}/{prefix}", "columns": [column]}
                for prefix, column in zip(prefixes, "nm", strict=True)
            ]
        )

    assert run(merge("x", "y"), world).ok
    assert whys(merge("x", "y"), world)["a.parquet"] == ("done", "")
    assert whys(merge("y", "x"), world)["a.parquet"][0] == "stale"
    assert whys(merge("x", "x"), world)["a.parquet"][0] == "stale"


@pytest.mark.parametrize("prefix", ["ocr", "ocr/inside", "table.parquet"])
def test_an_output_never_touches_what_an_op_reads(world, pipeline, prefix):
    with pytest.raises(RefusedError, match="holds or lies in a source of"):
        prepare_run(pipeline, RunOptions(output_prefix=f"{world}/{prefix}"))
