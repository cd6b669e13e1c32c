"""The values of columns, held to what the op says that made them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sidecar_runtimes.testing.ops  # noqa: F401 - registers ask_first
from sidecar_core.dataset import load_dataset
from sidecar_core.output_checks import OutputCheck
from sidecar_core.pipeline import OutputSpec, build_pipeline
from sidecar_core.plan import plan_run
from sidecar_core.storage import open_storage
from sidecar_runtimes.content_checks import planned_checks
from sidecar_runtimes.verify import verify_dataset

ROWS = 5000


@pytest.fixture
def folders(tmp_path):
    """Writes a main dataset of one shard; returns its folder and that of an empty output."""
    for name in ("main", "out"):
        (tmp_path / name).mkdir()
    keys = [f"k{row}" for row in range(ROWS)]
    pq.write_table(pa.table({"image_key": keys}), tmp_path / "main/a.parquet")
    return tmp_path / "main", tmp_path / "out"


def verify(folders, columns, **options):
    keys = pq.read_table(folders[0] / "a.parquet").column("image_key")
    pq.write_table(pa.table({"image_key": keys, **columns}), folders[1] / "a.parquet", row_group_size=700)
    main, output = (open_storage(f"{folder}/") for folder in folders)
    return verify_dataset(main, output, key_column="image_key", **options)


def test_every_row_of_all_shards_is_looked_at_and_named(folders):
    values = [1] * ROWS
    values[0] = values[4321] = 7
    report = verify(folders, {"asked": values}, sample=None)
    assert [(each.kind, each.message) for each in report.problems] == [
        ("content", "a.parquet row 0: asked is 7"),
        ("content", "a.parquet row 4321: asked is 7"),
    ]
    assert report.content == {"ones": ROWS}


def test_rows_of_sampled_shards_are_spread_over_them(folders):
    seen = []

    def check(table):
        seen.extend(table.column("n").to_pylist())
        return []

    report = verify(folders, {"n": list(range(ROWS))}, sample=1, checks=[OutputCheck("numbers", ("n",), check)])
    assert seen == list(range(0, ROWS, 2))
    assert report.content == {"numbers": len(seen)}
    assert report.ok


def test_of_many_faults_the_first_are_told_and_the_rest_counted(folders):
    report = verify(folders, {"asked": [0] * ROWS}, sample=None)
    assert len(report.problems) == 11
    assert report.problems[-1].message == f"a.parquet: {ROWS - 10} more rows fail the check of the ones"


def test_a_column_that_is_not_there_is_a_fault(folders):
    report = verify(folders, {"asked_too": [1] * ROWS})
    assert [(each.kind, each.message) for each in report.problems] == [
        ("schema", "a.parquet: no column 'asked', which belongs to the ones")
    ]


def test_a_column_that_is_there_twice_is_a_fault(folders):
    keys = pq.read_table(folders[0] / "a.parquet").column("image_key")
    path = folders[1] / "a.parquet"
    pq.write_table(pa.table([keys, [1] * ROWS, [1] * ROWS], names=["image_key", "asked", "asked"]), path)
    main, output = (open_storage(f"{folder}/") for folder in folders)
    report = verify_dataset(main, output, key_column="image_key")
    assert "a.parquet: 2 columns 'asked', which belong to the ones" in [each.message for each in report.problems]


def test_other_outputs_are_not_looked_at(folders):
    assert verify(folders, {"other": [0] * ROWS}).content == {}


def test_an_op_that_cannot_be_loaded_is_told_of_once_and_is_no_fault(folders, tmp_path, monkeypatch, caplog):
    offered = tmp_path / "offered/broken-1.dist-info"
    offered.mkdir(parents=True)
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (offered / "entry_points.txt").write_text("[sidecar.ops]\nbroken_op = no_such_module:Broken\n")
    monkeypatch.syspath_prepend(str(offered.parent))
    for name in ("b", "c"):
        pq.write_table(pq.read_table(folders[0] / "a.parquet"), folders[0] / f"{name}.parquet")
        pq.write_table(pq.read_table(folders[0] / "a.parquet"), folders[1] / f"{name}.parquet")
    report = verify(folders, {"asked": [1] * ROWS})
    assert not [problem for problem in report.problems if problem.kind == "content"]
    assert caplog.text.count("'broken_op' cannot say whether it made the output") == 1


def test_a_pipelines_checks_have_the_names_of_its_outputs(folders, tmp_path):
    yaml = tmp_path / "dataset.yaml"
    yaml.write_text(f"name: e\nmain_prefix: {folders[0]}\nsidecar_prefix: {folders[1]}\nkey_column: image_key\n")
    output = OutputSpec(name="one", prefix=f"{tmp_path}/1/", columns={"renamed": "asked"})
    pipeline = build_pipeline(load_dataset(yaml), [{"type": "ask_first", "file": "/x"}], outputs=[output])
    main = open_storage(f"{folders[0]}/")
    plan = plan_run(pipeline, main, main.list_shards(), {"one": f"{tmp_path}/1/"})
    (check,) = planned_checks(plan, plan.outputs[0])
    assert check.columns == ("renamed",)
    assert list(check.check(pa.table({"renamed": [1, 2]}))) == [(1, "asked is 2")]
    assert check.stored_as({"asked": "asked"}) is None
