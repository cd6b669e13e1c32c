"""A retry of several outputs that ends between its commits: the next one makes what an undisturbed one makes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import ShardError, StorageError
from sidecar_core.execute import ShardResources, run_shard
from sidecar_core.footer import read_footer
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.plan import PlannedShard, new_run_id, plan_run
from sidecar_core.retry import retry_shard
from sidecar_core.storage import open_storage
from sidecar_core.testing.datasets import read_dataset, write_main

ROWS = 40
SHARD = "a.parquet"
FAILING = {
    2: {"score": "timeout"},
    3: {"score": "timeout", "picture": "timeout"},
    11: {"picture": "timeout"},
    12: {"score": "missing"},
    25: {"picture": "timeout", "score": "crashed"},
    31: {"status": {"a": "timeout"}},
}
BUSY = {2: {"score": "timeout"}, 3: {"score": "crashed"}, 11: {"score": "crashed"}, 12: {"score": "missing"}}
QUIET = {12: {"score": "missing"}, 25: {"score": "crashed"}}
LAYOUTS = {
    "reasons first": [{"why": "score_reason"}, {"score": "score"}],
    "reasons last": [{"score": "score"}, {"why": "score_reason"}],
    "reasons in both": [{"score": "score", "why": "score_reason"}, {"why": "score_reason", "score": "score"}],
    "reasons in the first": [{"score": "score", "why": "score_reason"}, {"score": "score"}],
    "reasons in one of three": [{"why": "score_reason"}, {"score": "score"}, {"score": "score", "image": "picture"}],
    "reasons in two of three": [
        {"score": "score", "why": "score_reason"},
        {"image": "picture", "why": "score_reason", "image_why": "picture_reason"},
        {"score": "score", "image": "picture"},
    ],
    "reasons in all three": [
        {"score": "score", "why": "score_reason"},
        {"why": "score_reason"},
        {"score": "score", "why": "score_reason", "image": "picture", "image_why": "picture_reason"},
    ],
    "each keeps the other's": [
        {"score": "score", "why": "picture_reason"},
        {"image": "picture", "why": "score_reason"},
    ],
    "nothing in common": [{"score": "score", "why": "score_reason"}, {"image": "picture", "why": "picture_reason"}],
    "beside a status": [{"status": "status"}, {"score": "score", "why": "score_reason"}, {"score": "score"}],
}


class Engine:
    """A pipeline of several outputs over one shard, whose rows fail as they are told to."""

    def __init__(self, folder, layout):
        self.folder = folder
        write_main(folder / "main", {SHARD: [b"x"] * ROWS}, row_group_rows=10)
        yaml = folder / "dataset.yaml"
        yaml.write_text(
            f"name: example\nmain_prefix: {folder}/main/\nsidecar_prefix: {folder}/out/\n"
            "key_column: image_key\nimage_column: image\n"
        )
        outputs = [OutputSpec(f"out{n}", f"{folder}/out{n}/", columns) for n, columns in enumerate(layout)]
        pipeline = build_pipeline(
            load_dataset(yaml),
            [{"type": "fail_listed", "folder": str(folder)}],
            outputs=outputs,
            plugins=("sidecar_core.testing.failing_ops",),
        )
        self.main = open_storage(f"{folder}/main/")
        self.outputs = tuple(open_storage(output.prefix) for output in outputs)
        self.plan = plan_run(
            pipeline, self.main, self.main.list_shards(), {output.name: output.prefix for output in outputs}
        )

    def fail(self, rows, generation):
        """From now on these rows fail, and all others get this number."""
        (self.folder / "failing.json").write_text(json.dumps({f"{SHARD}#{row}": why for row, why in rows.items()}))
        (self.folder / "generation").write_text(str(generation))
        (self.folder / "calls.jsonl").write_text("")

    def work(self, work, *, commits=None, run_id=None):
        """Does something with the shard; of its commits, only so many are carried out."""
        (info,) = self.main.list_shards()
        shard = PlannedShard(info, tuple(output.stat(SHARD) for output in self.outputs))
        plan = replace(self.plan, run_id=run_id or new_run_id())
        left = [len(self.outputs) if commits is None else commits]
        outputs = tuple(FullStorage(output, left) for output in self.outputs)
        staging = tuple(output.staging_dir("r") for output in self.outputs)
        with IsolationPool(IsolationOptions(workers=1)) as pool:
            return work(plan, shard, ShardResources(self.main, outputs, pool, staging))

    def run(self):
        self.work(run_shard)

    def replace_but_second(self, rows, generation):
        """Makes the shard with failing rows, and all but the second output's again with these ones."""
        self.fail(FAILING, 1)
        self.run()
        second = (self.folder / "out1" / SHARD).read_bytes()
        self.fail(rows, generation)
        self.run()
        (self.folder / "out1" / SHARD).write_bytes(second)

    def retry(self, *reasons, commits=None, run_id=None):
        return self.work(
            lambda *given: retry_shard(*given, reasons=reasons or ("timeout",)), commits=commits, run_id=run_id
        )

    def interrupt(self, *reasons, commits, run_id=None):
        """Retries with so few commits that not all outputs get theirs."""
        with pytest.raises(StorageError, match="503"):
            self.retry(*reasons, commits=commits, run_id=run_id)

    @property
    def calls(self):
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [tuple(json.loads(line)[1:]) for line in lines]

    @property
    def contents(self):
        """Per output its table, without what tells folders apart, and its counts of invalid rows."""
        return [
            (next(iter(read_dataset(self.folder / output.name).values())), read_footer(storage, SHARD).invalid)
            for output, storage in zip(self.plan.outputs, self.outputs, strict=True)
        ]


