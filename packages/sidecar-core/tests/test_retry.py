from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import ConflictError, LeaseLostError, ShardError
from sidecar_core.execute import ShardResources, run_shard
from sidecar_core.footer import read_footer
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.plan import PlannedShard, plan_run
from sidecar_core.retry import retry_shard
from sidecar_core.shard_writer import check_shard_file
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset, write_main

ROWS = 40
SHARD = "a/s ü.parquet"


class Engine:
    """A pipeline whose rows fail as they are told to, over one shard."""

    def __init__(self, tmp_path, *, outputs=None, row_group_rows=10):
        self.folder = tmp_path
        write_main(tmp_path / "main", {SHARD: [b"x"] * ROWS}, row_group_rows=row_group_rows)
        yaml = tmp_path / "dataset.yaml"
        yaml.write_text(
            f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/out/\n"
            "key_column: image_key\nimage_column: image\n"
        )
        self.pipeline = build_pipeline(
            load_dataset(yaml),
            [{"type": "fail_listed", "folder": str(tmp_path)}],
            outputs=outputs,
            plugins=("sidecar_core.testing.failing_ops",),
        )
        self.main = open_storage(f"{tmp_path}/main/")
        prefixes = {output.name: f"{tmp_path}/{output.name}/" for output in self.pipeline.outputs}
        self.outputs = tuple(open_storage(prefix) for prefix in prefixes.values())
        self.plan = plan_run(self.pipeline, self.main, self.main.list_shards(), prefixes)
        self.fail({})

    def fail(self, rows, generation=1):
        """From now on these rows fail, given per row number, a reason by column."""
        failing = {f"{SHARD}#{row}": reasons for row, reasons in rows.items()}
        (self.folder / "failing.json").write_text(json.dumps(failing))
        (self.folder / "generation").write_text(str(generation))
        (self.folder / "calls.jsonl").write_text("")

    @property
    def calls(self):
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [tuple(json.loads(line)[1:]) for line in lines]

    @property
    def shard(self):
        (info,) = self.main.list_shards()
        return PlannedShard(info, tuple(output.stat(SHARD) for output in self.outputs))

    @contextmanager
    def resources(self):
        with IsolationPool(IsolationOptions(workers=1)) as pool:
            yield ShardResources(
                self.main, self.outputs, pool, tuple(output.staging_dir("r") for output in self.outputs)
            )

    def run(self):
        with self.resources() as resources:
            run_shard(self.plan, self.shard, resources)

    def retry(self, *reasons, plan=None, shard=None):
        with self.resources() as resources:
            return retry_shard(plan or self.plan, shard or self.shard, resources, reasons=reasons)

    def table(self, output=0):
        return next(iter(read_dataset(self.folder / self.plan.outputs[output].name).values()))

    def footer(self, output=0):
        return read_footer(self.outputs[output], SHARD)


@pytest.fixture
def engine(tmp_path):
    return Engine(tmp_path)


def test_only_rows_with_the_reasons_are_computed_again(engine):
    failing = {3: "timeout", 4: "crashed", 5: "timeout", 9: "timeout", 12: "decode_failed", 31: "timeout"}
    engine.fail({row: {"score": reason} for row, reason in failing.items()})
    engine.run()
    before = engine.table()
    engine.fail({5: {"score": "crashed"}}, generation=2)
    retried = engine.retry("timeout", "crashed")
    assert engine.calls == [(3, 3), (9, 1), (31, 1)]
    assert retried.report.rows == 5
    assert retried.before == {"sidecar": {"timeout": 4, "crashed": 1}}
    assert retried.report.invalid == {"sidecar": {"crashed": 1}}
    table = engine.table()
    again = [3, 4, 9, 31]
    assert table.column("score").to_pylist() == [
        2 if row in again else None if row in failing else 1 for row in range(ROWS)
    ]
    assert table.column("score_reason").to_pylist()[5] == "crashed"
    assert table.column("score_reason").to_pylist()[12] == "decode_failed"
    kept = [row for row in range(ROWS) if row not in (*again, 5)]
    assert table.take(kept).equals(before.take(kept))
    assert engine.footer().invalid["score"] == {"crashed": 1, "decode_failed": 1}
    assert engine.footer().run_id == engine.plan.run_id


def test_the_file_is_whole_and_proven(engine):
    engine.fail({7: {"picture": "timeout"}})
    engine.run()
    before = engine.footer()
    engine.fail({}, generation=2)
    engine.retry("timeout")
    check_shard_file(engine.folder / "sidecar" / SHARD, engine.plan.outputs[0].schema, ROWS)
    after = engine.footer()
    assert (after.rows, after.key_digest, after.fingerprint) == (before.rows, before.key_digest, before.fingerprint)
    assert after.inputs == before.inputs
    assert after.key_digest_row_groups == before.key_digest_row_groups
    assert after.invalid == {"score": {}, "picture": {}, "status": {}}
    metadata = [pq.ParquetFile(engine.folder / name / SHARD).metadata for name in ("main", "sidecar")]
    assert metadata[0].num_row_groups == metadata[1].num_row_groups == 4


def test_row_groups_without_such_rows_are_not_read(engine):
    engine.fail({25: {"score": "timeout"}})
    engine.run()
    engine.fail({}, generation=2)
    path = engine.folder / "main" / SHARD
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    engine.retry("timeout")
    assert engine.table().column("score").to_pylist() == [2 if row == 25 else 1 for row in range(ROWS)]


