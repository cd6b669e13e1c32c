"""`inspect`: of outputs that runs made, of main datasets and files, and SQL over several of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_cli.sql_query import query_data
from sidecar_core.reader import AlignedDatasets
from sidecar_core.testing.datasets import damage_column


@pytest.fixture
def out(sidecar_here, team):
    """An output of the team's pipeline."""
    assert sidecar_here("run", team.pipeline, "--output-prefix", "out").returncode == 0
    return team.root / "out"


@pytest.fixture
def other(team):
    """A sidecar that another program made of the team's main dataset."""
    struct = pa.struct([("status", pa.string()), ("n", pa.int64())])
    for number in range(2):
        table = pq.read_table(team.main / f"deep/part-{number}.parquet", columns=["image_key"])
        status = [{"status": "ok" if row % 2 else "bad", "n": 10 * number + row} for row in range(4)]
        table = table.append_column("check", pa.array([*status, None], struct))
        path = team.root / f"other/deep/part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    return team.root / "other"


def test_an_output_tells_what_it_holds_and_where_it_is_from(sidecar, out, team):
    shown = sidecar("inspect", "out")
    assert shown.returncode == 0, shown.stderr
    words = " ".join(shown.stdout.split())
    assert f"place {out}/ shards 2" in words
    assert "rows 10 written by sidecar" in words
    assert "column type null null % image_key string 0 0.0 caption string 0 0.0 score float 10 100.0" in words
    assert f"main dataset {team.main}/" in words
    assert "image_key 0/é 0.jpg 0/é 1.jpg" in words


def test_as_json(sidecar_here, out, team):
    found = json.loads(sidecar_here("inspect", "out", "--json", "--rows", "2").stdout)
    assert (found["shards"], found["shards_looked_at"], found["rows"]) == (2, 2, 10)
    score = {"name": "score", "type": "float", "null": 10, "rows": 10, "null_fraction": 1.0}
    assert found["columns"][2] == score
    assert found["head"] == [{"image_key": f"0/é {row}.jpg", "caption": "a", "score": None} for row in range(2)]
    (made,) = found["provenance"]
    assert made["shards"] == 2
    assert made["inputs"] == [{"kind": "main", "prefix": f"{team.main}/", "shards": 2}]
    assert len(made["fingerprint"]) == 64
    assert found["bytes"] == sum(path.stat().st_size for path in out.rglob("deep/*.parquet"))


def test_a_main_dataset_and_one_file(sidecar_here, team):
    main = json.loads(sidecar_here("inspect", team.main, "--json").stdout)
    assert main["provenance"] == []
    assert main["head"][0]["image"] == "<1 bytes>"
    file = team.main / "deep/part-1.parquet"
    found = json.loads(sidecar_here("inspect", file, "--json").stdout)
    assert (found["place"], found["shards"], found["rows"]) == (str(file), 1, 5)
    assert "written by  another program" in sidecar_here("inspect", file).stdout


def test_structs_are_null_when_everything_in_them_is(sidecar_here, team):
    rows = [{"a": None, "b": None}, None, {"a": 1, "b": None}]
    struct = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.list_(pa.int8()))]))])
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pictures = [{"bytes": b"1", "path": None}, {"bytes": None, "path": "x"}, None]
    table = pa.table({"s": pa.array(rows, struct), "picture": pa.array(pictures, picture), "l": [[], None, [None]]})
    pq.write_table(table, team.root / "x.parquet", row_group_size=2)
    found = json.loads(sidecar_here("inspect", "x.parquet", "--json").stdout)
    nulls = {column["name"]: column["null"] for column in found["columns"]}
    inner = {"s": 2, "s.a": 2, "s.b": 3, "s.b.c": 3}
    assert nulls == {**inner, "picture": 2, "picture.bytes": 2, "picture.path": 2, "l": 1}


def test_pictures_are_not_read_to_count_their_nulls(sidecar_here, team):
    file = team.main / "deep/part-0.parquet"
    damage_column(file, "image")
    found = json.loads(sidecar_here("inspect", file, "--json", "--rows", "0").stdout)
    assert {column["name"]: column["null"] for column in found["columns"]}["image"] == 0
    table = pq.read_table(team.main / "deep/part-1.parquet")
    pq.write_table(table, team.root / "none.parquet", write_statistics=False)
    found = json.loads(sidecar_here("inspect", "none.parquet", "--json").stdout)
    nulls = {column["name"]: column["null"] for column in found["columns"]}
    assert nulls == {"image_key": 0, "image": None, "caption": 0}


