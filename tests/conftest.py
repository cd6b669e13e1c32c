"""What the tests of the repository as a whole share."""

from __future__ import annotations

import boto3
import pytest
from moto.server import ThreadedMotoServer


@pytest.fixture
def s3_endpoint():
    """Where a server of the S3 protocol listens."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint, tmp_path):
    """A server of the S3 protocol with an empty example-bucket: a client, and the environment that leads there."""
    environment = {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws-credentials"),
    }
    client = boto3.client(
        "s3",
        endpoint_url=s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="example-bucket")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="example-bucket"):
        for each in page.get("Contents", []):  # servers in one process share their buckets
            client.delete_object(Bucket="example-bucket", Key=each["Key"])
    yield client, environment
    client.close()
