"""Side inputs on the runtimes, with the index that joins use."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import RefusedError, SidecarError
from sidecar_core.pipeline import build_pipeline
from sidecar_core.testing.datasets import read_dataset
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.ray_tasks import RayTaskRuntime
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

ROWS = 40
SHARDS = 6
SURPLUS = 100_000
TEXT_BYTES = 4_000


class Folder:
    """A main dataset of some shards, and a source with texts for each third key, in another order."""

    def __init__(self, path: Path, *, surplus: int = 0) -> None:
        self.path = path
        self.source = path / "texts.parquet"
        (path / "main").mkdir()
        self.keys = {f"part-{n}.parquet": [f"{n}/{row}" for row in range(ROWS)] for n in range(SHARDS)}
        for rel_path, keys in self.keys.items():
            pq.write_table(pa.table({"image_key": keys}), path / "main" / rel_path)
        self.texts = {key: f"text of {key}" for keys in self.keys.values() for key in keys[::3]}
        self.texts |= {f"surplus/{n}": f"{n}:".ljust(TEXT_BYTES, "x") for n in range(surplus)}
        self.write_source(self.texts)
        (path / "dataset.yaml").write_text(
            f"name: example\nmain_prefix: {path}/main/\nsidecar_prefix: {path}/yaml-out/\nkey_column: image_key\n"
        )

    def write_source(self, texts, *, twice=()):
        rows = [*texts.items(), *((key, "again") for key in twice)]
        random.Random(1).shuffle(rows)
        pq.write_table(pa.table({"id": [key for key, _ in rows], "text": [text for _, text in rows]}), self.source)

    def prepare(self, out="out", more=(), **options):
        join = {"type": "join_from_parquet", "source": str(self.source), "columns": ["text"], "source_key_column": "id"}
        plugins = ("sidecar_runtimes.testing.memory_ops",)
        pipeline = build_pipeline(load_dataset(self.path / "dataset.yaml"), [join, *more], plugins=plugins)
        return prepare_run(pipeline, RunOptions(output_prefix=str(self.path / out), workers=1, **options))

    def run(self, runtime, out="out", more=(), **options):
        return execute_run(self.prepare(out, more, **options), runtime=runtime, command=["test"])

    def check(self, out="out"):
        made = read_dataset(self.path / out)
        assert {rel_path: table.column("image_key").to_pylist() for rel_path, table in made.items()} == self.keys
        for rel_path, table in made.items():
            expected = [self.texts.get(key) for key in self.keys[rel_path]]
            assert table.column("text").to_pylist() == expected


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


RUNTIMES = [
    pytest.param(lambda: LocalRuntime(workers=1), id="local"),
    pytest.param(lambda: RayActorRuntime(num_actors=2), id="actor", marks=pytest.mark.ray),
]


@pytest.fixture(params=RUNTIMES)
def runtime(request):
    if "actor" in request.node.callspec.id:
        request.getfixturevalue("ray_cluster")
    return request.param()


def test_a_join_gives_the_rows_of_a_loop(folder, runtime):
    assert folder.run(runtime).ok
    folder.check()


def test_a_source_that_changes_after_planning_ends_the_run(folder, runtime):
    prepared = folder.prepare()
    folder.write_source({**folder.texts, "0/1": "new"})
    with pytest.raises(
        RefusedError, match=r"texts\.parquet changed since the run was planned(.|\n)*start the run again"
    ):
        execute_run(prepared, runtime=runtime, command=["test"])
    assert not list((folder.path / "out").glob("*.parquet"))


def test_a_source_that_is_gone_after_planning_ends_the_run(folder, runtime):
    prepared = folder.prepare()
    folder.source.unlink()
    with pytest.raises(SidecarError, match=r"texts\.parquet"):
        execute_run(prepared, runtime=runtime, command=["test"])
    assert not list((folder.path / "out").glob("*.parquet"))


def test_a_key_that_is_there_twice_ends_the_run(folder, runtime):
    folder.write_source(folder.texts, twice=["0/3"])
    with pytest.raises(SidecarError, match=r"0/3"):
        folder.run(runtime)
    assert not list((folder.path / "out").glob("*.parquet"))


def test_a_changed_source_makes_shards_stale(folder):
    assert folder.run(LocalRuntime(workers=1)).ok
    assert folder.run(LocalRuntime(workers=1), skip_existing=True).shards["skipped"] == SHARDS
    folder.texts = {**folder.texts, "0/1": "new"}
    folder.write_source(folder.texts)
    with pytest.raises(RefusedError, match=r"texts\.parquet changed"):
        folder.run(LocalRuntime(workers=1), skip_existing=True)
    assert folder.run(LocalRuntime(workers=1), skip_existing=True, redo_stale=True).shards["done"] == SHARDS
    folder.check()


@pytest.mark.ray
def test_tasks_refuse_before_anything_is_done(folder):
    with pytest.raises(NotImplementedError, match=r"'join_from_parquet' declares 'index'(.|\n)*--runtime actor"):
        folder.run(RayTaskRuntime())
    assert not list((folder.path / "out").glob("*.parquet"))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.usefixtures("ray_cluster")
def test_actors_share_one_index_and_hold_none_of_it_themselves(tmp_path, index_cache):
    """Both actors map the same file of 400 MB, and own hardly more memory than with an index of some KB."""
    told = {}
    for name, surplus in (("small", 0), ("large", SURPLUS)):
        (tmp_path / name).mkdir()
        folder = Folder(tmp_path / name, surplus=surplus)
        assert folder.run(LocalRuntime(workers=1), out="built").ok  # so that neither actor makes the index
        more = [{"type": "tell_memory", "told": str(folder.path / "told"), "processes": 2}]
        assert folder.run(RayActorRuntime(num_actors=2), more=more).ok
        folder.check()
        told[name] = [json.loads(path.read_text()) for path in (folder.path / "told").glob("*.json")]
    assert {name: len(each) for name, each in told.items()} == {"small": 2, "large": 2}
    one, other = ({path for path in each["mapped"] if path.startswith(str(index_cache))} for each in told["large"])
    assert one == other != set()
    index_bytes = SURPLUS * TEXT_BYTES
    assert sum(Path(path).stat().st_size for path in one) > index_bytes
    before = max(each["private_bytes"] for each in told["small"])
    after = max(each["private_bytes"] for each in told["large"])
    assert after - before < index_bytes / 4
