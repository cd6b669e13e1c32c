"""The main job from S3 to S3, with a real server of the S3 protocol on loopback."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
from sidecar_core.isolation import submit_call
from sidecar_core.testing.datasets import read_dataset, write_main
from sidecar_resize.testing.pictures import encoded_scene


def test_what_is_built_on_s3_equals_what_is_built_locally(sidecar, s3, tmp_path):
    client, environment = s3
    picture = submit_call(encoded_scene, 300, 200, "JPEG")
    shards = {f"jahr=2026/teil ü {number}.parquet": [picture, None, picture[:200]] for number in range(3)}
    write_main(tmp_path / "main", shards)
    for path in (tmp_path / "main").rglob("*.parquet"):
        client.upload_file(str(path), "example-bucket", f"main/{path.relative_to(tmp_path / 'main').as_posix()}")
    sidecar("build-0-262mp", "--main-prefix", "main", "--output-prefix", "local", "--workers", 1)
    remote = ("--main-prefix", "s3://example-bucket/main", "--output-prefix", "s3://example-bucket/r512")
    sidecar("build-0-262mp", *remote, "--workers", 1, env=environment)
    listed = client.list_objects_v2(Bucket="example-bucket", Prefix="r512/")["Contents"]
    keys = {each["Key"].removeprefix("r512/") for each in listed}
    assert {key for key in keys if not key.startswith("_sidecar/")} == set(shards)
    for rel_path, expected in read_dataset(tmp_path / "local").items():
        made = tmp_path / "downloaded.parquet"
        client.download_file("example-bucket", f"r512/{rel_path}", str(made))
        assert pq.ParquetFile(made).read().replace_schema_metadata(None).equals(expected)
    verified = sidecar(
        *("verify-resized", "--main-prefix", "s3://example-bucket/main", "--all", "--json"),
        *("--target", "512=s3://example-bucket/r512"),
        env=environment,
    )
    assert json.loads(verified.stdout)
    refused = sidecar("build-0-262mp", *remote, env=environment, status=3)
    assert "--skip-existing" in refused.stderr
    client.delete_object(Bucket="example-bucket", Key=f"r512/{next(iter(shards))}")
    again = sidecar("build-0-262mp", *remote, "--skip-existing", "--json", env=environment)
    assert json.loads(again.stdout)["shards"]["done"] == 1
    # servers in one process share their buckets, so that other tests may have left uploads elsewhere
    assert not client.list_multipart_uploads(Bucket="example-bucket", Prefix="r512/").get("Uploads")


def test_a_bucket_that_is_not_there_is_named_with_what_to_check(sidecar, s3):
    _, environment = s3
    done = sidecar(
        *("build-0-262mp", "--main-prefix", "s3://no-such-bucket/main", "--output-prefix", "out"),
        env=environment,
        status=1,
    )
    assert "s3://no-such-bucket/main" in done.stderr
    assert "Traceback" not in done.stderr


def test_keys_that_are_no_paths_touch_no_file_of_this_machine(sidecar, s3, tmp_path):
    client, environment = s3
    mine = tmp_path / "mine.parquet"
    mine.write_bytes(b"somebody's only copy")
    keys = [str(mine), "a//x.parquet", "a/x.parquet", f"{'n' * 300}.parquet"]
    write_main(tmp_path / "main", {f"{number}.parquet": [b"x" * number, b"y"] for number in range(len(keys))})
    for number, key in enumerate(keys):
        client.upload_file(str(tmp_path / "main" / f"{number}.parquet"), "example-bucket", f"odd/{key}")
    remote = ("--main-prefix", "s3://example-bucket/odd", "--output-prefix", "s3://example-bucket/odd512")
    sidecar("build-0-262mp", *remote, "--workers", 2, env=environment)
    assert mine.read_bytes() == b"somebody's only copy"
    listed = client.list_objects_v2(Bucket="example-bucket", Prefix="odd512/")["Contents"]
    made = {each["Key"].removeprefix("odd512/") for each in listed}
    assert {key for key in made if not key.startswith("_sidecar/")} == set(keys)
    sidecar(
        *("verify-resized", "--main-prefix", "s3://example-bucket/odd", "--all"),
        *("--target", "512=s3://example-bucket/odd512"),
        env=environment,
    )
    local = ("--main-prefix", "s3://example-bucket/odd", "--output-prefix", "here")
    refused = sidecar("build-0-262mp", *local, "--workers", 2, env=environment, status=1)
    assert f"{str(mine)!r} cannot be the path of a local file" in refused.stderr
    assert mine.read_bytes() == b"somebody's only copy"
