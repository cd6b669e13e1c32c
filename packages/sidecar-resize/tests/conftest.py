"""Datasets with descriptions, beside resized ones as `resize_image` writes them, all but the pictures."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.pipeline import build_pipeline
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.engine import run_every_shard
from sidecar_core.testing.example_dataset import example_dataset
from sidecar_resize.audit import Audit, default_audit_prefix
from sidecar_resize.audit_columns import audit_columns
from sidecar_resize.geometry import target_size

SHARD = "a b/part-0.parquet"
SIDES = (512, 1024)
SIZES = [(4000, 3000), (3000, 4000), (512, 512), (640, 480), (1000, 333), (100, 75), (1920, 1080), (900, 900)]


class DescribedDatasets:
    """A main dataset, two resized ones and an output, in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.resized = {side: f"{folder}/resized {side}/" for side in SIDES}

    def write(self, kind, table, rel_path=SHARD):
        path = self.folder / kind / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)

    def write_resized(self, keys, side, *, sizes=None, reasons=None, rel_path=SHARD, audit_prefix=None, **changes):
        """Writes the shard of one target; `reasons` are by row, `sizes` those of the sources."""
        sizes = sizes or [SIZES[row % len(SIZES)] for row in range(len(keys))]
        audits = [_audit(size, side, (reasons or {}).get(row), **changes) for row, size in enumerate(sizes)]
        images = pa.array([b"x" if each.valid else None for each in audits], pa.binary())
        columns = audit_columns(audit_prefix or default_audit_prefix(side), audits)
        self.write(f"resized {side}", pa.table({"image_key": keys, "image": images, **columns}), rel_path)

    def fill(self, descriptions, *, sizes=None, reasons=None, dtype=None, rel_path=SHARD, **changes):
        """Writes a main shard and its resized ones; `reasons` are (512, 1024) by row."""
        keys = pa.array([f"key-{row}" for row in range(len(descriptions))])
        values = descriptions if isinstance(descriptions, pa.Array) else pa.array(descriptions, dtype or pa.string())
        self.write("main", pa.table({"image_key": keys, "structured_description": values}), rel_path)
        for index, side in enumerate(SIDES):
            own = {row: both[index] for row, both in (reasons or {}).items()}
            self.write_resized(keys, side, sizes=sizes, reasons=own, rel_path=rel_path, **changes)

    def dataset(self, extensions=()):
        return example_dataset(
            main_prefix=f"{self.folder}/main/",
            sidecar_prefix=f"{self.folder}/out/",
            schema_extensions=list(extensions),
            carry_columns=[],
            image_column=None,
        )

    def pipeline(self, *, before=(), extensions=(), **params):
        op = {"type": "crop_structured_description", "resized": self.resized, **params}
        return build_pipeline(self.dataset(extensions), [*before, op])

    def run(self, **params):
        pipeline = self.pipeline(**params)
        run_every_shard(pipeline, {pipeline.outputs[0].name: f"{self.folder}/out"}, workers=1)
        return read_dataset(self.folder / "out")[SHARD]


def _audit(size, side, reason, **changes):
    if reason is not None:
        known = {} if size is None else {"source_width": size[0], "source_height": size[1]}
        return Audit(reason=reason, **known, **changes)
    width, height = size
    target = target_size(width, height, side * side)
    geometry = {
        name: getattr(target, name)
        for name in ("resized_width", "resized_height", "crop_left", "crop_top", "width", "height")
    }
    return Audit(valid=True, source_width=width, source_height=height, **{**geometry, **changes})


@pytest.fixture
def described(tmp_path):
    return DescribedDatasets(tmp_path)
