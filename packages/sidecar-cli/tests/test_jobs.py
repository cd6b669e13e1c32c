"""Manifests of jobs: every template is right, a typo is found, a plan fills them."""

from __future__ import annotations

import shlex
import shutil
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
        ("kuberay/filters-actor", "--num-actors <WORKERS>", "--num-actors many", "--num-actors: invalid int value"),
        ("kuberay/filters-actor", "--num-actors <WORKERS>", "--num-actors 0", "--num-actors 0: must be at least 1"),
        ("kuberay/filters-actor", "--wait-lease 180", "--wait-lease", "--wait-lease: expected one argument"),
        ("kuberay/filters-actor", "--wait-lease 180", "--help", "unknown option '--help'"),
        ("kuberay/filters-actor", "--wait-lease 180", "-h", "unknown option '-h'"),
        ("kuberay/filters-actor", "--wait-lease 180", "&& echo done", "unknown argument '&&'"),
        ("kuberay/filters-actor", "--runtime actor", "--runtime kubernetes", "invalid choice: 'kubernetes'"),
        ("kuberay/filters-actor", "--set dataset.main_prefix=<MAIN_PREFIX>", "--set main", "--set 'main'"),
        ("kuberay/filters-actor", "--skip-existing", "--keep-stale", "need --skip-existing"),
        ("kuberay/filters-actor", "sidecar-run /app", "sidecar demo /app", "it starts 'sidecar demo'"),
        ("kuberay/filters-actor", "sidecar-run /app", "sidecar /app", "it starts 'sidecar /app"),
        ("kuberay/filters-actor", "/app/configs/pipelines/<PIPELINE>", "", "are required: PIPELINE"),
        ("kuberay/filters-actor", "pipelines/<PIPELINE>", "pipelines/../x.yaml", "is not in the image"),
        ("kuberay/filters-actor", "replicas: <NODES>", 'replicas: "<NODES>"', "replicas: found '4'"),
        ("kuberay/resize", "shutdownAfterJobFinishes: true", 'shutdownAfterJobFinishes: "true"', "found 'true'"),
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


@pytest.mark.parametrize(
    "command",
    [
        "sidecar run /app/configs/pipelines/x.yaml --output-prefix s3://example-bucket/out/",
        "sidecar verify s3://example-bucket/out/ --all",
        "sidecar-run verify-resized --main-prefix s3://example-bucket/main/ --target 512=s3://example-bucket/512/",
    ],
)
def test_other_commands_that_are_right(checked, command):
    job = yaml.safe_load(fill(TEMPLATES["kuberay/verify"], example_values()))
    job["spec"]["entrypoint"] = command
    assert checked(yaml.safe_dump(job), pipelines={"x.yaml"}) == []


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe", "not UTF-8"), (b"", "empty"), (b"[]", "a list")], ids=str)
def test_a_file_that_is_no_manifest(tmp_path, content, said):
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        check_job(path)


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
        assert (amounts["cpu"], gib) == ("95", 364)
        assert group["replicas"] * int(gib * 0.69 / 6) >= 1447 > (group["replicas"] - 1) * int(gib * 0.69 / 6)
    else:
        (group,) = job["compute_config"]["worker_nodes"]
        assert (group["min_nodes"], group["instance_type"]) == (33, "m5.24xlarge")
    refused = sidecar_here(*arguments)
    assert refused.returncode == 3
    assert "exists" in refused.stderr
    assert (team.root / "job.yaml").read_text() == text


@pytest.fixture
def written(sidecar_here, team, checked):
    """Returns a function that plans and writes a job; it returns the manifest, which is right, and its command."""

    def write(kind, *arguments, pipeline="scaffold"):
        name = f"configs/pipelines/{pipeline}.yaml"
        wanted = ("--target-rows-per-hour", "10000000", "--write", kind, "job.yaml")
        done = sidecar_here("plan", name, *wanted, *GIVEN, *arguments)
        assert done.returncode == 0, done.stderr
        text = (team.root / "job.yaml").read_text()
        checked(text, pipelines={f"{pipeline}.yaml"})
        job = yaml.safe_load(text)
        return job, job.get("spec", job)["entrypoint"]

    return write


def test_a_job_is_for_the_nodes_that_are_to_be_had(written):
    job, command = written("utp", "--nodes", "10")
    assert job["compute_config"]["worker_nodes"][0]["max_nodes"] == 10
    assert "--max-inflight 440 " in command


