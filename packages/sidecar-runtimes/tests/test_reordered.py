"""A sidecar whose rows are in another order is found by whatever looks at it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import AlignmentError
from sidecar_core.pipeline import build_pipeline
from sidecar_core.reader import open_aligned
from sidecar_core.storage import open_storage
from sidecar_core.testing.engine import run_every_shard
from sidecar_runtimes.verify import verify_dataset

SHARD = "deep/part ü.parquet"


@pytest.fixture
def dataset(tmp_path):
    """A main dataset and a sidecar that a run made of it, with two rows exchanged afterwards, footer and all."""
    path = tmp_path / "main" / SHARD
    path.parent.mkdir(parents=True)
    keys = [f"key-{row}" for row in range(40)]
    pq.write_table(pa.table({"image_key": keys, "caption": keys}), path, row_group_size=16)
    yaml = tmp_path / "dataset.yaml"
    yaml.write_text("name: example\nmain_prefix: main\nsidecar_prefix: sidecar\nkey_column: image_key\n")
    dataset = load_dataset(yaml)
    pipeline = build_pipeline(dataset, [{"type": "cast_columns", "columns": {"caption": "large_string"}}])
    run_every_shard(pipeline, {pipeline.outputs[0].name: str(tmp_path / "sidecar")}, workers=1)
    made = pq.ParquetFile(tmp_path / "sidecar" / SHARD)
    order = [*range(20), 21, 20, *range(22, 40)]
    table = made.read().take(pa.array(order)).replace_schema_metadata(made.metadata.metadata)
    pq.write_table(table, tmp_path / "sidecar" / SHARD)
    return dataset


def merge(dataset, tmp_path):
    operation = {"type": "merge_from_sidecar", "source_prefix": dataset.sidecar_prefix}
    pipeline = build_pipeline(dataset, [operation])
    run_every_shard(pipeline, {pipeline.outputs[0].name: str(tmp_path / "merged")}, workers=1)


def verify(dataset, tmp_path):
    report = verify_dataset(
        open_storage(dataset.main_prefix), open_storage(dataset.sidecar_prefix), key_column=dataset.key_column
    )
    assert not report.ok
    raise AlignmentError(report.problems[0].message)


def read(dataset, tmp_path):
    open_aligned(dataset, [dataset]).read_all()


@pytest.mark.parametrize("look", [merge, verify, read])
def test_shard_row_and_both_keys_are_named(look, dataset, tmp_path):
    with pytest.raises(AlignmentError) as caught:
        look(dataset, tmp_path)
    said = str(caught.value)
    assert SHARD in said
    assert "row 20" in said
    assert "'key-20'" in said
    assert "'key-21'" in said
    assert not list(tmp_path.glob("merged/**/*.parquet"))
