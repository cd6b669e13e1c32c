"""Merge, join and recaption through the program: what a user sees when it works, and when it does not."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.testing.datasets import read_dataset

RAY = {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": ""}
RUNTIMES = [
    pytest.param(["--runtime", "local"], id="local"),
    pytest.param(["--runtime", "actor", "--num-actors", "2"], id="actor", marks=[pytest.mark.ray, pytest.mark.slow]),
]


@pytest.fixture
def team(tmp_path):
    """A main dataset of four shards, a source with some of its keys, and a pipeline that joins them."""
    for folder in ("main", "configs/datasets", "configs/pipelines", "tables"):
        (tmp_path / folder).mkdir(parents=True)
    for shard in range(4):
        pq.write_table(
            pa.table({"id": [f"{shard}-{row}" for row in range(5)]}), tmp_path / f"main/part-{shard}.parquet"
        )
    (tmp_path / "configs/datasets/team.yaml").write_text(
        "name: team\nmain_prefix: ../../main\nsidecar_prefix: ../../sidecar\nkey_column: id\n"
    )
    (tmp_path / "configs/pipelines/join.yaml").write_text(
        "dataset: team\noperations:\n"
        "  - {type: join_from_parquet, source: ../../tables/scores.parquet, columns: [score]}\n"
    )
    write_scores(tmp_path, ["3-1", "0-0", "2-4", "elsewhere"])
    return tmp_path


def write_scores(folder, keys):
    table = pa.table({"id": keys, "score": pa.array(range(len(keys)), pa.int16())})
    pq.write_table(table, folder / "tables/scores.parquet")


@pytest.fixture
def run(sidecar, team):
    def run(*more, status=0, command="run"):
        environment = {**RAY, "SIDECAR_CACHE_DIR": str(team / "cache")}
        pipeline = team / "configs/pipelines/join.yaml"
        return sidecar(command, pipeline, "--output-prefix", team / "out", *more, status=status, env=environment)

    return run


def scores(folder):
    tables = read_dataset(folder / "out").values()
    return {row["id"]: row["score"] for table in tables for row in table.to_pylist() if row["score"] is not None}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_joined_and_verified(run, team, runtime):
    run(*runtime)
    assert scores(team) == {"3-1": 0, "0-0": 1, "2-4": 2}
    assert "aligned" in run("--all", command="verify").stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_source_that_is_not_there(run, team, runtime):
    (team / "tables/scores.parquet").unlink()
    for more in ([], ["--dry-run"]):
        ended = run(*runtime, *more, status=2)
        assert "join.yaml:3:5: operations[0]: source " in ended.stderr
        assert "tables/scores.parquet is not there" in ended.stderr
        assert "fix: check source" in ended.stderr
    assert not (team / "out").exists() or not list((team / "out").rglob("*.parquet"))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_source_with_a_key_twice_ends_the_run_once(run, team, runtime):
    write_scores(team, ["0-0", "3-1", "0-0"])
    ended = run(*runtime, status=2)
    assert ended.stderr.count("'0-0'") == 1
    assert "scores.parquet" in ended.stderr
    assert "duplicates" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list((team / "out").glob("*.parquet"))
    assert not list((team / "out").rglob("failed_shards.jsonl"))


def test_tasks_are_refused_with_what_to_type(run, team):
    ended = run("--runtime", "ray", status=2)
    assert (
        "operations[0]: runtime 'ray' cannot load side inputs, and 'join_from_parquet' declares 'index'" in ended.stderr
    )
    assert "fix: --runtime actor" in ended.stderr
    assert not (team / "out").exists() or not list((team / "out").rglob("*.parquet"))


def test_a_changed_source_makes_shards_stale(run, team):
    run()
    again = json.loads(run("--skip-existing", "--dry-run", "--json").stdout)
    assert again["states"] == {"done": 4, "stale": 0, "partial": 0, "missing": 0}
    write_scores(team, ["0-1", "0-2"])
    ended = run("--skip-existing", status=3)
    assert "scores.parquet changed" in ended.stderr
    assert json.loads(run("--skip-existing", "--dry-run", "--json").stdout)["states"]["stale"] == 4
    assert scores(team) == {"3-1": 0, "0-0": 1, "2-4": 2}
    run("--skip-existing", "--redo-stale")
    assert scores(team) == {"0-1": 0, "0-2": 1}


@pytest.mark.ray
@pytest.mark.slow
def test_all_in_one_on_actors_is_what_it_is_here(sidecar, tmp_path):
    """Scaffold, filters, merge, join and recaption on the demo's pictures; `sidecar demo` checks the local rows."""
    environment = {**RAY, "SIDECAR_CACHE_DIR": str(tmp_path / "cache")}
    sidecar("demo", tmp_path / "demo", env=environment)
    pipeline = tmp_path / "demo/configs/pipelines/annotated.yaml"
    sidecar("run", pipeline, "--output-prefix", tmp_path / "out", *RUNTIMES[1].values[0], env=environment)
    made, expected = read_dataset(tmp_path / "out"), read_dataset(tmp_path / "demo/annotated")
    assert made.keys() == expected.keys()
    for rel_path, table in expected.items():
        assert made[rel_path].equals(table)
    sidecar("verify", pipeline, "--output-prefix", tmp_path / "out", "--all", env=environment)
