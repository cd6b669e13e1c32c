"""What docs/sidecar-format.md says of null structs: those that are made, and those that are taken over."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sidecar_core.nulls import null_rows
from sidecar_core.pipeline import load_pipeline
from sidecar_core.testing.datasets import read_dataset
from sidecar_core.testing.engine import run_every_shard

SIZE = pa.struct([("w", pa.int32()), ("inner", pa.struct([("h", pa.int32())]))])
NULL_CHILDREN = {"w": None, "inner": {"h": None}}
ROWS = [{"w": 1, "inner": {"h": 2}}, None, NULL_CHILDREN, {"w": 1, "inner": None}]
PIPELINE = """
dataset: datasets/example.yaml
operations:
  - type: extract_scaffold
  - {type: merge_from_sidecar, source_prefix: other/, columns: [merged]}
  - {type: join_from_parquet, source: table.parquet, source_key_column: key, columns: [joined]}
"""


def test_structs_that_are_taken_over_keep_null_slots_and_those_that_are_made_have_none(tmp_path):
    sizes = pa.array(ROWS, SIZE)
    for folder, column in (("main", "carried"), ("other", "merged")):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"key": list("abcd"), column: sizes}), tmp_path / folder / "part.parquet")
    pq.write_table(pa.table({"key": list("ab"), "joined": sizes[:2]}), tmp_path / "table.parquet")
    for folder in ("datasets", "schemas"):
        (tmp_path / folder).mkdir()
    (tmp_path / "datasets/example.yaml").write_text(
        "name: example\nmain_prefix: ../main/\nsidecar_prefix: ../out/\nkey_column: key\ncarry_columns: [carried]\n"
        "schema_extensions:\n  - {name: made, type_ref: size_v1}\n"
    )
    (tmp_path / "schemas/types.yaml").write_text("types:\n  size_v1:\n    fields:\n      - {name: w, type: int32}\n")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    run_every_shard(load_pipeline(tmp_path / "pipeline.yaml"), {"sidecar": str(tmp_path / "out")}, workers=1)
    table = read_dataset(tmp_path / "out")["part.parquet"]
    assert table.column("made").to_pylist() == [{"w": None}] * 4
    assert table.column("carried").to_pylist() == ROWS
    assert table.column("merged").to_pylist() == ROWS
    assert table.column("joined").to_pylist() == [*ROWS[:2], NULL_CHILDREN, NULL_CHILDREN]
    for name in ("carried", "merged"):
        assert null_rows(table.column(name)).to_pylist() == [False, True, True, False]
        assert pc.struct_field(table.column(name), ["inner", "h"]).to_pylist() == [2, None, None, None]
    assert null_rows(table.column("joined")).to_pylist() == [False, True, True, True]
