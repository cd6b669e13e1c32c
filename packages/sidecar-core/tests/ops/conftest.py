from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.pipeline import build_pipeline
from sidecar_core.plan import plan_run
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.engine import run_every_shard
from sidecar_core.testing.example_dataset import example_dataset, example_table

SHARD = "a b/part-0.parquet"


@pytest.fixture(autouse=True)
def index_cache(tmp_path, monkeypatch):
    """A cache of indexes of each test's own."""
    monkeypatch.setenv("SIDECAR_CACHE_DIR", str(tmp_path / "cache"))


class MergeFolders:
    """A main dataset, a sibling of it and an output, in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.sibling_prefix = f"{folder}/sibling/"

    def write(self, kind, table, rel_path=SHARD, **options):
        path = self.folder / kind / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        return path

    def main(self, rows=10, rel_path=SHARD, **options):
        self.write("main", example_table(rows), rel_path, **options)

    def sibling(self, columns, rel_path=SHARD, *, keys=None, **options):
        rows = len(next(iter(columns.values())))
        keys = pa.array([f"key-{row}" for row in range(rows)], pa.string()) if keys is None else keys
        return self.write("sibling", pa.table({"image_key": keys, **columns}), rel_path, **options)

    def pipeline(self, *, before=(), after=(), extensions=(), carry=(), plugins=(), **params):
        dataset = example_dataset(
            main_prefix=f"{self.folder}/main/",
            sidecar_prefix=f"{self.folder}/out/",
            schema_extensions=list(extensions),
            carry_columns=list(carry),
        )
        merge = {"type": "merge_from_sidecar", "source_prefix": self.sibling_prefix, **params}
        return build_pipeline(dataset, [*before, merge, *after], plugins=plugins)

    def run(self, **options):
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        pipeline = self.pipeline(**options)
        run_every_shard(pipeline, {pipeline.outputs[0].name: f"{self.folder}/out"}, workers=1)
        return read_dataset(self.folder / "out")

    def plan(self, **options):
        pipeline = self.pipeline(**options)
        main = open_storage(f"{self.folder}/main/")
        return plan_run(pipeline, main, main.list_shards(), {pipeline.outputs[0].name: f"{self.folder}/out/"})


@pytest.fixture
def folders(tmp_path):
    """What `merge_from_sidecar` needs; its methods write it, plan it and run it."""
    return MergeFolders(tmp_path)
