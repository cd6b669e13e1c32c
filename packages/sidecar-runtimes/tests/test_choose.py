from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from sidecar_core.errors import UsageError
from sidecar_core.op import BaseOp, OpParams
from sidecar_core.pipeline import build_pipeline
from sidecar_runtimes.choose import choose_runtime, make_runtime
from sidecar_runtimes.local import LocalRuntime
from sidecar_runtimes.ray_actors import RayActorRuntime
from sidecar_runtimes.ray_tasks import RayTaskRuntime
from sidecar_runtimes.run import RunOptions


@pytest.fixture(autouse=True)
def no_cluster_named(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize(("runtime", "address"), [("ray", None), ("actor", None), ("auto", "1.2.3.4:6379")])
def test_without_ray_its_runtimes_are_refused_before_anything_begins(plain, monkeypatch, runtime, address):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="need the package ray, which cannot be imported: it is not installed"):
        choose_runtime(plain, RunOptions(runtime=runtime, ray_address=address))
    assert choose_runtime(plain, RunOptions(runtime="local")).name == "local"


@pytest.fixture
def plain(make_pipeline):
    return make_pipeline()


@pytest.fixture
def with_side_inputs(tmp_path, make_pipeline):
    plugins = ("sidecar_runtimes.testing.ops",)
    dataset = make_pipeline().dataset
    return build_pipeline(dataset, [{"type": "use_side_input", "number": 1, "marks": str(tmp_path)}], plugins=plugins)


class ComputeFilters(BaseOp):
    """Stands for the op of that name, of which this package knows the name only."""

    class Params(OpParams):
        filters: tuple[str, ...]

    type_name = "compute_filters"


def with_filters(pipeline, *filters):
    return replace(pipeline, operations=(ComputeFilters(ComputeFilters.Params(filters=filters)),))


def choose(pipeline, **options):
    choice = choose_runtime(pipeline, RunOptions(**options))
    return choice.name, choice.reason


def test_local_unless_a_cluster_is_named(plain, with_side_inputs):
    for pipeline in (plain, with_side_inputs):
        name, reason = choose(pipeline)
        assert name == "local"
        assert "--ray-address" in reason


@pytest.mark.parametrize("by", ["--ray-address", "RAY_ADDRESS"])
def test_a_named_cluster_is_used_and_the_reason_says_who_named_it(plain, with_side_inputs, monkeypatch, by):
    options = {"ray_address": "10.0.0.1:6379"} if by == "--ray-address" else {}
    if by == "RAY_ADDRESS":
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    name, reason = choose(plain, **options)
    assert name == "ray"
    assert reason.startswith(by)
    name, reason = choose(with_side_inputs, **options)
    assert name == "actor"
    assert "'use_side_input'" in reason


def test_more_than_two_filters_are_worth_actors(plain):
    address = "10.0.0.1:6379"
    assert choose(with_filters(plain, "luma", "clarity"), ray_address=address)[0] == "ray"
    name, reason = choose(with_filters(plain, "luma", "clarity", "noise"), ray_address=address)
    assert name == "actor"
    assert "3 filters" in reason


def test_make_runtime_hands_the_numbers_on(plain, with_side_inputs):
    local = make_runtime(RunOptions(workers=3, retries=5), plain)
    assert isinstance(local, LocalRuntime)
    assert local.describe() == {"workers": 3, "retries": 5}
    tasks = make_runtime(RunOptions(runtime="ray", task_cpus=2, task_memory_gb=3, max_inflight=7), plain)
    assert isinstance(tasks, RayTaskRuntime)
    assert tasks.describe()["max_inflight"] == 7
    assert tasks.settings.isolation.workers == 2
    assert tasks.settings.isolation.memory_cap_bytes == 3 * 2**30 // 2
    actors = make_runtime(
        RunOptions(runtime="actor", num_actors=4, actor_cpus=2, actor_memory_gb=64, per_actor_inflight=3),
        with_side_inputs,
    )
    assert isinstance(actors, RayActorRuntime)
    assert actors.describe()["num_actors"] == 4
    assert actors.describe()["per_actor_inflight"] == 3
    assert actors.settings.isolation.memory_cap_bytes == 4 * 2**30
    assert make_runtime(RunOptions(runtime="ray", workers=5), plain).settings.isolation.workers == 5


def test_tasks_refuse_side_inputs_before_anything_starts(with_side_inputs):
    with pytest.raises(NotImplementedError, match=r"'use_side_input' declares 'table'(.|\n)*fix: --runtime actor"):
        make_runtime(RunOptions(runtime="ray"), with_side_inputs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"runtime": "actors"}, r"did you mean 'actor'"),
        ({"runtime": "local", "num_actors": 3}, r"--num-actors is for --runtime actor"),
        ({"runtime": "actor", "task_memory_gb": 3.0}, r"--task-memory-gb is for --runtime ray"),
        ({"runtime": "ray", "task_cpus": 0}, r"--task-cpus 0"),
        ({"runtime": "actor", "per_actor_inflight": -1}, r"--per-actor-inflight -1"),
        ({"runtime": "actor", "actor_memory_gb": 1e7}, r"--actor-memory-gb 1e\+07"),
        ({"runtime": "ray", "task_memory_gb": float("nan")}, r"--task-memory-gb nan"),
    ],
)
def test_options_that_make_no_sense_are_refused(plain, options, words):
    with pytest.raises(UsageError, match=words):
        make_runtime(RunOptions(**options), plain)