class FullStorage:
    """A storage that takes only so many commits more, counted together with other ones."""

    def __init__(self, storage, left):
        self._storage = storage
        self._left = left

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def commit_file(self, *args, **options):
        if not self._left[0]:
            raise StorageError("503 Slow Down")
        self._left[0] -= 1
        return self._storage.commit_file(*args, **options)


@pytest.fixture
def make_engine(tmp_path):
    def make(layout, name="interrupted"):
        (tmp_path / name).mkdir()
        return Engine(tmp_path / name, LAYOUTS[layout])

    return make


def undisturbed(make_engine, layout, failing=FAILING):
    engine = make_engine(layout, "undisturbed")
    engine.fail(failing, 1)
    engine.run()
    before = engine.contents
    engine.fail(QUIET, 3)
    engine.retry()
    changed = sum(now != then for now, then in zip(engine.contents, before, strict=True))
    return engine.contents, changed


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_next_retry_makes_what_an_undisturbed_one_makes(make_engine, layout):
    expected, changed = undisturbed(make_engine, layout)
    assert changed >= 2
    for commits in range(changed):
        engine = make_engine(layout, f"after {commits}")
        engine.fail(FAILING, 1)
        engine.run()
        engine.fail(BUSY, 2)
        engine.interrupt(commits=commits)
        engine.fail(QUIET, 3)
        engine.retry()
        assert engine.contents == expected, commits
        engine.fail(QUIET, 4)
        engine.retry()
        assert (engine.calls, engine.contents) == ([], expected), commits


@pytest.mark.parametrize("layout", ["reasons in one of three", "reasons in two of three", "reasons in all three"])
@pytest.mark.parametrize("one_run", [True, False])
def test_interrupted_again_and_again(make_engine, layout, one_run):
    expected, changed = undisturbed(make_engine, layout)
    assert changed == 3
    run_id = new_run_id() if one_run else None  # attempts of one run have the same
    for first, second in [(1, 1), (1, 2), (2, 1), (2, 0)]:
        engine = make_engine(layout, f"{first} {second}")
        engine.fail(FAILING, 1)
        engine.run()
        engine.fail(BUSY, 2)
        engine.interrupt(commits=first, run_id=run_id)
        engine.interrupt(commits=second, run_id=run_id)
        engine.fail(QUIET, 3)
        engine.retry(run_id=run_id)
        assert engine.contents == expected, (first, second)
        engine.fail(QUIET, 4)
        engine.retry()
        assert (engine.calls, engine.contents) == ([], expected), (first, second)


