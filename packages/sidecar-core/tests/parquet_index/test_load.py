from __future__ import annotations

import subprocess
import sys

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import UsageError
from sidecar_core.parquet_index import ParquetIndex, load_parquet_index, parquet_index_spec
from sidecar_core.side_inputs import side_input_loader

TABLE = pa.table({"key": ["a", "b"], "value": [1, 2]})


@pytest.fixture
def s3(monkeypatch, tmp_path):
    """A server of the S3 protocol with a bucket, and its URL."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "EXAMPLEKEYID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "EXAMPLESECRET")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket="example-bucket")
    yield url, client
    client.close()
    server.stop()


def put(client, tmp_path, key, table):
    pq.write_table(table, tmp_path / "upload.parquet")
    client.upload_file(str(tmp_path / "upload.parquet"), "example-bucket", key)


def dataset(tmp_path, storage="{}"):
    path = tmp_path / "example.yaml"
    path.write_text(
        f"name: example\nmain_prefix: {tmp_path}/main/\nsidecar_prefix: {tmp_path}/out/\nkey_column: key\n"
        f"storage: {storage}\n"
    )
    return load_dataset(path)


def answers(index, keys):
    return index.take(index.lookup(pa.array(keys))).column("value").to_pylist()


def test_the_loader_is_found_by_its_name(tmp_path):
    pq.write_table(TABLE, tmp_path / "table.parquet")
    spec = parquet_index_spec(str(tmp_path / "table.parquet"), key_column="key", columns=["value"])
    index = side_input_loader(spec.loader)(spec.params, dataset(tmp_path))
    assert isinstance(index, ParquetIndex)
    assert answers(index, ["b", "c"]) == [2, None]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"source": "/data", "key_column": "key", "duplicates": "some"}, "duplicates"),
        ({"source": "/data"}, "key_column"),
        ({"source": "/data", "key_column": "key", "colums": []}, "colums"),
    ],
)
def test_wrong_parameters_are_named(tmp_path, params, message):
    with pytest.raises(UsageError, match=rf"(?s)parameters of the side-input loader 'parquet_index'.*{message}"):
        load_parquet_index(params, dataset(tmp_path))


@pytest.mark.parametrize("source", ["tables/part-0.parquet", "tables/", "tables"])
def test_a_source_on_s3(s3, tmp_path, source):
    url, client = s3
    put(client, tmp_path, "tables/part-0.parquet", TABLE)
    client.put_object(Bucket="example-bucket", Key="tables/_SUCCESS", Body=b"")
    spec = parquet_index_spec(f"s3://example-bucket/{source}", key_column="key", columns=None)
    where = dataset(tmp_path, f"{{region: us-east-1, endpoint_url: '{url}'}}")
    assert answers(load_parquet_index(spec.params, where), ["b", "a"]) == [2, 1]
    put(client, tmp_path, "tables/part-0.parquet", pa.table({"key": ["a", "b"], "value": [1, 7]}))
    assert answers(load_parquet_index(spec.params, where), ["b", "a"]) == [7, 1]


def test_a_large_source_on_s3_is_read_in_pieces(s3, tmp_path):
    url, client = s3
    rows = 30_000
    table = pa.table({"key": [f"key-{row}" for row in range(rows)], "value": range(rows), "unread": ["x" * 100] * rows})
    pq.write_table(table, tmp_path / "upload.parquet", row_group_size=7000, use_dictionary=False, compression="none")
    client.upload_file(str(tmp_path / "upload.parquet"), "example-bucket", "large.parquet")
    spec = parquet_index_spec("s3://example-bucket/large.parquet", key_column="key", columns=["value"])
    where = dataset(tmp_path, f"{{region: us-east-1, endpoint_url: '{url}'}}")
    index = load_parquet_index(spec.params, where)
    assert index.num_keys == rows
    assert answers(index, [f"key-{row}" for row in range(0, rows, 1000)]) == list(range(0, rows, 1000))


def test_without_numpy_the_error_says_what_to_install(tmp_path):
    pq.write_table(TABLE, tmp_path / "table.parquet")
    dataset(tmp_path)
    program = f"""
import sys
sys.modules["numpy"] = None
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import UsageError
from sidecar_core.parquet_index import load_parquet_index, parquet_index_spec, value_schema
spec = parquet_index_spec({str(tmp_path / "table.parquet")!r}, key_column="key", columns=None)
try:
    load_parquet_index(spec.params, load_dataset({str(tmp_path / "example.yaml")!r}))
except UsageError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "needs the package 'numpy', which is not installed" in found.stdout
    assert 'fix: pip install "sidecar-core[join]"' in found.stdout


def test_importing_the_package_loads_no_module_that_needs_numpy():
    program = (
        "import sys\nfrom sidecar_core.parquet_index import load_parquet_index, parquet_index_spec\n"
        "loaded = [name for name in sys.modules if name.startswith('sidecar_core.parquet_index.')]\n"
        "print(sorted(name.rpartition('.')[2] for name in loaded))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "['load', 'spec']\n"