def test_samples_bad_shards_and_other_schemas_are_told(sidecar_here, team):
    for number in range(2, 6):
        (team.main / f"deep/part-{number}.parquet").write_bytes((team.main / "deep/part-0.parquet").read_bytes())
    words = " ".join(sidecar_here("inspect", team.main, "--sample", "3").stdout.split())
    assert "rows 15 in 3 shards drawn at random; about 30 in all" in words
    (team.main / "deep/part-3.parquet").write_bytes(b"")
    (team.main / "_SUCCESS").write_bytes(b"")
    pq.write_table(pa.table({"image_key": ["x"]}), team.main / "deep/part-4.parquet")
    shown = sidecar_here("inspect", team.main)
    assert shown.returncode == 0
    assert "1 shard with other columns than the first: deep/part-4.parquet" in shown.stdout
    assert re.search(r"1 shard that cannot be read: .*deep/part-3\.parquet: not a readable Parquet file", shown.stdout)


def test_long_and_strange_values_stay_on_their_line(sidecar_here, team):
    table = pa.table({"text": ["x\n\x1b[31m" + "y" * 5000], "when": [pa.scalar(0, pa.timestamp("ns", "UTC"))]})
    pq.write_table(table, team.root / "x.parquet")
    shown = sidecar_here("inspect", "x.parquet").stdout
    assert "\x1b" not in shown
    assert all(len(line) < 200 for line in shown.splitlines())
    assert json.loads(sidecar_here("inspect", "x.parquet", "--json").stdout)["head"][0]["text"].endswith("y" * 5000)


def test_numbers_in_structs_are_short_for_people_and_whole_for_programs(sidecar_here, team):
    numbers = [0.36116987, 1234567.75, 0.0, -2.5e-7]
    pq.write_table(pa.table({"measure": [{"mean": number} for number in numbers]}), team.root / "x.parquet")
    shown = sidecar_here("inspect", "x.parquet").stdout
    for short in ("0.3612", "1234568.0", "0.0", "-2.5e-07"):
        assert f'{{"mean": {short}}}' in shown
    head = json.loads(sidecar_here("inspect", "x.parquet", "--json").stdout)["head"]
    assert [row["measure"]["mean"] for row in head] == numbers


def test_values_that_are_no_python_values_are_shown_all_the_same(sidecar_here, team):
    not_text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    nested = pa.StructArray.from_arrays([not_text, pa.array([2**62], pa.timestamp("us"))], ["text", "when"])
    pq.write_table(pa.table({"text": not_text, "nested": nested}), team.root / "x.parquet")
    shown = sidecar_here("inspect", "x.parquet", "--json")
    assert json.loads(shown.stdout)["head"][0]["text"] == "<2 bytes>", shown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no such folder"),
        (["empty"], "no shards at"),
        (["out", "--main", "x"], "--main-prefix is for --sql"),
        (["out", "--missing", "null"], "--missing is for --sql"),
        (["out", "--max-rows", "3"], "--max-rows is for --sql"),
        (["out", "--key-column", "x"], "--key-column is for --sql"),
        (["out", "--sample", "0"], "must be at least 1"),
        (["out", "--rows", "-1"], "-1"),
        (["out", "--sql", " "], "--sql is empty"),
        (["out", "--sql", "select 1", "--main", "nowhere"], "no such folder"),
    ],
)
def test_bad_usage(sidecar_here, out, arguments, said):
    (out.parent / "empty").mkdir()
    refused = sidecar_here("inspect", *arguments)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert refused.stdout == ""


def test_sql_over_one_output(sidecar, out, other):
    shown = sidecar("inspect", "other", "--sql", 'select "check".status, count(*) from data group by 1 order by 1')
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == ["status", "count_star()", "bad", "4", "ok", "4", "-", "2"]


def test_sql_over_several_with_the_inspected_one_first(sidecar_here, out, other, team):
    query = 'select image_key, "check".n as n, caption, octet_length(image) as size from data where n > 10 order by n'
    arguments = ["inspect", "out", "--main-prefix", team.main, "--sidecar", "other", "--sql", query, "--json"]
    found = json.loads(sidecar_here(*arguments).stdout)
    assert found["columns"] == ["image_key", "n", "caption", "size"]
    assert found["rows"] == [[f"1/é {row}.jpg", 10 + row, "a", 1] for row in range(1, 4)]
    assert found["complete"] is True


def test_filters_are_kept_when_duckdb_hands_them_down(sidecar_here, other, team):
    """Those of columns that are not in the result, of struct fields, of lists of values, and of nulls."""
    for condition, expected in (
        ('"check".n >= 12', 2),
        ("caption = 'a'", 10),
        ("caption in ('b', 'c')", 0),
        ('"check".status is null', 2),
        ("\"check\".status = 'ok' and image_key like '1/%'", 2),
        ('octet_length(image) > 0 and "check".n < 2', 2),
    ):
        query = f"select image_key from data where {condition}"
        arguments = ["inspect", "other", "--key-column", "image_key", "--main", team.main, "--sql", query, "--json"]
        assert len(json.loads(sidecar_here(*arguments).stdout)["rows"]) == expected, condition


