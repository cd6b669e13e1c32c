"""Indexes in a cache: shared by processes, made anew when they must be."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import RefusedError, ShardError, StorageNotFoundError, UsageError
from sidecar_core.parquet_index import IndexSpec, cached
from sidecar_core.parquet_index.build import BuildOptions
from sidecar_core.parquet_index.key_hash import hash_keys

FILES = ("rows.arrow", "hashes.arrow", "buckets.arrow", "index.json")

BUILDER = """
import sys, time, logging
from pathlib import Path
import pyarrow as pa
from sidecar_core.parquet_index import IndexSpec, build
from sidecar_core.parquet_index.cached import open_cached
from sidecar_core.parquet_index.key_hash import hash_keys

source, log, pause = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])

def slow(keys):
    if len(keys) > 1:
        with log.open("a") as file:
            file.write("building\\n")
        time.sleep(pause)
    return hash_keys(keys)

index = open_cached(IndexSpec(source=source, key_column="key"), build=build.BuildOptions(slow))
print(index.take(index.lookup(pa.array(["b"]))).to_pylist(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    pq.write_table(pa.table({"key": ["a", "b"], "value": [1, 2]}), folder / "part-0.parquet")
    return folder


def spec_of(source, **kwargs):
    return IndexSpec(**{"source": f"{source}/", "key_column": "key", **kwargs})


def value_of(index, key):
    return index.take(index.lookup(pa.array([key]))).to_pylist()[0]["value"]


def folders(cache_folder):
    return [path for path in (cache_folder / "parquet_index").iterdir() if path.is_dir() and path.name != "tmp"]


def builder(source, log, pause=0.0):
    command = [sys.executable, "-c", BUILDER, f"{source}/", str(log), str(pause)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_second_opening_makes_nothing(source, cache_folder):
    cached.open_cached(spec_of(source))
    (folder,) = folders(cache_folder)
    before = {name: (folder / name).stat().st_ino for name in FILES}
    assert value_of(cached.open_cached(spec_of(source)), "b") == 2
    assert {name: (folder / name).stat().st_ino for name in FILES} == before


def test_processes_wait_for_the_one_that_makes_it(source, tmp_path):
    log = tmp_path / "log"
    processes = [builder(source, log, 0.5) for _ in range(4)]
    try:
        answers = [process.stdout.readline() for process in processes]
    finally:
        for process in processes:
            process.communicate("")
    assert answers == ["[{'value': 2}]\n"] * 4
    assert log.read_text() == "building\n"


def test_a_killed_builder_leaves_nothing_that_is_taken_for_an_index(source, tmp_path, cache_folder):
    first = builder(source, tmp_path / "first", 600)
    wait_for(tmp_path / "first")
    second = builder(source, tmp_path / "second")
    try:
        time.sleep(0.3)
        assert folders(cache_folder) == []
        assert not (tmp_path / "second").exists()
        first.send_signal(signal.SIGKILL)
        assert second.stdout.readline() == "[{'value': 2}]\n"
    finally:
        first.kill()
        first.communicate()
        second.communicate("")
    assert len(folders(cache_folder)) == 1
    value_of(cached.open_cached(spec_of(source), build=BuildOptions(hash_keys)), "a")
    cached.Cache(cached.CacheOptions.from_environment(), cached.KIND).remove_unused()
    assert not list((cache_folder / "parquet_index" / "tmp").iterdir())


def test_an_index_in_use_by_another_process_stays(source, tmp_path, cache_folder, monkeypatch):
    process = builder(source, tmp_path / "log")
    monkeypatch.setenv("SIDECAR_CACHE_MAX_GIB", "0")
    cache = cached.Cache(cached.CacheOptions.from_environment(), cached.KIND)
    try:
        assert process.stdout.readline()
        cache.remove_unused()
        assert len(folders(cache_folder)) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        cache.remove_unused()
        assert folders(cache_folder) == []
    finally:
        process.kill()
        process.communicate()


def test_an_index_that_is_let_go_can_be_removed(source, cache_folder, monkeypatch):
    monkeypatch.setenv("SIDECAR_CACHE_MAX_GIB", "0")
    index = cached.open_cached(spec_of(source))
    cache = cached.Cache(cached.CacheOptions.from_environment(), cached.KIND)
    cache.remove_unused()
    assert value_of(index, "b") == 2
    assert len(folders(cache_folder)) == 1
    del index
    cache.remove_unused()
    assert folders(cache_folder) == []


@pytest.mark.parametrize("change", ["content", "another file", "removed file"])
def test_a_changed_source_is_read_again(source, cache_folder, change):
    extra = source / "part-1.parquet"
    pq.write_table(pa.table({"key": ["c"], "value": [3]}), extra)
    old = cached.open_cached(spec_of(source))
    if change == "content":
        path = source / "part-0.parquet"
        before = path.stat()
        pq.write_table(pa.table({"key": ["a", "b"], "value": [1, 9]}), path)
        assert path.stat().st_size == before.st_size
    elif change == "another file":
        pq.write_table(pa.table({"key": ["d"], "value": [4]}), source / "part-2.parquet")
    else:
        extra.unlink()
    new = cached.open_cached(spec_of(source))
    values = [value_of(new, key) for key in "abcd"]
    assert (
        values == {"content": [1, 9, 3, None], "another file": [1, 2, 3, 4], "removed file": [1, 2, None, None]}[change]
    )
    assert [value_of(old, key) for key in "abcd"] == [1, 2, 3, None]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["truncated", "overwritten", "gone", "empty"])
def test_a_damaged_index_is_made_again(source, cache_folder, name, damage, caplog):
    cached.open_cached(spec_of(source))
    (folder,) = folders(cache_folder)
    path = folder / name
    data = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "overwritten":
        path.write_bytes(data[:20] + b"\0" * 20 + data[40:])
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    assert value_of(cached.open_cached(spec_of(source)), "b") == 2
    assert "it is made again" in caplog.text
    assert len(folders(cache_folder)) == 1


def test_indexes_of_other_columns_are_others(source, cache_folder):
    pq.write_table(pa.table({"key": ["a", "a"], "value": [1, 2], "more": [3, 4]}), source / "part-0.parquet")
    first = cached.open_cached(spec_of(source, columns=("value",), duplicates="first"))
    last = cached.open_cached(spec_of(source, columns=("value",), duplicates="last"))
    more = cached.open_cached(spec_of(source, columns=("more",), duplicates="first"))
    assert (value_of(first, "a"), value_of(last, "a"), more.schema.names) == (1, 2, ["more"])
    assert len(folders(cache_folder)) == 3


def test_what_is_wrong_with_a_source_is_said(source, tmp_path):
    with pytest.raises(StorageNotFoundError, match="no such folder"):
        cached.open_cached(spec_of(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageNotFoundError, match="no shards at"):
        cached.open_cached(spec_of(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"no column 'valu'; did you mean 'value'\?"):
        cached.open_cached(spec_of(source, columns=("valu",)))


def test_a_source_that_changes_while_it_is_read_is_refused(source, cache_folder):
    def change(keys):
        pq.write_table(pa.table({"key": ["a"], "value": [3]}), source / "part-1.parquet")
        return hash_keys(keys)

    with pytest.raises(RefusedError, match="changed while it was read"):
        cached.open_cached(spec_of(source), build=BuildOptions(change))
    assert folders(cache_folder) == []


def test_no_file_that_is_not_a_shard_is_read(source):
    (source / "_SUCCESS").touch()
    (source / ".part-0.parquet.crc").write_bytes(b"crc")
    (source / "_old").mkdir()
    (source / "_old" / "part-0.parquet").write_bytes(b"old")
    (source / "notes.txt").write_text("text")
    assert value_of(cached.open_cached(spec_of(source)), "a") == 1


@pytest.mark.parametrize("names", [("part-1.parquet", "part-3.parquet"), ("a.parquet", "part-3.parquet")])
def test_files_that_are_no_parquet_files_are_all_named(source, names):
    pq.write_table(pa.table({"key": ["x"], "value": [3]}), source / "part-2.parquet")
    (source / names[0]).touch()
    (source / names[1]).write_bytes(b"PAR1 and no more")
    with pytest.raises(ShardError) as caught:
        cached.open_cached(spec_of(source))
    assert [name for name in sorted(path.name for path in source.iterdir()) if name in str(caught.value)] == sorted(
        names
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"key": ["c"]}, r"part-1\.parquet: no column 'value'"),
        ({"key": [3], "value": [3]}, r"part-1\.parquet: column 'key' is not as in the source's first file"),
        (
            {"key": ["c"], "value": ["x"]},
            r"part-1\.parquet row 0: column 'value' is string, and 'x' does not fit int64",
        ),
        ({"key": ["c"], "value": [[3]]}, r"part-1\.parquet: column 'value' is not as in the source's first file"),
    ],
)
def test_a_file_that_does_not_fit_the_first_is_named(source, table, message):
    pq.write_table(pa.table(table), source / "part-1.parquet")
    with pytest.raises(ShardError, match=message):
        cached.open_cached(spec_of(source))


def test_a_file_with_other_widths_fits(source):
    table = pa.table({"key": pa.array(["c"], pa.large_string()), "value": pa.array([3], pa.int8())})
    pq.write_table(table, source / "part-1.parquet")
    index = cached.open_cached(spec_of(source))
    assert value_of(index, "c") == 3
    assert index.schema == pa.schema([("value", pa.int64())])


def test_one_file_is_a_source(source):
    pq.write_table(pa.table({"key": ["z"], "value": [3]}), source / "part-1.parquet")
    index = cached.open_cached(IndexSpec(source=str(source / "part-1.parquet"), key_column="key"))
    assert (index.num_keys, value_of(index, "z")) == (1, 3)


def test_a_column_with_a_dot_in_its_name(source):
    table = pa.table({"key": ["a"], "pair": [{"x": 1}], "pair.x": [2]})
    pq.write_table(table, source / "part-0.parquet")
    index = cached.open_cached(spec_of(source, columns=("pair.x", "pair")))
    assert index.take(index.lookup(pa.array(["a"]))).to_pylist() == [{"pair.x": 2, "pair": {"x": 1}}]


FULL = """
import resource, sys
from sidecar_core.errors import StorageError
from sidecar_core.parquet_index import IndexSpec
from sidecar_core.parquet_index.cached import open_cached

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    open_cached(IndexSpec(source=sys.argv[1], key_column="key"))
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [20_000, 250_000])
def test_files_that_cannot_be_written_whole_leave_nothing(source, cache_folder, limit):
    table = pa.table({"key": range(20_000), "value": range(20_000)})
    pq.write_table(table, source / "part-0.parquet")
    command = [sys.executable, "-c", FULL, f"{source}/", str(limit)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "parquet_index: cannot make or open what is kept there: " in found.stdout
    assert "fix: raise the limit on the size of files (ulimit -f), or set SIDECAR_CACHE_DIR" in found.stdout
    assert folders(cache_folder) == []
    assert not list((cache_folder / "parquet_index" / "tmp").iterdir())
