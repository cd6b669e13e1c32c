"""The contract of a runtime as a pytest class that every runtime runs: subclass it in a test module.

class TestLocal(RuntimeConformance):
    def make_runtime(self, **options):
        return LocalRuntime(workers=2, **options)
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import OpError
from sidecar_core.pipeline import build_pipeline
from sidecar_core.testing.datasets import read_dataset, write_main

from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.progress import SilentObserver
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run
from sidecar_runtimes.testing.ops import count_marks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sidecar_core.outcome import ShardReport
    from sidecar_core.pipeline import Pipeline

    from sidecar_runtimes.base import Runtime
    from sidecar_runtimes.run import PreparedRun, RunReport

PLUGINS = ("sidecar_core.testing.ops", "sidecar_runtimes.testing.ops")
SHARDS = {f"part-{n}.parquet": [b"x" * (n * 10 + k) for k in range(20)] for n in range(5)}
MEASURE: Mapping[str, object] = {"type": "measure_bytes"}


class RecordingObserver(SilentObserver):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.rows = 0
        self.invalid = 0
        self.shards: list[str] = []

    def rows_done(self, rows: int, invalid: int) -> None:
        """Adds rows."""
        self.rows += rows
        self.invalid += invalid

    def shard_finished(self, report: ShardReport) -> None:
        """Adds a shard."""
        self.shards.append(report.rel_path)


class RuntimeConformance:
    """The same rows as the local runtime gives, whatever happens to single shards and workers."""

    loads_side_inputs: bool = True
    survives_worker_death: bool = True  # False where shards are processed in the driver itself

    def make_runtime(self, *, retries: int = 2) -> Runtime:
        """Returns the runtime, made anew."""
        raise NotImplementedError

    def pipeline(self, folder: Path, operations: Sequence[Mapping[str, object]] = (MEASURE,)) -> Pipeline:
        """Returns a pipeline over `folder/main`."""
        yaml = folder / "dataset.yaml"
        yaml.write_text(
            f"name: example\nmain_prefix: {folder}/main/\nsidecar_prefix: {folder}/yaml-out/\n"
            "key_column: image_key\nimage_column: image\n"
        )
        return build_pipeline(load_dataset(yaml), list(operations), plugins=PLUGINS)

    def prepare(
        self, folder: Path, operations: Sequence[Mapping[str, object]] = (MEASURE,), *, skip_existing: bool = False
    ) -> PreparedRun:
        """Returns a prepared run into `folder/out`."""
        options = RunOptions(output_prefix=str(folder / "out"), workers=2, skip_existing=skip_existing)
        return prepare_run(self.pipeline(folder, operations), options)

    def run(
        self,
        folder: Path,
        operations: Sequence[Mapping[str, object]] = (MEASURE,),
        *,
        retries: int = 2,
        skip_existing: bool = False,
    ) -> RunReport:
        """Runs into `folder/out` with the runtime."""
        prepared = self.prepare(folder, operations, skip_existing=skip_existing)
        return execute_run(prepared, runtime=self.make_runtime(retries=retries), command=["test"])

    def test_same_rows_as_local(self, tmp_path: Path) -> None:
        """Rows, values, order, columns and schemas are those of the local runtime; the observer is told of all."""
        rows = [b"", None, *[b"x" * n for n in range(300)]]
        write_main(tmp_path / "main", {**SHARDS, "deep/a=1/ü b.parquet": rows})
        observer = RecordingObserver()
        report = execute_run(self.prepare(tmp_path), runtime=self.make_runtime(), observer=observer, command=["test"])
        assert report.ok
        assert report.shards["done"] == 6
        local = prepare_run(self.pipeline(tmp_path), RunOptions(output_prefix=str(tmp_path / "local"), workers=2))
        assert execute_run(local, runtime=LocalRuntime(workers=2), command=["test"]).ok
        made, expected = read_dataset(tmp_path / "out"), read_dataset(tmp_path / "local")
        assert made.keys() == expected.keys()
        for rel_path, table in expected.items():
            assert made[rel_path].schema.equals(table.schema)
            assert made[rel_path].equals(table)
        assert sorted(observer.shards) == sorted(expected)
        assert (observer.rows, observer.invalid) == (report.rows, 1)

    def test_one_bad_shard_does_not_stop_the_rest(self, tmp_path: Path) -> None:
        """A damaged shard is reported once, without further attempts; the others are made."""
        write_main(tmp_path / "main", SHARDS)
        (tmp_path / "main/part-2.parquet").write_bytes(b"no parquet")
        report = self.run(tmp_path)
        assert report.shards == {"done": 4, "skipped": 0, "failed": 1, "not_reached": 0}
        (failed,) = report.failed
        assert failed.rel_path == "part-2.parquet"
        assert failed.error_type == "ShardError"
        assert failed.attempts == 1
        assert len(read_dataset(tmp_path / "out")) == 4

    def test_an_op_that_breaks_its_contract_costs_its_shard(self, tmp_path: Path) -> None:
        """An op's error arrives whole."""
        write_main(tmp_path / "main", SHARDS)
        broken = {"type": "break_contract", "how": "raise", "only_shard": "part-1.parquet"}
        (failed,) = self.run(tmp_path, [broken]).failed
        assert failed.error_type == "OpError"
        assert "thrown on purpose" in (failed.error or "")

    def test_an_error_that_passes_is_tried_again(self, tmp_path: Path) -> None:
        """Two failures and then success are a success, and the report counts the attempts."""
        write_main(tmp_path / "main", {"a.parquet": [b"x"]})
        report = self.run(tmp_path, [{"type": "fail_first", "times": 2, "marks": str(tmp_path / "marks")}])
        assert report.ok
        assert count_marks(tmp_path / "marks", "began-a.parquet") == 3

    def test_retries_have_an_end(self, tmp_path: Path) -> None:
        """What fails more often than it may is given up, with its error."""
        write_main(tmp_path / "main", {"a.parquet": [b"x"], "b.parquet": [b"y"]})
        report = self.run(tmp_path, [{"type": "fail_first", "times": 9, "marks": str(tmp_path / "marks")}], retries=1)
        assert report.shards["failed"] == 2
        assert {failed.attempts for failed in report.failed} == {2}
        assert "the store is busy" in (report.failed[0].error or "")
        assert count_marks(tmp_path / "marks", "began-a.parquet") == 2

    def test_resume_makes_what_is_missing(self, tmp_path: Path) -> None:
        """A second run makes the missing shards only, and the dataset is whole."""
        write_main(tmp_path / "main", SHARDS)
        assert self.run(tmp_path).ok
        whole = read_dataset(tmp_path / "out")
        (tmp_path / "out/part-1.parquet").unlink()
        (tmp_path / "out/part-4.parquet").write_bytes(b"")
        report = self.run(tmp_path, skip_existing=True)
        assert report.shards == {"done": 2, "skipped": 3, "failed": 0, "not_reached": 0}
        assert read_dataset(tmp_path / "out") == whole

    def test_side_inputs_or_a_clear_refusal(self, tmp_path: Path) -> None:
        """Side inputs are loaded once a worker, or refused before anything is done."""
        write_main(tmp_path / "main", {f"part-{n}.parquet": [b"x"] * 3 for n in range(8)})
        operations = [{"type": "use_side_input", "number": 42, "marks": str(tmp_path / "marks")}]
        if not self.loads_side_inputs:
            with pytest.raises(NotImplementedError, match=r"'use_side_input'(.|\n)*--runtime actor"):
                self.run(tmp_path, operations)
            assert not list((tmp_path / "out").glob("*.parquet"))
            return
        assert self.run(tmp_path, operations).ok
        for table in read_dataset(tmp_path / "out").values():
            assert table.column("number").to_pylist() == [42] * 3
        assert 1 <= count_marks(tmp_path / "marks", "loaded") <= 2

    def test_a_side_input_that_does_not_load_ends_the_run(self, tmp_path: Path) -> None:
        """No shard can be made then, and the error says of which op."""
        if not self.loads_side_inputs:
            return
        write_main(tmp_path / "main", SHARDS)
        with pytest.raises(OpError, match=r"use_side_input.*no such index"):
            self.run(tmp_path, [{"type": "use_side_input", "number": -1, "marks": str(tmp_path / "marks")}])

    def test_the_stop_event_ends_the_run_and_leaves_nothing_partial(self, tmp_path: Path) -> None:
        """After the event nothing new begins, and what was under way leaves no trace."""
        write_main(tmp_path / "main", {f"part-{n:02}.parquet": [b"x"] * 50 for n in range(40)})
        prepared = self.prepare(tmp_path, [{"type": "measure_bytes", "delay_s": 0.02}])
        stop = threading.Event()
        reports: list[ShardReport] = []
        for report in self.make_runtime().run(prepared.plan, prepared.to_do, SilentObserver(), stop=stop):
            reports.append(report)
            stop.set()
        made = read_dataset(tmp_path / "out")
        assert {report.rel_path for report in reports} <= made.keys()
        assert 1 <= len(made) < 40
        assert all(table.num_rows == 50 for table in made.values())
        assert not list((tmp_path / "out/_sidecar").glob("tmp/*/*"))

    def test_closing_the_reports_ends_the_run(self, tmp_path: Path) -> None:
        """So does leaving the loop over the reports, as Ctrl-C does."""
        write_main(tmp_path / "main", {f"part-{n:02}.parquet": [b"x"] * 50 for n in range(40)})
        prepared = self.prepare(tmp_path, [{"type": "measure_bytes", "delay_s": 0.02}])
        reports = self.make_runtime().run(prepared.plan, prepared.to_do, SilentObserver(), stop=threading.Event())
        next(reports)
        reports.close()  # type: ignore[attr-defined]
        made = read_dataset(tmp_path / "out")
        assert 1 <= len(made) < 40
        assert all(table.num_rows == 50 for table in made.values())

    def test_empty_shards(self, tmp_path: Path) -> None:
        """A shard without rows has an output without rows, with the schema of the others."""
        write_main(tmp_path / "main", {"a.parquet": [], "b.parquet": [b"x"], "c.parquet": []})
        assert self.run(tmp_path).ok
        made = read_dataset(tmp_path / "out")
        assert {rel_path: table.num_rows for rel_path, table in made.items()} == {
            "a.parquet": 0,
            "b.parquet": 1,
            "c.parquet": 0,
        }
        assert len({str(table.schema) for table in made.values()}) == 1

    def test_no_shards_to_do(self, tmp_path: Path) -> None:
        """A run that finds everything done ends at once."""
        write_main(tmp_path / "main", {"a.parquet": [b"x"]})
        assert self.run(tmp_path).ok
        assert self.run(tmp_path, skip_existing=True).shards == {"done": 0, "skipped": 1, "failed": 0, "not_reached": 0}

    def test_poisonous_rows_cost_themselves_only(self, tmp_path: Path) -> None:
        """Rows that end, hang or bloat their child are marked with the reason, and their neighbours are whole."""
        rows = [b"a", b"!abort", b"bb", b"!kill", b"ccc", b"!hang", b"!eat", b"dddd"]
        write_main(tmp_path / "main", {"a.parquet": rows, "b.parquet": [b"!segv", b"x"]})
        report = self.run(tmp_path, [{"type": "measure_bytes", "row_timeout_s": 2.0}])
        assert report.ok
        made = read_dataset(tmp_path / "out")
        assert made["a.parquet"].column("byte_length").to_pylist() == [1, None, 2, None, 3, None, None, 4]
        assert made["a.parquet"].column("byte_length_reason").to_pylist() == [
            None, "crashed", None, "crashed", None, "timeout", "out_of_memory", None
        ]  # fmt: skip
        assert made["b.parquet"].column("byte_length").to_pylist() == [None, 1]

    def test_a_shard_that_kills_its_workers_is_poisonous(self, tmp_path: Path) -> None:
        """It is given up after three workers; all the others are made, those beside it included."""
        if not self.survives_worker_death:
            return
        write_main(tmp_path / "main", SHARDS)
        marks = str(tmp_path / "marks")
        signal_number = int(signal.SIGSEGV)
        operations = [
            {"type": "end_process", "shards": ["part-1.parquet"], "marks": marks, "signal_number": signal_number}
        ]
        report = self.run(tmp_path, operations)
        assert report.shards == {"done": 4, "skipped": 0, "failed": 1, "not_reached": 0}
        (failed,) = report.failed
        assert failed.rel_path == "part-1.parquet"
        assert "3 times" in (failed.error or "")
        assert "SIGSEGV" in (failed.error or "")
        assert "MiB" in (failed.error or "")
        assert "poisonous" in (failed.error or "")
        assert "OOM" not in (failed.error or "")
        assert count_marks(marks, "began-part-1.parquet") == 3
        assert read_dataset(tmp_path / "out").keys() == SHARDS.keys() - {"part-1.parquet"}
        assert not list((tmp_path / "out/_sidecar").glob("tmp/*/*"))