def test_nothing_to_do_changes_nothing(engine):
    engine.fail({1: {"score": "timeout"}})
    engine.run()
    present = engine.shard.present
    assert engine.retry("crashed").report.rows == 0
    assert engine.shard.present == present


def test_a_reason_that_is_listed_beside_partial_counts(engine):
    engine.fail(
        {
            1: {"status": {"a": "timeout"}},
            2: {"status": {"a": "crashed"}},
            3: {"status": {"a": "timeout", "b": "crashed"}},
        }
    )
    engine.run()
    assert engine.footer().invalid["status"] == {"partial": 2, "timeout": 1}
    engine.fail({}, generation=2)
    retried = engine.retry("timeout")
    assert engine.calls == [(1, 1), (3, 1)]
    assert retried.before == {"sidecar": {"partial": 1, "timeout": 1}}
    assert engine.footer().invalid["status"] == {"partial": 1}


def test_each_output_gets_the_rows_that_failed_in_it(tmp_path):
    outputs = [
        OutputSpec("one", f"{tmp_path}/one/", {"image": "picture", "why": "picture_reason"}),
        OutputSpec("two", f"{tmp_path}/two/", {"score": "score", "score_why": "score_reason"}),
    ]
    engine = Engine(tmp_path, outputs=outputs)
    engine.fail({2: {"picture": "timeout"}, 3: {"picture": "timeout", "score": "timeout"}, 20: {"score": "missing"}})
    engine.run()
    engine.fail({20: {"score": "missing"}}, generation=2)
    retried = engine.retry("timeout")
    assert engine.calls == [(2, 2)]
    assert retried.before == {"one": {"timeout": 2}, "two": {"timeout": 1}}
    images = engine.table(0).column("image").to_pylist()
    assert [row for row in range(ROWS) if images[row].endswith(b" 2")] == [2, 3]
    assert engine.table(1).column("score").to_pylist() == [{3: 2, 20: None}.get(row, 1) for row in range(ROWS)]
    assert engine.footer(0).invalid == {"image": {}}
    assert engine.footer(1).invalid == {"score": {"missing": 1}}


def test_an_output_without_such_rows_is_left_as_it_is(tmp_path):
    outputs = [
        OutputSpec("one", f"{tmp_path}/one/", {"image": "picture", "why": "picture_reason"}),
        OutputSpec("two", f"{tmp_path}/two/", {"score": "score", "score_why": "score_reason"}),
    ]
    engine = Engine(tmp_path, outputs=outputs)
    engine.fail({2: {"picture": "timeout"}})
    engine.run()
    before = engine.shard.present
    engine.fail({}, generation=2)
    engine.retry("timeout")
    assert engine.shard.present[0] != before[0]
    assert engine.shard.present[1] == before[1]


def test_an_output_without_reasons_follows_the_others(tmp_path):
    outputs = [
        OutputSpec("images", f"{tmp_path}/images/", {"image": "picture"}),
        OutputSpec("audit", f"{tmp_path}/audit/", {"why": "picture_reason"}),
    ]
    engine = Engine(tmp_path, outputs=outputs)
    engine.fail({2: {"picture": "timeout"}})
    engine.run()
    assert engine.footer(0).invalid == {"image": {"timeout": 1}}
    engine.fail({}, generation=2)
    engine.retry("timeout")
    assert engine.table(0).column("image").to_pylist()[2].endswith(b" 2")
    assert engine.table(1).column("why").to_pylist()[2] is None
    assert engine.footer(0).invalid == {"image": {}}


def test_shards_of_another_pipeline_or_with_other_rows_are_refused(engine, tmp_path):
    engine.fail({2: {"picture": "timeout"}})
    engine.run()
    (output,) = engine.plan.outputs
    other = replace(engine.plan, outputs=(replace(output, fingerprint="another"),))
    with pytest.raises(ShardError, match="another pipeline"):
        engine.retry("timeout", plan=other)
    write_main(tmp_path / "main", {SHARD: [b"x"] * (ROWS + 1)})
    with pytest.raises(ShardError, match="40 rows"):
        engine.retry("timeout")
    write_main(tmp_path / "main", {"b": [b"x"] * ROWS}, row_group_rows=10)
    (tmp_path / "main/b").rename(tmp_path / "main" / SHARD)
    with pytest.raises(ShardError, match="row 0: key"):
        engine.retry("timeout")


def test_a_shard_that_was_replaced_meanwhile_is_a_conflict(engine):
    engine.fail({2: {"picture": "timeout"}})
    engine.run()
    planned = engine.shard
    engine.retry("timeout")
    now = engine.shard.present
    with pytest.raises(ConflictError):
        engine.retry("timeout", shard=planned)
    assert engine.shard.present == now


def test_nothing_is_replaced_without_the_lease(engine):
    engine.fail({2: {"picture": "timeout"}})
    engine.run()
    present = engine.shard.present
    with pytest.raises(LeaseLostError):
        engine.retry("timeout", plan=replace(engine.plan, leased=True))
    assert engine.shard.present == present


@pytest.mark.parametrize("rows", [list(range(ROWS)), [0], [ROWS - 1], [9, 10]])
def test_edges(engine, rows):
    engine.fail({row: {"score": "timeout"} for row in rows})
    engine.run()
    engine.fail({}, generation=2)
    engine.retry("timeout")
    assert engine.table().column("score").to_pylist() == [2 if row in rows else 1 for row in range(ROWS)]
    assert sum(length for _, length in engine.calls) == len(rows)
