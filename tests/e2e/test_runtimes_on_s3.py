"""The same pipeline over S3 by every runtime, and a store that stays busy."""

from __future__ import annotations

import json
from functools import partial

import boto3
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from sidecar_core.footer import read_footer
from sidecar_core.pipeline import load_pipeline
from sidecar_core.storage import open_storage, s3
from sidecar_core.storage.s3_client import RetryPolicy
from sidecar_core.testing.datasets import write_main
from sidecar_core.testing.faulty_proxy import FaultyProxy
from sidecar_runtimes.ray_cluster import RayCluster, load_ray
from sidecar_runtimes.run import RunOptions, execute_run, prepare_run

BUCKET = "example-bucket"
SHARDS = {f"teil={n % 2}/ü {n}.parquet": [None if k == 3 else b"x" * (k * n) for k in range(30)] for n in range(5)}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """URL of a server; the environment that this process and its workers reach it with."""
    nowhere = tmp_path_factory.mktemp("none")
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", str(nowhere / "config"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nowhere / "credentials"))
        yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture(scope="session")
def _cluster(server):
    """A cluster whose workers know the credentials; it lasts as long as the session, as Ray's processes do."""
    load_ray().shutdown()  # an earlier test's cluster knows them not, and would be used as it is
    with RayCluster(cpus=2):
        yield


@pytest.fixture
def make_pipeline(server, tmp_path, request):
    """Returns a function that makes a pipeline over a main dataset in the bucket, reached at a URL."""
    client = boto3.client("s3", endpoint_url=server, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    base = request.node.name
    write_main(tmp_path / "main", SHARDS, row_group_rows=7)
    for path in (tmp_path / "main").rglob("*.parquet"):
        client.upload_file(str(path), BUCKET, f"{base}/main/{path.relative_to(tmp_path / 'main').as_posix()}")
    client.close()

    def make(url):
        (tmp_path / "dataset.yaml").write_text(
            f"name: example\nmain_prefix: s3://{BUCKET}/{base}/main/\nsidecar_prefix: s3://{BUCKET}/{base}/yaml/\n"
            f"key_column: image_key\nimage_column: image\nstorage: {{endpoint_url: '{url}', region: us-east-1}}\n"
            "schema_extensions:\n  - {name: score, type: float32}\n"
        )
        (tmp_path / "pipeline.yaml").write_text(
            "dataset: dataset.yaml\nplugins: [sidecar_core.testing.ops]\n"
            "operations:\n  - {type: extract_scaffold}\n  - {type: measure_bytes}\n"
        )
        return load_pipeline(tmp_path / "pipeline.yaml"), f"s3://{BUCKET}/{base}/"

    return make


def read(prefix, pipeline):
    """Returns table and key digest of each shard."""
    storage = open_storage(prefix, pipeline.dataset.storage)
    found = {}
    for info in storage.list_shards():
        with storage.open_input(info.rel_path) as file:
            table = pq.read_table(file).replace_schema_metadata(None)
        footer = read_footer(storage, info.rel_path)
        found[info.rel_path] = (table, footer.key_digest, footer.fingerprint, footer.invalid)
    return found


@pytest.mark.ray
@pytest.mark.usefixtures("_cluster")
def test_every_runtime_makes_the_same_dataset(server, make_pipeline):
    pipeline, base = make_pipeline(server)
    made = {}
    for runtime in ("local", "ray", "actor"):
        prefix = f"{base}{runtime}/"
        options = RunOptions(output_prefix=prefix, runtime=runtime, workers=1)
        report = execute_run(prepare_run(pipeline, options), command=["test"])
        assert report.ok, report.failed
        made[runtime] = read(prefix, pipeline)
    assert made["local"].keys() == SHARDS.keys()
    for runtime in ("ray", "actor"):
        assert made[runtime].keys() == made["local"].keys()
        for rel_path, (table, *footer) in made["local"].items():
            other, *other_footer = made[runtime][rel_path]
            assert other.schema.equals(table.schema)
            for name in table.column_names:
                assert other[name].equals(table[name]), (runtime, rel_path, name)
            assert other_footer == footer


def test_a_shard_that_the_store_never_takes_is_named(server, make_pipeline, monkeypatch):
    quick = RetryPolicy(attempts=3, first_wait_s=0.001, longest_wait_s=0.002)
    monkeypatch.setattr(s3, "RetryPolicy", partial(RetryPolicy, **vars(quick)))
    with FaultyProxy(server) as proxy:
        pipeline, base = make_pipeline(proxy.url)
        proxy.fault = lambda method, path, headers: (
            503 if method == "PUT" and "/out/" in path and "204" in path else None
        )
        options = RunOptions(output_prefix=f"{base}out/", runtime="local", workers=1, retries=1)
        report = execute_run(prepare_run(pipeline, options), command=["test"])
        (failed,) = report.failed
        assert failed.rel_path == "teil=0/ü 4.parquet"
        assert failed.attempts == 2
        assert f"{base}out/teil=0/ü 4.parquet: cannot write it: 503 SlowDown (tried 3 times" in failed.error
        assert "fix: let fewer shards run at once" in failed.error
        assert report.shards["done"] == 4
        storage = open_storage(f"{base}out/", pipeline.dataset.storage)
        (line,) = storage.read_bytes("_sidecar/failed_shards.jsonl").decode().splitlines()
        assert json.loads(line)["shard"] == "teil=0/ü 4.parquet"
        proxy.fault = lambda method, path, headers: None
        again = RunOptions(output_prefix=f"{base}out/", runtime="local", workers=1, skip_existing=True)
        assert execute_run(prepare_run(pipeline, again), command=["test"]).shards["done"] == 1
        assert read(f"{base}out/", pipeline).keys() == SHARDS.keys()
