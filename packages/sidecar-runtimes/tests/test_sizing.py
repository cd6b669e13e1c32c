from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import ConfigError, UsageError
from sidecar_runtimes.instance_types import INSTANCE_TYPES, InstanceType, find_instance_type, load_instance_types
from sidecar_runtimes.sizing import ObservedRate, WorkerSize, count_nodes, duration, required_workers, shards_per_hour

OBSERVED = ObservedRate(0.12, 32)


def test_the_golden_example():
    assert shards_per_hour(10_000_000, 512) == 19_532
    assert round(19_532 / 3600, 2) == 5.43
    workers = required_workers(10_000_000, 512, OBSERVED)
    assert workers == 1_447
    assert workers * 6 == 8_682
    node = find_instance_type("m5.24xlarge")
    assert (node.cpus, node.memory_gib) == (96, 384)
    at_6 = count_nodes(workers, WorkerSize(1, 6), node)
    assert 40 * at_6.workers_by_memory >= workers > 32 * at_6.workers_by_memory
    assert 32 < at_6.nodes <= 40
    assert at_6.tighter == "memory"
    assert count_nodes(workers, WorkerSize(1, 5), node).nodes <= 32


@given(
    workers=st.integers(1, 5000),
    cpus=st.integers(1, 16),
    memory=st.floats(0.5, 40),
    node=st.sampled_from(list(INSTANCE_TYPES.values())),
    fraction=st.floats(0.3, 1),
)
def test_the_nodes_hold_the_workers_and_one_less_does_not(workers, cpus, memory, node, fraction):
    try:
        count = count_nodes(workers, WorkerSize(cpus, memory), node, memory_fraction=fraction)
    except UsageError:
        assert cpus > node.cpus or memory > node.memory_gib * fraction
        return
    assert count.workers_a_node * cpus <= node.cpus
    assert count.workers_a_node * memory <= node.memory_gib * fraction
    assert count.nodes * count.workers_a_node >= workers > (count.nodes - 1) * count.workers_a_node
    assert count.nodes == math.ceil(workers / count.workers_a_node)
    decides = {"cpu": count.nodes_by_cpu, "memory": count.nodes_by_memory, "both": count.nodes_by_cpu}
    assert count.nodes == decides[count.tighter]


@given(
    target=st.integers(1, 10**10),
    rows=st.integers(1, 10**6),
    rate=st.floats(1e-4, 1e3),
    workers=st.integers(1, 500),
)
def test_the_workers_reach_the_target(target, rows, rate, workers):
    observed = ObservedRate(rate, workers)
    needed = required_workers(target, rows, observed)
    took = duration(target, rows, observed, workers=needed, nodes=3, usd_per_hour=2.0)
    assert took.hours <= 1 + 1e-9
    assert took.usd == pytest.approx(took.hours * 6)
    assert took.rows_per_hour >= target * (1 - 1e-9)
    if needed > 1:
        assert duration(target, rows, observed, workers=needed - 1, nodes=3, usd_per_hour=None).hours > 1 - 1e-9


@pytest.mark.parametrize(("rate", "workers"), [(0, 1), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0)], ids=str)
def test_rates_that_are_none_are_refused(rate, workers):
    with pytest.raises(UsageError):
        required_workers(1000, 10, ObservedRate(rate, workers))


def test_a_worker_that_fits_on_no_node_is_refused():
    with pytest.raises(UsageError, match=r"2 CPUs and 9 GiB does not fit on m5.large: 2 CPUs, and 5.5 of 8 GiB"):
        count_nodes(1, WorkerSize(2, 9), find_instance_type("m5.large"))


def test_an_unknown_instance_type_names_the_nearest():
    with pytest.raises(UsageError, match=r"'m5.24xlarg'; did you mean 'm5.24xlarge'"):
        find_instance_type("m5.24xlarg")


def test_a_yaml_file_adds_instance_types(tmp_path):
    file = tmp_path / "types.yaml"
    file.write_text("instance_types:\n  big.node: {cpus: 192, memory_gib: 768}\n")
    assert load_instance_types(file)["big.node"] == InstanceType("big.node", 192, 768.0, None)
    assert "m5.24xlarge" in load_instance_types(file)
    file.write_text("instance_types:\n  big.node: {cpu: 192, memory_gib: -1}\n")
    with pytest.raises(ConfigError, match=r"unknown key 'cpu'; did you mean 'cpus'(.|\n)*memory_gib"):
        load_instance_types(file)


@pytest.mark.parametrize(
    "entry",
    [
        "{cpus: .inf, memory_gib: 8}",
        "{cpus: 8, memory_gib: .inf}",
        "{cpus: 8, memory_gib: .nan}",
        "{cpus: 8, memory_gib: 8, usd_per_hour: .inf}",
        "{cpus: 0, memory_gib: 8}",
        "{cpus: 8.5, memory_gib: 8}",
        "null",
    ],
)
def test_kinds_of_nodes_that_there_cannot_be(tmp_path, entry):
    file = tmp_path / "types.yaml"
    file.write_text(f"instance_types: {{our.node: {entry}}}\n")
    with pytest.raises(ConfigError, match=r"types.yaml:1:\d+: instance_types\['our.node'\]"):
        load_instance_types(file)