def test_only_columns_that_a_query_uses_are_read(sidecar_here, out, team):
    for number in range(2):
        damage_column(team.main / f"deep/part-{number}.parquet", "image")
    arguments = ["inspect", "out", "--main", team.main, "--sql"]
    for query in ("select count(*) from data", "select image_key from data where caption = 'a'", "describe data"):
        assert sidecar_here(*arguments, query).returncode == 0, query
    failed = sidecar_here(*arguments, "select max(octet_length(image)) from data")
    assert failed.returncode == 1
    assert re.search(r"part-0\.parquet: unreadable after row 0", failed.stderr)


def test_bad_sql_is_told_in_duckdbs_words(sidecar, out):
    for query, said in (
        ("selct 1", "syntax error at or near"),
        ("select nothing from data", "nothing"),
        ("select 1/0 from nowhere", "nowhere"),
        ("select query from data", "query"),  # a variable of the program is no table
    ):
        refused = sidecar("inspect", "out", "--sql", query)
        assert refused.returncode == 2
        assert refused.stderr.startswith("--sql: ")
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr
        assert refused.stdout == ""


def test_reordered_sidecar_is_told_as_everywhere(sidecar_here, out, other, team):
    path = other / "deep/part-1.parquet"
    pq.write_table(pq.read_table(path).take(pa.array([0, 2, 1, 3, 4])), path)
    failed = sidecar_here("inspect", "out", "--sidecar", "other", "--sql", 'select "check".n from data')
    assert failed.returncode == 1
    assert failed.stderr.startswith(
        f"deep/part-1.parquet row 1: 'image_key' is '1/é 1.jpg' at {out}/ and '1/é 2.jpg' at {other}/"
    )
    assert "Traceback" not in failed.stderr


def test_lacking_shards(sidecar_here, out, other):
    (other / "deep/part-1.parquet").unlink()
    arguments = ["inspect", "out", "--sidecar", "other", "--sql", 'select count("check".n) from data']
    failed = sidecar_here(*arguments)
    assert failed.returncode == 1
    assert "lacks 1 of 2 shards" in failed.stderr
    assert sidecar_here(*arguments, "--missing", "null").stdout.split()[-1] == "4"


def test_long_results_are_cut_and_say_so(sidecar_here, out):
    shown = sidecar_here("inspect", "out", "--sql", "select image_key from data", "--max-rows", "3").stdout
    assert "Only the first 3 rows; --max-rows shows more." in shown
    assert shown.count(".jpg") == 3
    shown = sidecar_here("inspect", "out", "--sql", "select image_key from data", "--max-rows", "10").stdout
    assert "Only the first" not in shown


def test_a_query_that_no_row_fits_says_so(sidecar_here, out):
    done = sidecar_here("inspect", "out", "--sql", "select image_key from data where image_key = ''")
    assert done.returncode == 0, done.stderr
    assert "No row fits the query." in done.stdout


def test_statements_without_rows(sidecar_here, out):
    done = sidecar_here("inspect", "out", "--sql", "create table t (a int)")
    assert done.returncode == 0, done.stderr
    done = sidecar_here("inspect", "out", "--sql", ";")
    assert (done.returncode, done.stdout) == (0, "The query has no result.\n")


def test_without_duckdb_it_says_what_to_install(out):
    code = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from sidecar_cli.main import main\n"
        f"sys.exit(main(['inspect', {str(out)!r}, '--sql', 'select 1']))"
    )
    refused = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "fix: pip install 'sidecar-cli[sql]'" in refused.stderr


def test_memory_of_a_query_follows_the_batch(tmp_path):
    rows = 3000
    pictures = pa.array([bytes([row % 256]) * 60_000 for row in range(rows)], pa.large_binary())
    (tmp_path / "main").mkdir()
    keys = [f"key-{row}" for row in range(rows)]
    table = pa.table({"image_key": keys, "image": pictures})
    pq.write_table(table, tmp_path / "main/0.parquet", use_dictionary=False, write_batch_size=8, compression="none")
    size = pictures.nbytes
    del table, pictures
    data = AlignedDatasets.open(tmp_path / "main")
    most = []
    read = AlignedDatasets.read

    class Watched(AlignedDatasets):
        def read(self, columns=None, **options):
            reader = read(self, columns, **options)

            def batches():
                for batch in reader:
                    most.append(pa.total_allocated_bytes() - before)
                    yield batch

            return pa.RecordBatchReader.from_batches(reader.schema, batches())

    watched = Watched(data.key_column, data.schema, data.shards, data.sources, data.lacking)
    before = pa.total_allocated_bytes()
    query = "select sum(octet_length(image)), count(*) from data where octet_length(image) > 10"
    assert query_data(watched, query, max_rows=5).rows == ((rows * 60_000, rows),)
    assert max(most) < size / 2
