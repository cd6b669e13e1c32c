"""`sidecar doctor` at an S3 server: what can be done there is found out, and main datasets stay as they are."""

from __future__ import annotations

import json

import pytest
from sidecar_core.testing.datasets import write_main

BUCKET = "example-bucket"


@pytest.fixture
def s3(s3, tmp_path):
    """A main dataset of one shard in the bucket."""
    client, environment = s3
    write_main(tmp_path / "main", {"a.parquet": [b"x"]})
    client.upload_file(str(tmp_path / "main/a.parquet"), BUCKET, "main/a.parquet")
    return client, {**environment, "RAY_ADDRESS": ""}


def everything_in(client):
    return {each["Key"]: each["ETag"] for each in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])}


def test_a_main_dataset_is_listed_and_read_and_the_write_test_goes_beside_it(sidecar, s3):
    client, environment = s3
    before = everything_in(client)
    done = sidecar("doctor", f"s3://{BUCKET}/main", "--write-test", "--json", env=environment)
    found = {each["what"]: (each["level"], each["fact"]) for each in json.loads(done.stdout)["findings"]}
    assert found["aws credentials"][0] == "ok"
    assert "'env'" in found["aws credentials"][1]
    assert found[f"list s3://{BUCKET}/main/"] == ("ok", "1 shard among 1 object")
    assert found[f"read s3://{BUCKET}/main/"][0] == "ok"
    assert "conditional writes are honoured" in found[f"write s3://{BUCKET}/main_sidecar/"][1]
    assert everything_in(client) == before


def test_a_whole_bucket_has_no_place_for_a_write_test(sidecar, s3):
    client, environment = s3
    before = everything_in(client)
    done = sidecar("doctor", f"s3://{BUCKET}", "--write-test", "--json", env=environment)
    found = {each["what"]: each["level"] for each in json.loads(done.stdout)["findings"]}
    assert found[f"write s3://{BUCKET}/"] == "warn"
    assert everything_in(client) == before


def test_a_bucket_that_is_not_there_fails(sidecar, s3):
    _, environment = s3
    done = sidecar("doctor", "s3://no-such-bucket/x", "--json", env=environment, status=1)
    failed = [each["what"] for each in json.loads(done.stdout)["findings"] if each["level"] == "fail"]
    assert failed == ["list s3://no-such-bucket/x/"]


def test_init_looks_at_a_bucket_and_writes_nothing_there(sidecar, s3, tmp_path):
    client, environment = s3
    before = everything_in(client)
    options = ("--main-prefix", f"s3://{BUCKET}/main", "--image-column", "image", "--region", "us-east-1")
    done = sidecar("init", "pets", *options, "--json", env=environment)
    assert json.loads(done.stdout)["key_column"] == "image_key"
    text = (tmp_path / "configs/datasets/pets.yaml").read_text()
    assert f"main_prefix: s3://{BUCKET}/main/\n" in text
    assert "storage: {region: us-east-1}\n" in text
    assert "image column 'image': no picture among its first 1 value" in done.stderr
    sidecar("run", "configs/pipelines/pets.yaml", "--dry-run", env=environment)
    assert everything_in(client) == before
