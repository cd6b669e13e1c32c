"""`plan`: from a rate to workers, nodes, hours, cost and a manifest."""

from __future__ import annotations

import io
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sidecar_core.isolation.options import available_cores

GIVEN = ("--observed-rate", "0.12", "--observed-actors", "32", "--rows-per-shard", "512")


@pytest.fixture
def plan(sidecar_here, team):
    def run(*arguments):
        return sidecar_here("plan", team.pipeline, "--target-rows-per-hour", "10000000", *arguments)

    return run


def test_the_golden_example(plan):
    done = plan(*GIVEN, "--actor-memory-gb", "6")
    assert done.returncode == 0, done.stderr
    for words in (
        "10,000,000 / 512 rows a shard = 19,532 shards/h = 5.43 shards/s",
        "5.43 / 0.12 x 32 = 1,447",
        "1,447 CPUs, 8,682 GiB",
        "m5.24xlarge: 96 CPUs, 384 GiB",
        "44 workers a node, 33 nodes",
        "33 beside the head; memory is the tighter one",
    ):
        assert words in done.stdout, done.stdout
    found = json.loads(plan(*GIVEN, "--actor-memory-gb", "5", "--json").stdout)
    assert found["nodes"]["count"] <= 32
    assert (found["workers"], found["shards_per_hour"]) == (1447, 19532)


def test_small_numbers_are_not_rounded_away(plan):
    tiny = ("--rows", "100000", "--instance-type", "m5.large", "--nodes", "1")
    done = plan(*GIVEN, "--actor-memory-gb", "0.5", "--target-rows-per-hour", "34000", *tiny)
    assert " 1 CPU, 0.5 GiB\n" in done.stdout
    assert " 5 CPUs, 2.5 GiB\n" in done.stdout
    assert "5.5 GiB for workers (0.69): 11 workers a node, 1 node" in done.stdout
    assert "2 on 1 node" in done.stdout
    assert "0.69 USD for the nodes" in done.stdout


def test_the_nodes_that_are_to_be_had_give_workers_and_hours(plan):
    arguments = (*GIVEN, "--actor-memory-gb", "6", "--rows", "100000000", "--nodes", "10", "--json")
    found = json.loads(plan(*arguments).stdout)
    assert found["workers"] == 1447
    assert found["at_hand"]["workers"] == 440
    per_hour = 0.12 / 32 * 440 * 512 * 3600
    assert found["at_hand"]["hours"] == pytest.approx(1e8 / per_hour, rel=1e-3)
    assert found["at_hand"]["usd"] == pytest.approx(1e8 / per_hour * 10 * 4.608, rel=1e-3)
    assert found["rows"]["hours"] == pytest.approx(10, rel=1e-2)
    dear = json.loads(plan(*arguments, "--usd-per-hour", "46.08").stdout)
    assert dear["rows"]["usd"] == pytest.approx(10 * found["rows"]["usd"], rel=1e-3)


def test_a_smoke_run_gives_rate_and_memory(plan, team):
    before = sorted(path for path in team.root.rglob("*") if path.is_file())
    found = json.loads(plan("--smoke", "2", "--json").stdout)
    assert sorted(path for path in team.root.rglob("*") if path.is_file()) == before
    assert (found["smoke"]["shards"], found["smoke"]["rows"], found["rows_per_shard"]) == (2, 10, 5)
    assert found["smoke"]["decode_share"] is None  # it looks at no pixels
    assert found["observed"]["shards_per_s"] > 0
    peak_bytes = found["smoke"]["main_peak_bytes"] + found["smoke"]["worker_peak_bytes"]
    assert found["worker"]["memory_gib"] == math.ceil(peak_bytes * 1.25 / 2**30 / 0.5) * 0.5
    assert found["runtime"]["name"] == "ray"


def test_of_pictures_it_is_told_how_much_of_the_time_decoding_takes(plan, team):
    data = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((900, 700)).save(data, "JPEG")
    for path in team.main.rglob("*.parquet"):
        table = pq.read_table(path)
        pictures = pa.array([data.getvalue()] * table.num_rows)
        pq.write_table(table.set_column(table.schema.get_field_index("image"), "image", pictures), path)
    with team.pipeline.open("a") as file:
        file.write("  - {type: compute_filters, filters: [luma]}\n")
    found = json.loads(plan("--smoke", "1", "--json").stdout)
    assert found["smoke"]["invalid_rows"] == 0
    assert 0 < found["smoke"]["decode_share"] <= 1