def test_a_job_reserves_what_was_planned_for_each_worker(written):
    _, command = written("utp", "--actor-cpus", "3", "--actor-memory-gb", "7.5")
    assert "--task-cpus 3 --task-memory-gb 7.5 " in command


def test_a_pipeline_for_actors_gets_them(written, team):
    many = f"{team.pipeline.read_text()}  - {{type: compute_filters, filters: [luma, clarity, saturation]}}\n"
    (team.pipeline.parent / "many.yaml").write_text(many)
    _, command = written("utp", "--actor-cpus", "3", pipeline="many")
    assert "--runtime actor --ray-address auto --num-actors 1447 --actor-cpus 3 --actor-memory-gb 6 " in command


def test_a_pod_holds_fewer_workers_than_its_node(written):
    job, command = written("kuberay", "--nodes", "10")
    assert job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 10
    assert f"--max-inflight {10 * int(364 * 0.69 / 6)} " in command


def test_a_job_takes_over_what_was_set(written):
    _, command = written(
        "utp", "--set", "operations[0].type=extract_scaffold", "--set", "dataset.main_prefix=s3://example-bucket/m'n/"
    )
    words = shlex.split(command)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--set"] == [
        "dataset.main_prefix=s3://example-bucket/m'n/",
        "operations[0].type=extract_scaffold",
    ]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_job_does_not_take_over_a_folder_of_this_machine(written, team, scheme):
    _, command = written("utp", "--set", f"dataset.main_prefix={scheme}{team.main}")
    assert "--set dataset.main_prefix=<MAIN_PREFIX> --output-prefix" in command


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (("512", "1024"), "--output 512=<OUTPUT_512> --output 1024=<OUTPUT_1024> --runtime ray"),
        (("a", "b"), "--output a=<OUTPUT_PREFIX>a/ --output b=<OUTPUT_PREFIX>b/ --runtime ray"),
        (("512",), "--output-prefix <OUTPUT_PREFIX> --runtime ray"),
    ],
    ids=["resized", "others", "one"],
)
def test_each_output_has_its_prefix(written, team, outputs, words):
    lines = "".join(f'  - {{name: "{name}", prefix: ../../{name}/, columns: {{score: score}}}}\n' for name in outputs)
    pipeline = team.pipeline.read_text() + f"outputs:\n{lines}"
    (team.pipeline.parent / "several.yaml").write_text(pipeline)
    assert words in written("kuberay", pipeline="several")[1]


def test_a_target_that_cannot_be_written_is_said_before_anything_is_measured(sidecar_here, team):
    shutil.rmtree(team.main)  # a smoke run would say that
    smoke = ("plan", team.pipeline, "--target-rows-per-hour", "1", "--smoke", "2", "--write")
    (team.root / "there.yaml").touch()
    for target, status, said in (
        (("kuberay", "there.yaml"), 3, "'there.yaml' exists"),
        (("kuberay", "nowhere/job.yaml"), 1, "'nowhere/job.yaml' cannot be written: 'nowhere' is no folder"),
        (("nomad", "job.yaml"), 2, "no such kind of job"),
    ):
        refused = sidecar_here(*smoke, *target)
        assert refused.returncode == status, refused.stderr
        assert said in refused.stderr
    odd = team.pipeline.with_name("caf\udce9.yaml")  # a name in Latin-1
    refused = sidecar_here("plan", odd, *smoke[2:], "kuberay", "job.yaml")
    assert refused.returncode == 2
    assert r"--write: the name 'caf\udce9.yaml' is not UTF-8" in refused.stderr


def test_no_worker_fits_into_a_pod_that_fits_on_its_node(sidecar_here, team):
    small = ("--instance-type", "m5.large", "--actor-cpus", "2", *GIVEN[:-1], "1")
    wanted = ("plan", team.pipeline, "--target-rows-per-hour", "1", *small)
    assert sidecar_here(*wanted).returncode == 0
    refused = sidecar_here(*wanted, "--write", "kuberay", "job.yaml")
    assert refused.returncode == 2
    assert "2 CPUs and 1 GiB does not fit on a pod on m5.large: 1 CPU, and" in refused.stderr
    assert not (team.root / "job.yaml").exists()


def test_no_such_kind_of_job(sidecar_here, team):
    refused = sidecar_here("plan", team.pipeline, "--target-rows-per-hour", "1", *GIVEN, "--write", "kuberey", "x.yaml")
    assert refused.returncode == 2
    assert "did you mean 'kuberay'" in refused.stderr
