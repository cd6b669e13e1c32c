"""Faults of every kind on every kind of request, through a proxy before real servers."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError
from sidecar_core.storage import s3_client
from sidecar_core.storage.s3 import S3Storage
from sidecar_core.storage.s3_client import RetryPolicy
from sidecar_core.storage.s3_reader import TAIL_BYTES
from sidecar_core.storage.uris import split_bucket

MIB = 2**20
QUICK = RetryPolicy(attempts=4, connect_attempts=2, first_wait_s=0.001, longest_wait_s=0.002, silence_s=1.0)
SMALL = bytes(range(256)) * 10
LARGE = bytes(range(256)) * (6 * 4096)  # 6 MiB: two parts
LIST, HEAD, READ, PUT, DELETE = "list", "head", "read", "put", "delete"
CREATE, PART, COMPLETE, ABORT = "create", "part", "complete", "abort"
ANSWERS = {
    "503": 503,
    "503 without body": (503, b""),
    "503 with a page": (503, b"<html><h1>Service Unavailable</h1>"),
    "500": 500,
    "429": 429,
    "reset": "drop",
    "lost": "lose_answer",
}
BODIES = {"cut": "cut_body", "cut unseen": "cut_chunks", "stalled": "stall_body"}


@pytest.fixture
def faulty(prefix, proxy, options):
    direct = type(options)(proxy.url)
    return S3Storage(prefix, direct, retry=QUICK, single_put_bytes=5 * MIB, part_bytes=5 * MIB)


@pytest.fixture
def staged(tmp_path):
    def stage(content=SMALL):
        path = tmp_path / "staged.parquet"
        path.write_bytes(content)
        return path

    return stage


def kind_of(method, path):
    """Returns what a request is, by the words above."""
    if method == "GET":
        return LIST if "list-type=" in path or "?uploads" in path else READ
    if method == "PUT":
        return PART if "partNumber=" in path else PUT
    if method == "POST":
        return CREATE if "?uploads" in path else COMPLETE
    if method == "DELETE":
        return ABORT if "uploadId=" in path else DELETE
    return HEAD


def fail(proxy, kind, fault, *, times=2):
    """Has the first requests of a kind fail; each part of an upload counts alone."""
    seen = {}

    def choose(method, path, headers):
        if kind_of(method, path) != kind:
            return None
        number = path.partition("partNumber=")[2]
        seen[number] = seen.get(number, 0) + 1
        return fault if seen[number] <= times else None

    proxy.fault = choose
    proxy.requests.clear()


def count(proxy, kind):
    return sum(1 for method, path in proxy.requests if kind_of(method, path) == kind)


def keys(api, store):
    bucket, key = split_bucket(store.prefix)
    found = api.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])
    return [item["Key"].removeprefix(key) for item in found]


def uploads(api, store):
    bucket, key = split_bucket(store.prefix)
    return [upload["Key"] for upload in api.list_multipart_uploads(Bucket=bucket, Prefix=key).get("Uploads", [])]


def is_moto(api):
    return "werkzeug" in api.list_buckets()["ResponseMetadata"]["HTTPHeaders"].get("server", "").lower()


@pytest.mark.parametrize("fault", ANSWERS)
class TestTwiceThenSuccess:
    def test_reading(self, faulty, proxy, fault):
        content = SMALL * 100
        assert len(content) > 2 * TAIL_BYTES
        info = faulty.write_bytes("a.parquet", content)
        fail(proxy, LIST, ANSWERS[fault])
        assert faulty.list_shards() == [info]
        assert count(proxy, LIST) == 3
        fail(proxy, HEAD, ANSWERS[fault])
        assert faulty.stat("a.parquet") == info
        assert count(proxy, HEAD) == 3
        fail(proxy, READ, ANSWERS[fault])
        assert faulty.read_bytes("a.parquet") == content
        assert count(proxy, READ) == 3
        fail(proxy, READ, ANSWERS[fault])
        with faulty.open_input("a.parquet") as file:
            assert count(proxy, READ) == 3
            fail(proxy, READ, ANSWERS[fault])
            file.seek(1000)
            assert file.read(1000) == content[1000:2000]
            assert count(proxy, READ) == 3

    def test_a_put(self, faulty, proxy, staged, api, fault):
        fail(proxy, PUT, ANSWERS[fault])
        first = faulty.commit_file(staged(), "a.parquet")
        assert 3 <= count(proxy, PUT) <= 4
        assert api_read(api, faulty, "a.parquet") == SMALL
        fail(proxy, PUT, ANSWERS[fault])
        second = faulty.commit_file(staged(b"2"), "a.parquet", replace=first)
        assert faulty.stat("a.parquet") == second
        fail(proxy, PUT, ANSWERS[fault])
        faulty.write_bytes("b", b"3", if_absent=True)
        assert api_read(api, faulty, "b") == b"3"
        assert sorted(keys(api, faulty)) == ["a.parquet", "b"]

    @pytest.mark.parametrize("kind", [CREATE, PART, COMPLETE, HEAD])
    def test_an_upload_in_parts(self, faulty, proxy, staged, api, fault, kind):
        fail(proxy, kind, ANSWERS[fault])
        info = faulty.commit_file(staged(LARGE), "a.parquet")
        assert count(proxy, kind) >= 3
        proxy.fault = lambda method, path, headers: None
        assert faulty.stat("a.parquet") == info
        assert api_read(api, faulty, "a.parquet") == LARGE
        assert keys(api, faulty) == ["a.parquet"]
        if kind != CREATE or fault != "lost" or not is_moto(api):  # which says that every upload began in 2010
            assert uploads(api, faulty) == []

    def test_giving_up_an_upload(self, faulty, proxy, staged, api, fault):
        faulty.write_bytes("a.parquet", b"another writer's")
        fail(proxy, ABORT, ANSWERS[fault])
        with pytest.raises(ConflictError):
            faulty.commit_file(staged(LARGE), "a.parquet")
        assert count(proxy, ABORT) >= 2
        assert uploads(api, faulty) == []
        assert api_read(api, faulty, "a.parquet") == b"another writer's"

    def test_removing(self, faulty, proxy, api, fault):
        faulty.write_bytes("a", SMALL)
        fail(proxy, DELETE, ANSWERS[fault])
        faulty.delete("a")
        assert count(proxy, DELETE) == 3
        assert keys(api, faulty) == []


@pytest.mark.parametrize("fault", BODIES)
def test_bodies_that_end_early_or_stand_still_are_read_again(faulty, proxy, fault):
    content = SMALL * 100
    info = faulty.write_bytes("a.parquet", content)
    fail(proxy, LIST, BODIES[fault])
    assert faulty.list_shards() == [info]
    fail(proxy, READ, BODIES[fault])
    with faulty.open_input("a.parquet") as file:
        fail(proxy, READ, BODIES[fault])
        assert file.read() == content
    if fault != "cut unseen":  # nothing tells the length then but the object itself
        fail(proxy, READ, BODIES[fault])
        assert faulty.read_bytes("a.parquet") == content


SLOW = RetryPolicy(attempts=3, first_wait_s=0.001, longest_wait_s=0.002, slow_window_s=0.3)


@pytest.mark.parametrize("kind", [LIST, READ])
def test_bodies_that_dribble_are_read_again(prefix, proxy, options, kind):
    store = S3Storage(prefix, type(options)(proxy.url), retry=SLOW)
    content = SMALL * 100
    info = store.write_bytes("a.parquet", content)
    reads = {LIST: lambda: store.list_shards() == [info], READ: lambda: store.read_bytes("a.parquet") == content}
    fail(proxy, kind, "dribble_body")
    assert reads[kind]()
    assert count(proxy, kind) == 3
    fail(proxy, kind, "dribble_body", times=99)
    with pytest.raises(StorageError, match=rf"{prefix}.*bytes in .* s, less than 8,192 a second \(tried 3 times"):
        reads[kind]()


def test_an_upload_that_dribbles_is_begun_again(prefix, proxy, options, tmp_path):
    size = 16 * MIB  # more than loopback itself holds
    policy = replace(SLOW, slow_bytes_per_s=20 * MIB)
    store = S3Storage(prefix, type(options)(proxy.url), retry=policy, single_put_bytes=size)
    path = tmp_path / "staged.parquet"
    path.write_bytes(bytes(size))
    fail(proxy, PUT, "dribble_upload")
    info = store.commit_file(path, "a.parquet")
    assert count(proxy, PUT) == 3
    assert info.size_bytes == size


def test_an_upload_that_fails_after_200_is_completed_again(faulty, proxy, staged, api):
    fail(proxy, COMPLETE, "error_in_200")
    faulty.commit_file(staged(LARGE), "a.parquet")
    assert count(proxy, COMPLETE) == 3
    assert api_read(api, faulty, "a.parquet") == LARGE


def test_an_answer_that_is_lost_does_not_hide_another_writer(faulty, proxy):
    first = faulty.write_bytes("a", b"mine")
    proxy.fail_first(1, "lose_answer")
    with pytest.raises(ConflictError):
        faulty.write_bytes("a", b"also mine", if_absent=True)
    second = faulty.write_bytes("a", b"next", if_match=first)
    assert faulty.read_bytes("a") == b"next"
    assert faulty.stat("a") == second


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (503, "503"),
        ((503, b""), "503"),
        (500, "500"),
        ("drop", "closed"),
        ("lose_answer", "closed"),
    ],
)
def test_it_gives_up_within_its_bound_and_names_the_object(faulty, proxy, staged, api, fault, said, monkeypatch):
    faulty.write_bytes("a.parquet", SMALL)
    waits = []
    # in this module alone: threads that another part of the process left behind sleep too
    monkeypatch.setattr(s3_client, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waits.append))
    for kind, attempt in (
        (LIST, faulty.list_shards),
        (HEAD, lambda: faulty.stat("a.parquet")),
        (READ, lambda: faulty.read_bytes("a.parquet")),
        (READ, lambda: faulty.open_input("a.parquet")),
        (PUT, lambda: faulty.commit_file(staged(), "b.parquet")),
        (CREATE, lambda: faulty.commit_file(staged(LARGE), "c.parquet")),
        (DELETE, lambda: faulty.delete("d.parquet")),
    ):
        if fault == "lose_answer" and kind == PUT:
            continue  # what was written is found
        fail(proxy, kind, fault, times=99)
        waits.clear()
        with pytest.raises(StorageError, match=rf"{faulty.prefix}.*{said}.*tried 4 times") as caught:
            attempt()
        assert count(proxy, kind) == QUICK.attempts
        assert len(waits) == QUICK.attempts - 1
        assert sum(waits) <= QUICK.longest_waits_s()
        assert "fix: " in str(caught.value)
    assert keys(api, faulty) == ["a.parquet"]


@pytest.mark.parametrize("kind", [CREATE, PART, COMPLETE])
def test_an_upload_that_is_given_up_leaves_nothing(faulty, proxy, staged, api, kind):
    fail(proxy, kind, 503, times=99)
    file = staged(LARGE)
    with pytest.raises(StorageError, match=r"b\.parquet: cannot .*503 SlowDown.*tried 4 times"):
        faulty.commit_file(file, "b.parquet")
    assert file.exists()
    assert uploads(api, faulty) == []
    assert keys(api, faulty) == []


def test_waits_grow_are_jittered_and_have_a_bound():
    policy = RetryPolicy()
    for failures in range(1, policy.attempts):
        longest = min(policy.longest_wait_s, policy.first_wait_s * 2 ** (failures - 1))
        drawn = {policy.wait_s(failures) for _ in range(100)}
        assert longest / 2 <= min(drawn) < max(drawn) <= longest
        assert len(drawn) > 50
    assert policy.longest_waits_s() == pytest.approx(91.5)


@pytest.mark.parametrize(("status", "kind"), [(403, StorageError), (404, StorageNotFoundError)])
def test_what_is_refused_is_not_tried_again(faulty, proxy, staged, status, kind):
    proxy.fault = lambda method, path, headers: status
    for attempt in (
        lambda: faulty.read_bytes("a"),
        lambda: faulty.open_input("a"),
        lambda: faulty.list_shards(missing_ok=True),
        lambda: faulty.commit_file(staged(LARGE), "a"),
    ):
        proxy.requests.clear()
        with pytest.raises(kind, match=str(status)) as caught:
            attempt()
        assert len(proxy.requests) == 1
        assert "region us-east-1, profile none, endpoint http" in str(caught.value)
    if status == 403:
        for attempt in (lambda: faulty.stat("a"), lambda: faulty.delete("a"), lambda: faulty.write_bytes("a", b"")):
            proxy.requests.clear()
            with pytest.raises(StorageError, match="403"):
                attempt()
            assert len(proxy.requests) == 1


def api_read(api, store, rel_path):
    bucket, key = split_bucket(store.prefix)
    return api.get_object(Bucket=bucket, Key=key + rel_path)["Body"].read()