def test_a_smoke_run_takes_no_more_cores_than_there_are(plan):
    found = json.loads(plan("--smoke", "2", "--actor-cpus", "90", "--json").stdout)
    assert found["smoke"]["cores"] == min(90, available_cores())
    per_core = found["smoke"]["rows_per_s_per_core"]
    assert found["observed"]["shards_per_s"] == pytest.approx(per_core * 90 / found["rows_per_shard"], rel=0.02)
    assert found["worker"]["memory_gib"] * 2**30 >= 90 * found["smoke"]["worker_peak_bytes"]


def test_values_of_the_yaml_are_set_for_the_plan(plan, team):
    (team.root / "one").mkdir()
    (team.main / "deep/part-1.parquet").rename(team.root / "one/part-0.parquet")
    done = plan("--set", f"dataset.main_prefix={team.root}/one", "--smoke", "2")
    assert "1 shard, 5 rows, 0 invalid" in done.stdout, done.stderr


def test_shards_without_rows_measure_nothing(plan, team):
    for path in team.main.rglob("*.parquet"):
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    refused = plan("--smoke", "2")
    assert refused.returncode == 2, refused.stderr
    assert "no row to measure in 2 shards of" in refused.stderr


def test_other_instance_types_come_from_a_file(plan, team):
    (team.root / "types.yaml").write_text("instance_types: {big: {cpus: 200, memory_gib: 1000, usd_per_hour: 1}}\n")
    arguments = (*GIVEN, "--actor-memory-gb", "1", "--instance-type", "big", "--json")
    found = json.loads(plan(*arguments, "--instance-types", "types.yaml").stdout)
    assert (found["nodes"]["count"], found["nodes"]["tighter"]) == (8, "cpu")
    refused = plan(*arguments)
    assert refused.returncode == 2
    assert "unknown instance type 'big'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing says how fast one worker is"),
        (("--observed-rate", "1"), "--observed-rate and --observed-actors go together"),
        (("--smoke", "1", "--observed-rate", "1"), "contradict each other"),
        (GIVEN, "how much memory each worker needs"),
        ((*GIVEN, "--actor-memory-gb", "nan"), "--actor-memory-gb nan"),
        ((*GIVEN, "--actor-memory-gb", "-1"), "--actor-memory-gb -1"),
        (("--observed-rate", "nan", *GIVEN[2:], "--actor-memory-gb", "1"), "--observed-rate nan"),
        ((*GIVEN, "--actor-memory-gb", "1000"), "does not fit on m5.24xlarge"),
        ((*GIVEN, "--actor-memory-gb", "1", "--memory-fraction", "0"), "--memory-fraction 0.0: must be above 0"),
        ((*GIVEN, "--actor-memory-gb", "1e-320"), "--actor-memory-gb 1e-320: must be at least 0.01"),
        ((*GIVEN, "--actor-memory-gb", "1", "--nodes", "0"), "--nodes 0: must be at least 1"),
        ((*GIVEN, "--actor-memory-gb", "1", "--usd-per-hour", "1e308"), "--usd-per-hour 1e+308: must be"),
        (("--observed-rate", "1e-320", *GIVEN[2:], "--actor-memory-gb", "1"), "--observed-rate 1e-320: must be"),
        ((*GIVEN[:2], "--observed-actors", "1" + "0" * 400, "--actor-memory-gb", "1"), "--observed-actors 1"),
        ((*GIVEN, "--actor-memory-gb", "1", "--target-rows-per-hour", "1" + "0" * 400), "--target-rows-per-hour"),
        (("--smoke", "0"), "--smoke 0: must be at least 1"),
    ],
    ids=str,
)
def test_numbers_that_make_no_plan_are_bad_usage(plan, arguments, words):
    refused = plan(*arguments)
    assert refused.returncode == 2, refused.stdout
    assert words in refused.stderr
