"""Manifests of jobs: every template is right, a typo is found, a plan fills them."""

from __future__ import annotations

from importlib.resources import files

import pytest
import yaml
from sidecar_cli.jobs.check import check_job
from sidecar_cli.jobs.placeholders import PLACEHOLDERS, example_values, fill, placeholders_in
from sidecar_core.errors import ConfigError, UsageError

TEMPLATES = {
    f"{kind}/{name}": (files("sidecar_cli.jobs") / kind / f"{name}.yaml").read_text(encoding="utf-8")
    for kind, names in {
        "kuberay": ("resize", "filters-task", "filters-actor", "verify"),
        "utp": ("resize", "filters-task", "filters-actor", "verify", "verify-with-dummy-worker"),
    }.items()
    for name in names
}
GIVEN = ("--observed-rate", "0.12", "--observed-actors", "32", "--rows-per-shard", "512", "--actor-memory-gb", "6")


@pytest.fixture
def checked(tmp_path):
    def check(text, **options):
        path = tmp_path / "job.yaml"
        path.write_text(text, encoding="utf-8")
        return check_job(path, **options)

    return check


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_is_right_and_says_what_to_replace(checked, name):
    left = checked(TEMPLATES[name], pipelines={"filters_v1.yaml"})
    assert "IMAGE" in left
    assert "PIPELINE" in left
    assert set(left) <= PLACEHOLDERS.keys()
    assert checked(fill(TEMPLATES[name], example_values()), pipelines={"filters_v1.yaml"}) == []


def test_every_placeholder_is_in_some_template():
    assert {name for text in TEMPLATES.values() for name in placeholders_in(text)} == PLACEHOLDERS.keys()


def test_heads_do_no_shards_and_a_verify_job_has_no_workers():
    for name, text in TEMPLATES.items():
        job = yaml.safe_load(text)
        if name.startswith("kuberay"):
            cluster = job["spec"]["rayClusterSpec"]
            workers = cluster.get("workerGroupSpecs", [])
            assert cluster["headGroupSpec"]["rayStartParams"] == ({"num-cpus": "0"} if workers else {})
        else:
            workers = [each for each in job["compute_config"]["worker_nodes"] if each["name"] != "dummy"]
        assert bool(workers) == ("verify" not in name)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("kuberay/resize", "submissionMode", "submisionMode", "unknown key 'submisionMode'; did you mean"),
        ("kuberay/resize", "replicas: <NODES>", "replicas: many", "replicas"),
        ("kuberay/resize", "maxReplicas: <NODES>", "maxReplicas: 1", "is not between"),
        ("kuberay/resize", "memory: <NODE_MEMORY>", "memory: 12GB", "memory"),
        ("kuberay/resize", "ray.io/v1", "ray.io/v1alpha1", "ray.io/v1"),
        ("kuberay/resize", "shutdownAfterJobFinishes: true", "shutdownAfterJobFinishes: false", "ttlSecondsAfter"),
        ("kuberay/verify", "name: sidecar-verify", "name: Sidecar_Verify", "name"),
        ("kuberay/verify", "sidecar-run", "rm", "it starts 'rm'"),
        ("kuberay/filters-actor", "--num-actors", "--num-actor", "unknown option '--num-actor'; did you mean"),
        ("kuberay/filters-actor", "/app/configs/pipelines/<PIPELINE>", "/tmp/x.yaml", "is not in the image"),
        ("utp/resize", "ON_DEMAND", "ON_DEMAN", "did you mean 'ON_DEMAND'"),
        ("utp/resize", "max_nodes: <NODES>", "max_nodes: 1", "min_nodes 4 is above max_nodes 1"),
        ("utp/resize", "1h}", "soon}", "workload_starting_timeout"),
        ("utp/resize", "env_vars:", "env:", "unknown key 'env'"),
        ("utp/verify", "  flags: {workload_starting_timeout: 1h}\n", "", "missing key 'flags'"),
    ],
)
def test_a_mistake_is_found_at_its_place(checked, name, old, new, words):
    assert old in TEMPLATES[name]
    with pytest.raises(ConfigError) as raised:
        checked(TEMPLATES[name].replace(old, new))
    assert words in str(raised.value)
    assert "job.yaml:" in str(raised.value)


def test_two_images_in_one_job_are_a_mistake(checked):
    with pytest.raises(ConfigError, match="different images"):
        checked(TEMPLATES["kuberay/resize"].replace("<IMAGE>", "registry.example.com/other:1", 1))


def test_a_pipeline_that_the_image_lacks_is_named_with_those_it_has(checked):
    text = TEMPLATES["utp/filters-task"].replace("<PIPELINE>", "filter_v1.yaml")
    with pytest.raises(ConfigError, match=r"no pipeline 'filter_v1.yaml'; did you mean 'filters_v1.yaml'"):
        checked(text, pipelines={"filters_v1.yaml", "resized.yaml"})


def test_an_unknown_placeholder_is_a_mistake(checked):
    with pytest.raises(UsageError, match=r"<IMAG>; did you mean 'IMAGE'"):
        checked(TEMPLATES["utp/resize"].replace("<IMAGE>", "<IMAG>"))


@pytest.mark.parametrize("kind", ["kuberay", "utp"])
def test_a_plan_writes_its_job(sidecar_here, team, checked, kind):
    arguments = ("plan", team.pipeline, "--target-rows-per-hour", "10000000", *GIVEN, "--write", kind, "job.yaml")
    done = sidecar_here(*arguments)
    assert done.returncode == 0, done.stderr
    text = (team.root / "job.yaml").read_text()
    left = checked(text, pipelines={"scaffold.yaml"})
    assert {"NODES", "WORKERS", "INFLIGHT", "PIPELINE", "INSTANCE_TYPE", "NODE_CPUS"}.isdisjoint(left)
    assert all(f"<{name}>" in done.stderr for name in left)
    assert "--max-inflight 1447" in text
    assert "/app/configs/pipelines/scaffold.yaml" in text
    job = yaml.safe_load(text)
    if kind == "kuberay":
        group = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
        amounts = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        gib = int(amounts["memory"].removesuffix("Gi"))
        assert group["replicas"] * int(gib * 0.69 / 6) >= 1447 > (group["replicas"] - 1) * int(gib * 0.69 / 6)
    else:
        assert job["compute_config"]["worker_nodes"][0]["min_nodes"] == 33
    refused = sidecar_here(*arguments)
    assert refused.returncode == 3
    assert "exists" in refused.stderr
    assert (team.root / "job.yaml").read_text() == text


def test_no_such_kind_of_job(sidecar_here, team):
    refused = sidecar_here("plan", team.pipeline, "--target-rows-per-hour", "1", *GIVEN, "--write", "kuberey", "x.yaml")
    assert refused.returncode == 2
    assert "did you mean 'kuberay'" in refused.stderr
