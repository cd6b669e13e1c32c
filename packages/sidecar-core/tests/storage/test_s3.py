from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError, UsageError
from sidecar_core.footer import parquet_footer_digest, read_footer
from sidecar_core.storage import open_storage
from sidecar_core.storage.s3 import S3Storage
from sidecar_core.storage.s3_client import RetryPolicy
from sidecar_core.storage.uris import split_bucket

MIB = 2**20
QUICK = RetryPolicy(attempts=4, connect_attempts=2, first_wait_s=0.001, longest_wait_s=0.002)


@pytest.fixture
def store(prefix, options):
    return S3Storage(prefix, options, retry=QUICK, single_put_bytes=5 * MIB, part_bytes=5 * MIB)


@pytest.fixture
def faulty(prefix, proxy, options):
    direct = type(options)(proxy.url)
    return S3Storage(prefix, direct, retry=QUICK, single_put_bytes=5 * MIB, part_bytes=5 * MIB)


def stage(tmp_path, content=b"shard"):
    path = tmp_path / "staged.parquet"
    path.write_bytes(content)
    return path


def uploads(api, store):
    bucket, key = split_bucket(store.prefix)
    return [upload["Key"] for upload in api.list_multipart_uploads(Bucket=bucket, Prefix=key).get("Uploads", [])]


def is_moto(api):
    return "werkzeug" in api.list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "").lower()


def keys(api, store):
    bucket, key = split_bucket(store.prefix)
    found = api.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])
    return [item["Key"].removeprefix(key) for item in found]


NAMES = [
    "a b.parquet",
    "a=1/b+c.parquet",
    "100%25.parquet",
    "é/日本.parquet",
    "q?x&y#z.parquet",
    "it's.parquet",
]


def test_keys_are_taken_literally(store):
    check_names(store, NAMES)


@pytest.mark.usefixtures("only_moto")
def test_empty_segments_of_keys_are_taken_literally(store):
    check_names(store, ["a//b.parquet", "a/b.parquet"])


def check_names(store, names):
    for name in names:
        store.write_bytes(name, name.encode())
    assert [info.rel_path for info in store.list_shards()] == sorted(names)
    for info in store.list_shards():
        assert store.stat(info.rel_path) == info
        assert store.read_bytes(info.rel_path) == info.rel_path.encode()
        with store.open_input(info.rel_path) as file:
            assert file.read() == info.rel_path.encode()
        store.delete(info.rel_path)
    assert store.list_shards(missing_ok=True) == []


def test_only_shards_are_listed_and_bad_ones_are_among_them(store, api):
    for name in [
        "_SUCCESS",
        ".a.parquet.crc",
        "notes.txt",
        "a.parquet.tmp",
        "zero.parquet",
        "_sidecar/x.parquet",
        "x/a.parquet",
    ]:
        store.write_bytes(name, b"")
    bucket, key = split_bucket(store.prefix)
    api.put_object(Bucket=bucket, Key=f"{key}folder.parquet/", Body=b"")
    assert [info.rel_path for info in store.list_shards()] == ["x/a.parquet", "zero.parquet"]
    assert len(store.list_objects()) == 7


@pytest.mark.slow
def test_listing_goes_over_pages(store):
    names = [f"{number:04}.parquet" for number in range(1100)]
    with ThreadPoolExecutor(16) as pool:
        bucket, key = split_bucket(store.prefix)
        list(pool.map(lambda name: store._client._api.put_object(Bucket=bucket, Key=key + name, Body=b""), names))
    assert [info.rel_path for info in store.list_shards()] == names
    assert [info.rel_path for info in store.list_shards("109")] == names[1090:1100]


