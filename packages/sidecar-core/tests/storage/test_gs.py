from __future__ import annotations

import pytest
from pyarrow import fs
from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError, UsageError
from sidecar_core.storage import open_storage
from sidecar_core.storage.gs import ArrowStorage, GcsStorage


@pytest.fixture
def store(tmp_path):
    (tmp_path / "bucket").mkdir()
    return ArrowStorage("gs://bucket/", fs.LocalFileSystem(), str(tmp_path / "bucket"))


def names(store):
    return [info.rel_path for info in store.list_objects()]


def test_a_gs_prefix_opens_without_touching_it():
    store = open_storage("gs://example-bucket/x")
    assert isinstance(store, GcsStorage)
    assert store.prefix == "gs://example-bucket/x/"


def test_listing(store):
    for name in ("b/a é=1.parquet", "a.parquet", "_SUCCESS", "b/.x.parquet", "2024-1/x.parquet", "2024-11/x.parquet"):
        store.write_bytes(name, b"x")
    shards = ["2024-1/x.parquet", "2024-11/x.parquet", "a.parquet", "b/a é=1.parquet"]
    assert [info.rel_path for info in store.list_shards()] == shards
    assert [info.rel_path for info in store.list_shards("2024-1")] == shards[:2]
    assert [info.rel_path for info in store.list_shards("2024-1/")] == shards[:1]
    assert store.list_shards()[0] == store.stat("2024-1/x.parquet")
    with pytest.raises(StorageNotFoundError, match="no such folder"):
        store.list_shards("nowhere/")
    assert store.list_shards("nowhere/", missing_ok=True) == []
    with pytest.raises(StorageError, match="a file where"):
        store.list_shards("a.parquet/")


def test_reading(store):
    store.write_bytes("x/a", b"0123456789")
    with store.open_input("x/a") as file:
        assert file.read_at(3, 4) == b"456"
    assert store.read_bytes("x/a") == b"0123456789"
    for read in (store.open_input, store.read_bytes):
        with pytest.raises(StorageNotFoundError, match="gs://bucket/x/b: cannot read it"):
            read("x/b")
    assert store.stat("x/b") is None
    with pytest.raises(StorageError, match="cannot be the path"):
        store.read_bytes("../a")


def test_conditions_are_looked_at_first(store):
    assert not store.honours_conditions()
    first = store.write_bytes("a", b"1", if_absent=True)
    with pytest.raises(ConflictError):
        store.write_bytes("a", b"2", if_absent=True)
    second = store.write_bytes("a", b"22", if_match=first)
    with pytest.raises(ConflictError):
        store.write_bytes("a", b"3", if_match=first)
    assert store.stat("a") == second
    with pytest.raises(UsageError):
        store.write_bytes("a", b"", if_absent=True, if_match=first)
    assert names(store) == ["a"]
    store.delete("a")
    store.delete("a")
    assert names(store) == []


def test_commit(store, tmp_path):
    staged = tmp_path / "staged"
    staged.write_bytes(b"x" * 20_000_000)
    first = store.commit_file(staged, "deep/a.parquet")
    assert not staged.exists()
    assert store.read_bytes("deep/a.parquet") == b"x" * 20_000_000
    staged.write_bytes(b"y")
    with pytest.raises(ConflictError):
        store.commit_file(staged, "deep/a.parquet")
    assert staged.exists()
    store.commit_file(staged, "deep/a.parquet", replace=first)
    assert store.read_bytes("deep/a.parquet") == b"y"
    assert names(store) == ["deep/a.parquet"]


def test_a_failed_commit_leaves_nothing(store, tmp_path):
    with pytest.raises(StorageNotFoundError):
        store.commit_file(tmp_path / "nowhere", "a.parquet")
    assert store.list_objects() == []


def test_leftovers_of_dead_processes_are_removed(store):
    store.write_bytes("_sidecar/tmp/somehost-1-1-abc", b"x")
    mine = store.staging_dir("run")
    assert store.clean_staging() == 0
    assert names(store) == ["_sidecar/tmp/somehost-1-1-abc"]
    assert mine.is_dir()
    mine.rmdir()
    assert store.free_bytes() > 0