def test_many_scattered_rows_keep_a_footer_small(make_engine, monkeypatch):
    monkeypatch.setattr("sidecar_core.retry._MOST_NOTED_RUNS", 1)
    layout = "reasons in one of three"
    expected, _ = undisturbed(make_engine, layout)
    engine = make_engine(layout)
    engine.fail(FAILING, 1)
    engine.run()
    engine.fail(QUIET, 3)
    engine.interrupt(commits=1)
    together = [read_footer(output, SHARD).together for output in engine.outputs]
    (noted,) = [each for each in together if each is not None]
    assert all(len(runs) == 1 for runs in noted.rows.values())
    engine.retry()
    assert [invalid for _, invalid in engine.contents] == [invalid for _, invalid in expected]
    engine.fail(QUIET, 4)
    engine.retry()
    assert engine.calls == []


@pytest.mark.parametrize("layout", ["reasons first", "reasons last", "each keeps the other's"])
def test_a_retry_for_another_reason_ends_what_was_begun(make_engine, layout):
    failing = {2: {"score": "timeout"}, 3: {"picture": "timeout", "score": "timeout"}}
    expected, changed = undisturbed(make_engine, layout, failing)
    assert changed == 2
    engine = make_engine(layout)
    engine.fail(failing, 1)
    engine.run()
    engine.fail({}, 2)
    engine.interrupt(commits=1)
    engine.fail(QUIET, 3)
    engine.retry("out_of_memory")
    assert engine.contents == expected


def test_a_shard_that_was_made_again_meanwhile_is_not_retried(make_engine):
    engine = make_engine("reasons in all three")
    engine.fail(FAILING, 1)
    engine.run()
    engine.interrupt(commits=1)
    engine.fail(QUIET, 2)
    engine.run()
    expected = engine.contents
    engine.fail(QUIET, 3)
    engine.retry()
    assert (engine.calls, engine.contents) == ([], expected)


def test_the_report_of_the_next_retry_tells_what_the_rows_had(make_engine):
    engine = make_engine("reasons first")
    engine.fail(FAILING, 1)
    engine.run()
    engine.fail({}, 2)
    engine.interrupt(commits=1)
    retried = engine.retry()
    assert retried.report.rows == 2
    assert retried.before == {"out0": {"timeout": 2}, "out1": {"timeout": 2}}


def test_rows_are_chosen_from_every_output_that_keeps_their_reasons(make_engine):
    """As in files of which only the first was replaced, by a version that left no note of it."""
    engine = make_engine("reasons in both")
    engine.replace_but_second(QUIET, 1)
    engine.fail(QUIET, 2)
    engine.retry()
    assert engine.calls == [(2, 2)]
    for table, invalid in engine.contents:
        assert table["score"].to_pylist()[:5] == [1, 1, 2, 2, 1]
        assert table["why"].to_pylist()[:5] == [None] * 5
        assert invalid == {"score": {"missing": 1, "crashed": 1}}


def test_an_output_counts_what_its_own_reasons_say(make_engine):
    engine = make_engine("reasons in both")
    engine.replace_but_second(QUIET, 1)
    engine.fail({}, 2)
    engine.retry("missing")
    assert [invalid["score"] for _, invalid in engine.contents] == [{"crashed": 1}, {"timeout": 2, "crashed": 1}]


def test_counted_rows_that_no_output_can_tell_are_an_error(make_engine):
    engine = make_engine("reasons first")
    engine.replace_but_second({2: {"score": "timeout"}}, 2)
    before = engine.contents
    with pytest.raises(ShardError, match=r"out1/a\.parquet: .*2 rows of 'score'.*1(.|\n)*remove that file"):
        engine.retry()
    assert engine.contents == before


def test_outputs_that_share_reasons_get_the_same_rows(make_engine):
    """A row that is computed again may fail where it did not: no output may say so of another's old value."""
    engine = make_engine("reasons in two of three")
    engine.fail({2: {"picture": "timeout"}, 3: {"score": "timeout"}}, 1)
    engine.run()
    engine.fail({2: {"score": "crashed"}}, 2)
    engine.retry()
    one, two, three = (table for table, _ in engine.contents)
    for table in (one, three):
        assert table["score"].to_pylist()[:5] == [1, 1, None, 2, 1]
    for table in (one, two):
        assert table["why"].to_pylist()[:5] == [None, None, "crashed", None, None]
    assert [invalid for _, invalid in engine.contents] == [
        {"score": {"crashed": 1}},
        {"image": {}},
        {"score": {"crashed": 1}, "image": {}},
    ]