def test_what_is_not_there(store, options, api):
    with pytest.raises(StorageNotFoundError, match="no object has this prefix"):
        store.list_shards()
    assert store.list_shards(missing_ok=True) == []
    assert store.stat("a") is None
    store.delete("a")
    for read in (store.open_input, store.read_bytes):
        with pytest.raises(StorageNotFoundError, match=f"{store.prefix}a: cannot read it: 404") as caught:
            read("a")
        assert "endpoint http://127.0.0.1" in str(caught.value)
    nowhere = open_storage("s3://no-such-bucket/x", options)
    with pytest.raises(StorageNotFoundError, match="NoSuchBucket"):
        nowhere.list_shards(missing_ok=True)
    if not is_moto(api):
        return  # SeaweedFS makes the bucket then
    with pytest.raises(StorageNotFoundError, match="NoSuchBucket"):
        nowhere.write_bytes("a", b"")


def test_random_access(store):
    content = bytes(range(256)) * 2000
    store.write_bytes("a", content)
    with store.open_input("a") as file:
        assert file.size() == len(content)
        for start, length in (
            (0, 10),
            (10, 100),
            (500_000, 20_000),
            (300_000, 70_000),
            (5, 5),
            (370_000, 142_000),
            (511_999, 9),
        ):
            file.seek(start)
            assert file.read(length) == content[start : start + length]
        assert file.read_at(1000, 1234) == content[1234:2234]
    store.write_bytes("empty", b"")
    with store.open_input("empty") as file:
        assert (file.size(), file.read()) == (0, b"")


def test_an_object_that_is_replaced_while_it_is_read_is_noticed(store):
    store.write_bytes("a", b"x" * 300_000)
    with store.open_input("a") as file:
        file.read(10)
        store.write_bytes("a", b"y" * 300_000)
        with pytest.raises(StorageError, match="changed while it was read"):
            file.read()


def test_a_projected_read_of_a_shard(store, proxy, options):
    rows = 3000
    table = pa.table(
        {"key": [f"k{n:08}" for n in range(rows)], "image": [bytes([n % 256]) * 1000 for n in range(rows)]}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=500, compression="none", use_dictionary=False)
    store.write_bytes("a.parquet", sink.getvalue().to_pybytes())
    direct = S3Storage(store.prefix, type(options)(proxy.url), retry=QUICK)
    file = pq.ParquetFile(direct.open_input("a.parquet"), pre_buffer=False, buffer_size=65536)
    assert pa.Table.from_batches(file.iter_batches(columns=["key"])).equals(table.select(["key"]))
    assert len(proxy.requests) <= 7  # the tail, and one for each row group
    assert read_footer(direct, "a.parquet") is None
    assert len(proxy.requests) <= 8
    assert len(parquet_footer_digest(direct, "a.parquet")) == 32


def test_a_failure_below_arrow_keeps_its_class(faulty, proxy):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"key": [str(number) for number in range(100_000)]}), sink, row_group_size=20_000)
    faulty.write_bytes("a.parquet", sink.getvalue().to_pybytes())
    file = pq.ParquetFile(faulty.open_input("a.parquet"), pre_buffer=False)
    proxy.fault = lambda method, path, headers: 503
    with pytest.raises(StorageError, match=r"a\.parquet: cannot read it: 503 SlowDown") as caught:
        for _ in file.iter_batches():
            pass
    assert caught.value.errno is not None  # a failure of the store, not of the file
    with pytest.raises(StorageError, match=r"a\.parquet: cannot read it: 503 SlowDown"):
        read_footer(faulty, "a.parquet")


def test_conditional_writes(store, api):
    first = store.write_bytes("a", b"one", if_absent=True)
    with pytest.raises(ConflictError, match=f"{store.prefix}a: cannot write it: 412"):
        store.write_bytes("a", b"two", if_absent=True)
    second = store.write_bytes("a", b"two", if_match=first)
    assert second == store.stat("a")
    with pytest.raises(ConflictError):
        store.write_bytes("a", b"six", if_match=first)
    assert store.read_bytes("a") == b"two"
    store.delete("a")
    with pytest.raises(ConflictError):
        store.write_bytes("a", b"six", if_match=second)
    with pytest.raises(UsageError):
        store.write_bytes("a", b"", if_absent=True, if_match=second)
    assert keys(api, store) == []


