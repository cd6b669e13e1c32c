"""Real servers of the S3 protocol on loopback, and a proxy before them that fails when it is told to."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer
from sidecar_core.testing.faulty_proxy import FaultyProxy
from sidecar_core.testing.seaweedfs import find_weed, running_seaweedfs

BUCKET = "example-bucket"
KEY_ID = "EXAMPLEKEYID"
SECRET = "EXAMPLESECRET"


@dataclass(frozen=True)
class Options:
    """What a dataset's YAML says under `storage`."""

    endpoint_url: str | None
    region: str | None = "us-east-1"
    profile: str | None = None


@pytest.fixture(scope="session", params=["moto", "seaweedfs"])
def s3_server(request, tmp_path_factory):
    if request.param == "seaweedfs":
        weed = find_weed()
        if weed is None:
            pytest.skip("no program `weed`: CONTRIBUTING says how to have it")
        with running_seaweedfs(weed, tmp_path_factory.mktemp("seaweedfs"), key=KEY_ID, secret=SECRET) as url:
            yield url
        return
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _own_temporary_folder(monkeypatch, tmp_path_factory):
    """Other programs of this user stage beside us, and may die there at any moment."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))


@pytest.fixture
def only_moto(request, s3_server):
    """Skips what needs a server that takes any signature, or any key literally."""
    if request.node.callspec.params["s3_server"] != "moto":
        pytest.skip("SeaweedFS is stricter")


@pytest.fixture
def options(s3_server):
    return Options(s3_server)


@pytest.fixture
def api(s3_server):
    """A plain client, to look at what is really there."""
    client = boto3.client(
        "s3", endpoint_url=s3_server, region_name="us-east-1", config=Config(retries={"mode": "standard"})
    )
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


@pytest.fixture
def prefix(api):
    """A prefix that nobody else uses."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/"


@pytest.fixture
def proxy(s3_server):
    with FaultyProxy(s3_server, stall_s=2.0) as running:
        yield running
