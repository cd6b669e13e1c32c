"""DuckDB over streams and over tables that are read by column."""

from __future__ import annotations

import signal
import subprocess
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.sql_query import query_data
from sidecar_core import open_aligned
from sidecar_core.errors import AlignmentError, UsageError
from sidecar_core.reader import AlignedDatasets


@pytest.fixture
def prefixes(tmp_path):
    """A main dataset of two shards whose first column is a picture, and a sidecar of it."""
    for number in range(2):
        keys = [f"{number}-{row}" for row in range(5)]
        main = {"image": [b"x" * row for row in range(5)], "image_key": keys, "caption": [None, "a", "b", "a", "c"]}
        sidecar = {"image_key": keys, "measure": [{"mean": float(row), "tags": ["t"] * row} for row in range(5)]}
        for kind, columns in (("main", main), ("sidecar", sidecar)):
            (tmp_path / kind).mkdir(exist_ok=True)
            pq.write_table(pa.table(columns), tmp_path / kind / f"{number}.parquet", row_group_size=2)
    return tmp_path / "main", tmp_path / "sidecar"


def test_a_stream_is_what_duckdb_takes(prefixes):
    main, sidecar = prefixes
    reader = open_aligned(main, [sidecar], columns=["caption", "measure"], key_column="image_key")
    found = duckdb.from_arrow(reader).filter("measure.mean >= 3").aggregate("caption, count(*)", "caption")
    assert sorted(found.fetchall()) == [("a", 2), ("c", 2)]


def test_a_stream_that_breaks_says_why_through_duckdb(prefixes):
    main, sidecar = prefixes
    path = sidecar / "1.parquet"
    pq.write_table(pq.read_table(path).take(pa.array([1, 0, 2, 3, 4])), path)
    reader = open_aligned(main, [sidecar], key_column="image_key")
    with pytest.raises(duckdb.Error, match=r"1\.parquet row 0: 'image_key' is '1-0' at .* and '1-1' at"):
        duckdb.from_arrow(reader).fetchall()


@pytest.fixture
def data(prefixes):
    return AlignedDatasets.open(prefixes[0], [prefixes[1]], key_column="image_key")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select count(*) from data", [(10,)]),
        ("select sum(measure.mean) from data where caption = 'a'", [(8.0,)]),
        ("select image_key from data where len(measure.tags) = 4 and caption is not null", [("0-4",), ("1-4",)]),
        (
            "select count(*) from data one join data two on one.image_key = two.image_key where two.caption = 'b'",
            [(2,)],
        ),
        ("select image from data where image_key in ('0-1', '1-2') order by all", [(b"x",), (b"xx",)]),
        ("select caption from data where caption is null or measure.mean between 1 and 1", [(None,), ("a",)] * 2),
        ("select count(*) from (select * from data limit 3)", [(3,)]),
        ("with t as (select caption c from data) select count(distinct c) from t; select 7", [(7,)]),
    ],
)
def test_queries(data, query, expected):
    assert list(query_data(data, query, max_rows=100).rows) == expected


def test_key_comes_first_and_pictures_last(data):
    assert query_data(data, "select * from data limit 1", max_rows=5).columns == (
        "image_key",
        "caption",
        "measure",
        "image",
    )


def test_the_datasets_own_errors_stay_what_they_are(prefixes, data):
    path = prefixes[1] / "0.parquet"
    pq.write_table(pq.read_table(path).take(pa.array([1, 0, 2, 3, 4])), path)
    with pytest.raises(AlignmentError):
        query_data(data, "select measure from data", max_rows=5)
    with pytest.raises(UsageError, match="--sql: "):
        query_data(data, "select measures from data", max_rows=5)


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to 'out.csv'",
        "export database 'out'",
        "attach 'out.db'",
        "select * from read_text('secret.txt')",
        "select * from 'main/0.parquet'",
        "select * from glob('*')",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset lock_configuration",
        "set log_query_path = 'out.sql'; select 1",
        "pragma enable_profiling = 'json'; pragma profiling_output = 'out.json'; select 1",
        "call enable_logging(storage = 'file', storage_path = 'out'); select 1",
    ],
)
def test_a_query_sees_the_table_and_nothing_else(tmp_path, data, monkeypatch, query):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="--sql: ") as caught:
        query_data(data, query, max_rows=5)
    assert "data" in (caught.value.expected or "")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_query_larger_than_memory_leaves_nothing_behind(tmp_path, data, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    query = "select value from duckdb_settings() where name = 'temp_directory'"
    ((spilled,),) = query_data(data, query, max_rows=5).rows
    assert spilled.startswith(str(temporary))
    assert not list(temporary.iterdir())


ENDLESS = """
import sys, threading
from sidecar_cli import main as program
import sidecar_cli.sql_query
threading.Timer(1, print, ["running"], {"flush": True}).start()
query = "select image_key from data, range(1000000000000) where range < 0"
sys.exit(program.main(["inspect", sys.argv[1], "--sql", query]))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_an_endless_query_can_be_interrupted(prefixes, sent):
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, prefixes[0]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr.readline() == "running\n"
            process.send_signal(sent)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "")