@pytest.mark.parametrize("size", [5, 12 * MIB])
def test_one_of_many_writers_creates_an_object(faulty, tmp_path, size, api):
    store = faulty
    store.stat("x")
    writers = 16 if size < MIB else 4
    barrier = threading.Barrier(writers)

    def commit(number):
        path = tmp_path / str(number)
        path.write_bytes(bytes([number]) * size)
        barrier.wait()
        try:
            store.commit_file(path, "x.parquet")
        except ConflictError:
            assert path.exists()
            return None
        assert not path.exists()
        return number

    with ThreadPoolExecutor(writers) as pool:
        (winner,) = [number for number in pool.map(commit, range(writers)) if number is not None]
    assert store.read_bytes("x.parquet") == bytes([winner]) * size
    assert uploads(api, store) == []


@pytest.mark.parametrize("size", [0, 5, 5 * MIB, 5 * MIB + 1, 13 * MIB])
def test_commit(store, tmp_path, size, api):
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    first = store.commit_file(stage(tmp_path, content), "deep/a.parquet")
    assert first == store.stat("deep/a.parquet") == store.list_shards()[0]
    assert first.size_bytes == size
    assert store.read_bytes("deep/a.parquet") == content
    with pytest.raises(ConflictError):
        store.commit_file(stage(tmp_path, content), "deep/a.parquet")
    second = store.commit_file(stage(tmp_path, content + b"2"), "deep/a.parquet", replace=first)
    with pytest.raises(ConflictError):
        store.commit_file(stage(tmp_path, content + b"3"), "deep/a.parquet", replace=first)
    assert store.read_bytes("deep/a.parquet") == content + b"2"
    store.delete("deep/a.parquet")
    with pytest.raises(ConflictError):
        store.commit_file(stage(tmp_path, content + b"4"), "deep/a.parquet", replace=second)
    assert store.stat("deep/a.parquet") is None
    assert uploads(api, store) == []
    with pytest.raises(StorageNotFoundError, match="nowhere"):
        store.commit_file(tmp_path / "nowhere", "deep/a.parquet")


COMMIT_LARGE = """
    import sys
    from pathlib import Path
    from types import SimpleNamespace
    from sidecar_core.storage.s3 import S3Storage
    prefix, endpoint, folder = sys.argv[1:]
    store = S3Storage(
        prefix, SimpleNamespace(region="us-east-1", profile=None, endpoint_url=endpoint),
        single_put_bytes=5 * 2**20, part_bytes=5 * 2**20,
    )
    staged = Path(folder, "staged")
    staged.write_bytes(b"x" * (60 * 2**20))
    store.stat("a")
    print("ready", flush=True)
    store.commit_file(staged, "a.parquet")
    print("done", flush=True)
"""


