from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from sidecar_core.errors import UsageError
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_runtimes.bundles import Bundle
from sidecar_runtimes.ray_cluster import ClusterError, PendingWatch, RayCluster, load_ray
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run


def bundle(cpus, memory_gb=None, what="actor"):
    return Bundle(what, cpus, memory_gb, "--actor-cpus or --actor-memory-gb")


@pytest.mark.parametrize("runtime", ["ray", "actor"])
def test_without_ray_the_error_says_what_to_install(tmp_path, make_pipeline, monkeypatch, runtime):
    write_main(tmp_path / "main", {"a.parquet": [b"x"]})
    monkeypatch.setitem(sys.modules, "ray", None)
    prepared = prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "out"), runtime=runtime))
    with pytest.raises(UsageError, match=r"sidecar-runtimes\[ray\]"):
        execute_run(prepared)


def test_ray_is_imported_only_when_it_is_used():
    code = (
        "import sys, sidecar_runtimes.run, sidecar_runtimes.ray_tasks, sidecar_runtimes.ray_actors\n"
        "assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            (
                "Memory on the node (IP: 10.0.0.1, ID: ab) was 1.03GB used / 23.54GB limit (0.04)\nOOM kill reason: x\n"
                "Selected to kill: (Task: pid=7, actual memory used=0.10GB, worker ID=c)"
            ),
            "Ray's memory monitor ended it at 0.10 GB, with 1.03 GB of the node's 23.54 GB in use",
        ),
        ("in words of another version", "Ray's memory monitor ended it"),
    ],
)
def test_of_rays_words_about_memory_only_the_measured_is_told(text, fact):
    cluster = RayCluster()
    cluster.ray = load_ray()
    death = cluster.death_in(cluster.ray.exceptions.OutOfMemoryError(text))
    assert (death.fact, death.error_type, death.blameless) == (fact, "OutOfMemoryError", False)


@pytest.mark.ray
class TestWithACluster:
    def test_a_bundle_that_no_node_can_hold_is_refused_with_the_nodes_sizes(self, ray_cluster):
        (node,) = ray_cluster.nodes()
        assert node.cpus == 2
        assert ray_cluster.check(bundle(1)) == 2
        with pytest.raises(ClusterError, match=r"an actor of 3 CPUs(.|\n)*2 CPUs, [\d.]+ GiB(.|\n)*--actor-cpus"):
            ray_cluster.check(bundle(3))
        with pytest.raises(ClusterError, match=r"a task of 1 CPU and 100000 GiB"):
            ray_cluster.check(bundle(1, 100_000, "task"))

    @pytest.mark.parametrize("options", [{"runtime": "ray", "task_cpus": 64}, {"runtime": "actor", "actor_cpus": 64}])
    def test_a_run_that_fits_nowhere_ends_at_once(self, ray_cluster, tmp_path, make_pipeline, options):
        write_main(tmp_path / "main", {"a.parquet": [b"x"]})
        prepared = prepare_run(make_pipeline(), RunOptions(output_prefix=str(tmp_path / "out"), **options))
        with pytest.raises(ClusterError, match="64 CPUs"):
            execute_run(prepared, command=["test"])

    def test_what_pending_workers_miss_is_told(self, ray_cluster, caplog):
        watch = PendingWatch(ray_cluster, bundle(2, 3), every_s=0.0)
        watch.look(0, 4)
        assert not caplog.records
        watch.look(3, 4)
        assert "3 of 4 actors have not started" in caplog.text
        assert "each needs 2 CPUs and 3 GiB; free in the whole cluster: " in caplog.text

    def test_a_connected_process_stays_connected(self, ray_cluster):
        with RayCluster() as other:
            assert other.nodes() == ray_cluster.nodes()
        assert ray_cluster.ray.is_initialized()

    def test_a_run_on_a_named_cluster_leaves_stdout_to_results(self, ray_cluster, tmp_path, make_pipeline):
        write_main(tmp_path / "main", {f"{n}.parquet": [b"x"] * 5 for n in range(3)})
        make_pipeline()  # writes the dataset's YAML
        (tmp_path / "pipeline.yaml").write_text(
            "dataset: dataset.yaml\nplugins: [sidecar_runtimes.testing.ops]\n"
            f"operations:\n  - {{type: end_process, shards: [1.parquet], marks: {tmp_path}/marks}}\n"
        )
        driver = (
            "import json, sys\n"
            "from sidecar_core.pipeline import load_pipeline\n"
            "from sidecar_runtimes.run import RunOptions, execute_run, prepare_run\n"
            "options = RunOptions(output_prefix=sys.argv[2])\n"
            "report = execute_run(prepare_run(load_pipeline(sys.argv[1]), options))\n"
            "print(json.dumps(dict(report.shards)))\n"
        )
        address = ray_cluster.ray.get_runtime_context().gcs_address
        ran = subprocess.run(
            [sys.executable, "-c", driver, str(tmp_path / "pipeline.yaml"), str(tmp_path / "out")],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "RAY_ADDRESS": address},
        )
        assert ran.returncode == 0, ran.stderr
        assert "(raylet)" not in ran.stderr
        assert json.loads(ran.stdout) == {"done": 2, "skipped": 0, "failed": 1, "not_reached": 0}
        assert read_dataset(tmp_path / "out").keys() == {"0.parquet", "2.parquet"}
        (manifest,) = (tmp_path / "out/_sidecar/runs").glob("*.json")
        assert json.loads(manifest.read_text())["runtime"]["name"] == "ray"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_does_not_answer_is_an_error_with_its_address(scheme):
    address = f"{scheme}127.0.0.1:1"
    code = (
        "import sys\n"
        "from sidecar_runtimes.ray_cluster import ClusterError, RayCluster\n"
        "try:\n"
        "    with RayCluster(sys.argv[1]):\n"
        "        pass\n"
        "except ClusterError as error:\n"
        "    print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, check=True, timeout=200)
    assert f"no Ray cluster answers at '{address}'" in ran.stdout, ran.stderr
    assert "RAY_ADDRESS" in ran.stdout


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_an_attempt_to_start_leaves_is_ended_before_the_next():
    code = """
import os, signal, threading, time
from pathlib import Path
from sidecar_runtimes.ray_cluster import RayCluster

def started(program):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and program in (folder / "cmdline").read_bytes().split(b"\\0")[0]:
                found.append(int(folder.name))
        except OSError:
            continue
    return found

def stop_the_first():
    while not (found := started(b"raylet/raylet")):
        time.sleep(0.005)
    os.kill(found[0], signal.SIGSTOP)
    first.extend(found + started(b"gcs_server"))

first = []
threading.Thread(target=stop_the_first).start()
with RayCluster(cpus=1) as cluster:
    assert cluster.ray.get(cluster.ray.put(1)) == 1
    now = started(b"raylet/raylet") + started(b"gcs_server")
    assert len(first) == len(now) == 2, (first, now)
    assert not set(first) & set(now)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=280)
    assert ran.returncode == 0, ran.stderr