def test_a_process_that_is_killed_while_it_uploads_leaves_no_object(store, proxy, tmp_path, api):
    under_way = threading.Event()
    parts = 0

    def count_parts(method, path, headers):
        nonlocal parts
        parts += "partNumber=" in path
        if parts == 4:
            under_way.set()

    proxy.fault = count_parts
    arguments = [sys.executable, "-c", textwrap.dedent(COMMIT_LARGE), store.prefix, proxy.url, str(tmp_path)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    assert under_way.wait(60)
    child.send_signal(signal.SIGKILL)
    said, _ = child.communicate()
    assert said == b""
    assert store.list_shards(missing_ok=True) == []
    assert len(uploads(api, store)) == 1
    if is_moto(api):  # it says that every upload began in 2010
        assert store.clean_staging() == 1
        assert uploads(api, store) == []
    store.commit_file(stage(tmp_path, b"again"), "a.parquet")
    assert store.read_bytes("a.parquet") == b"again"


def test_no_server(prefix, options):
    store = S3Storage(prefix, type(options)("http://127.0.0.1:1"), retry=QUICK)
    with pytest.raises(StorageError, match="tried 2 times") as caught:
        store.list_shards()
    assert "endpoint http://127.0.0.1:1" in str(caught.value)


def test_no_credentials(prefix, options, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match="no AWS credentials") as caught:
        S3Storage(prefix, options, retry=QUICK).read_bytes("a")
    assert "storage.profile" in str(caught.value)


def test_a_profile_that_is_not_there(prefix, options):
    with pytest.raises(StorageError, match="nobody"):
        S3Storage(prefix, type(options)(options.endpoint_url, profile="nobody")).stat("a")


def test_a_credential_process_without_a_terminal_ends_at_once(prefix, options, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    script = tmp_path / "helper.py"
    script.write_text("import sys; open('/dev/tty'); print(input('code? '))")
    Path(tmp_path, "aws-config").write_text(f"[profile asks]\ncredential_process = {sys.executable} {script}\n")
    with pytest.raises(StorageError, match="/dev/tty") as caught:
        S3Storage(prefix, type(options)(options.endpoint_url, profile="asks")).stat("a")
    assert "log in first" in str(caught.value)
    assert caught.value.message.startswith(prefix)


KEY_ID, SECRET = "EXAMPLEKEYID", "EXAMPLESECRET"  # those of the servers


def test_a_profile_gives_credentials_and_none_leave_the_process(store, options, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    Path(tmp_path, "aws-credentials").write_text(
        f"[team]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
    )
    team = S3Storage(store.prefix, type(options)(options.endpoint_url, profile="team"))
    team.write_bytes("a", b"x")
    pickled = pickle.dumps(team)
    assert KEY_ID.encode() not in pickled
    assert SECRET.encode() not in pickled
    assert pickle.loads(pickled).read_bytes("a") == b"x"


HELPER = """
import datetime, json, pathlib
calls = pathlib.Path(__file__).with_name("calls")
with calls.open("a") as file:
    file.write("x")
expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)
known = {"AccessKeyId": "EXAMPLEKEYID", "SecretAccessKey": "EXAMPLESECRET"}
print(json.dumps({"Version": 1, **known, "Expiration": expires.isoformat()}))
"""


def test_credentials_are_renewed_before_they_expire(store, options, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    Path(tmp_path, "helper.py").write_text(HELPER)
    config = f"[profile short]\ncredential_process = {sys.executable} {tmp_path}/helper.py\n"
    Path(tmp_path, "aws-config").write_text(config)
    short = S3Storage(store.prefix, type(options)(options.endpoint_url, profile="short"))
    short.write_bytes("a", b"x")
    first = Path(tmp_path, "calls").stat().st_size
    assert short.read_bytes("a") == b"x"
    assert Path(tmp_path, "calls").stat().st_size > first >= 1


@pytest.mark.usefixtures("only_moto")
def test_a_store_that_ignores_conditions_is_told_apart(store, proxy, options):
    assert store.honours_conditions()
    assert store.list_objects(missing_ok=True) == []

    def forget_conditions(method, path, headers):
        for name in ("If-None-Match", "If-Match"):
            if name in headers:
                del headers[name]

    proxy.fault = forget_conditions
    careless = S3Storage(store.prefix, type(options)(proxy.url), retry=QUICK)
    assert not careless.honours_conditions()
    first = careless.write_bytes("a", b"1", if_absent=True)
    with pytest.raises(ConflictError):
        careless.write_bytes("a", b"2", if_absent=True)
    second = careless.write_bytes("a", b"22", if_match=first)
    with pytest.raises(ConflictError):
        careless.write_bytes("a", b"3", if_match=first)
    assert careless.stat("a") == second


def test_without_boto3_it_says_what_to_install():
    code = """
        import sys
        sys.modules["boto3"] = None
        from sidecar_core.errors import StorageError
        from sidecar_core.storage import open_storage
        try:
            open_storage("s3://example-bucket/x")
        except StorageError as error:
            print(error)
        assert "botocore" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert 'pip install "sidecar-core[s3]"' in done.stdout


def test_staging_is_on_the_local_disk(store):
    folder = store.staging_dir("run")
    assert folder.is_dir()
    assert store.clean_staging() == 0
    assert folder.is_dir()
    folder.rmdir()
    assert store.free_bytes() > 0
