from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError, UsageError
from sidecar_core.storage import LocalStorage, ObjectInfo, ProcessIdentity, open_storage
from sidecar_core.storage import local as local_module


@pytest.fixture
def store(tmp_path):
    return open_storage(str(tmp_path / "out"))


def stage(store, content=b"shard", name="staged.parquet"):
    path = store.staging_dir("run") / name
    path.write_bytes(content)
    return path


def names(store):
    """Every file and link below the prefix."""
    root = Path(store.prefix)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def test_only_shards_are_listed_and_bad_ones_are_among_them(tmp_path):
    for name in [
        "b/a.parquet", "a.parquet", "a é=1+2%20.parquet", "_SUCCESS", ".a.parquet.crc", "notes.txt", "a.parquet.tmp",
        "zero.parquet", "_sidecar/runs/x.parquet", ".hidden/x.parquet", "b/_x.parquet", "b/.x.parquet", ".parquet",
        "A.PARQUET",
    ]:  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == "zero.parquet" else b"PAR1")
    (tmp_path / "dir.parquet").mkdir()
    (tmp_path / "dir.parquet" / "part.parquet").touch()
    store = open_storage(str(tmp_path))
    assert [info.rel_path for info in store.list_shards()] == [
        "a é=1+2%20.parquet", "a.parquet", "b/a.parquet", "dir.parquet/part.parquet", "zero.parquet",
    ]  # fmt: skip
    assert "_sidecar/runs/x.parquet" in [info.rel_path for info in store.list_objects()]


def test_listing_and_stat_tell_the_same(store):
    store.write_bytes("x/a.parquet", b"12345")
    (listed,) = store.list_shards()
    assert listed == store.stat("x/a.parquet")
    assert (listed.rel_path, listed.size_bytes, listed.etag) == ("x/a.parquet", 5, None)
    assert listed.mtime_ns == Path(store.prefix, "x/a.parquet").stat().st_mtime_ns


def test_a_subprefix_is_text(store):
    for name in ("2024-1/a.parquet", "2024-11/b.parquet", "2025/c.parquet", "2024-1/deep/d.parquet"):
        store.write_bytes(name, b"x")
    found = {sub: [info.rel_path for info in store.list_shards(sub)] for sub in ("2024-1", "2024-1/", "2024-1/d")}
    assert found["2024-1"] == ["2024-1/a.parquet", "2024-1/deep/d.parquet", "2024-11/b.parquet"]
    assert found["2024-1/"] == ["2024-1/a.parquet", "2024-1/deep/d.parquet"]
    assert found["2024-1/d"] == ["2024-1/deep/d.parquet"]
    assert store.list_shards("2030") == []


def test_a_missing_prefix_and_one_that_is_a_file(tmp_path):
    missing = open_storage(str(tmp_path / "not there"))
    with pytest.raises(StorageNotFoundError, match="not there"):
        missing.list_shards()
    assert missing.list_shards(missing_ok=True) == []
    (tmp_path / "a.parquet").write_bytes(b"x")
    with pytest.raises(StorageError, match=r"a\.parquet.*a file") as caught:
        open_storage(str(tmp_path / "a.parquet")).list_shards(missing_ok=True)
    assert not isinstance(caught.value, StorageNotFoundError)


def test_a_prefix_that_cannot_be_looked_at_is_named(tmp_path):
    # as behind a closed folder, but also for root
    storage = LocalStorage(f"{tmp_path}/{'a' * 300}/")
    with pytest.raises(StorageError, match="cannot list it: File name too long"):
        storage.list_objects()
    with pytest.raises(StorageError, match="cannot list it: File name too long"):
        storage.list_objects("_sidecar/runs/", missing_ok=True)


def test_what_cannot_be_read_is_named_once(tmp_path):
    with pytest.raises(StorageNotFoundError) as caught:
        LocalStorage(f"{tmp_path}/").open_input("a.parquet")
    assert caught.value.args[0] == f"{tmp_path}/a.parquet: cannot read it: No such file or directory"


def test_symlinks_are_followed_but_not_in_circles(tmp_path):
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.parquet").write_bytes(b"x")
    data = tmp_path / "data"
    (data / "sub" / "a.parquet").write_bytes(b"x")
    (data / "sub" / "up").symlink_to(data)
    (data / "self").symlink_to(data / "self")
    (data / "linked").symlink_to(tmp_path / "elsewhere")
    (data / "gone.parquet").symlink_to(tmp_path / "nowhere.parquet")
    store = open_storage(str(data))
    assert [info.rel_path for info in store.list_shards()] == ["gone.parquet", "linked/b.parquet", "sub/a.parquet"]
    with pytest.raises(StorageNotFoundError, match=r"gone\.parquet"):
        store.open_input("gone.parquet")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such names")
def test_a_shard_whose_name_is_not_utf8_is_named(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).touch()
    store = open_storage(str(tmp_path))
    assert store.list_objects() == []
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.parquet")).touch()
    with pytest.raises(StorageError, match=r"caf\\xe9\.parquet.*not UTF-8"):
        store.list_shards()


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS reads names as UTF-8 in every locale")
def test_a_locale_that_is_not_utf8_is_told_from_a_name_that_is_not(tmp_path):
    (tmp_path / "größe.parquet").touch()
    program = "import sys; from sidecar_core.storage import open_storage; open_storage(sys.argv[1]).list_shards()"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    failed, well = (
        subprocess.run(
            [sys.executable, "-c", program, tmp_path],
            env={**environment, "PYTHONUTF8": utf8},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        for utf8 in ("0", "1")
    )
    assert "größe.parquet': a shard whose name cannot be read: the encoding of this locale is ascii" in failed.stderr
    assert "fix: PYTHONUTF8=1 in the environment" in failed.stderr
    assert well.returncode == 0, well.stderr


def test_reading(store):
    store.write_bytes("x/a", b"0123456789")
    with store.open_input("x/a") as file:
        assert (file.size(), file.seekable()) == (10, True)
        file.seek(4)
        assert file.read(3) == b"456"
    assert store.read_bytes("x/a") == b"0123456789"
    for read in (store.open_input, store.read_bytes):
        with pytest.raises(StorageNotFoundError, match=r"x/b"):
            read("x/b")
        with pytest.raises(StorageError, match=r"/x: cannot read"):
            read("x")
    assert store.stat("x/b") is None
    assert store.stat("x") is None
    assert store.stat("x/a/b") is None


@pytest.mark.parametrize("rel_path", ["../a", "a/../../b", "/etc/x", "a//b", "", "a/", "./a", "a\0"])
def test_nothing_leaves_the_prefix(store, rel_path):
    for call in (
        store.stat,
        store.read_bytes,
        store.open_input,
        store.delete,
        lambda path: store.write_bytes(path, b""),
    ):
        with pytest.raises(StorageError):
            call(rel_path)


def test_writes_are_whole_and_leave_nothing_else(store):
    first = store.write_bytes("deep/down/a.json", b"one")
    second = store.write_bytes("deep/down/a.json", b"two")
    assert store.read_bytes("deep/down/a.json") == b"two"
    assert first != second
    assert names(store) == ["deep/down/a.json"]


def test_write_if_absent(store):
    store.write_bytes("a", b"one", if_absent=True)
    with pytest.raises(ConflictError, match="exists already"):
        store.write_bytes("a", b"two", if_absent=True)
    assert store.read_bytes("a") == b"one"
    assert names(store) == ["a"]


def test_write_if_match(store):
    first = store.write_bytes("a", b"one")
    second = store.write_bytes("a", b"two", if_match=first)
    with pytest.raises(ConflictError, match="changed since"):
        store.write_bytes("a", b"six", if_match=first)
    assert store.stat("a") == second
    store.delete("a")
    with pytest.raises(ConflictError, match="gone since"):
        store.write_bytes("a", b"six", if_match=second)
    with pytest.raises(UsageError):
        store.write_bytes("a", b"", if_absent=True, if_match=first)
    assert names(store) == []


def test_two_versions_never_look_the_same(store):
    versions = [store.write_bytes("a", b"same size") for _ in range(200)]
    assert len(set(versions)) == 200


@pytest.mark.parametrize("hard_links", [True, False])
def test_one_of_many_writers_creates_an_object(store, hard_links, monkeypatch):
    if not hard_links:
        monkeypatch.setattr(local_module.os, "link", refuse_links)
    for round_ in range(5):
        barrier = threading.Barrier(16)

        def create(number, round_=round_, barrier=barrier):
            barrier.wait()
            try:
                store.write_bytes(f"x/{round_}", f"{number}".encode(), if_absent=True)
            except ConflictError:
                return None
            return number

        with ThreadPoolExecutor(16) as pool:
            (winner,) = [number for number in pool.map(create, range(16)) if number is not None]
        assert store.read_bytes(f"x/{round_}") == f"{winner}".encode()


def test_one_of_many_writers_replaces_a_version(store):
    present = store.write_bytes("a", b"--")
    for _ in range(5):
        barrier = threading.Barrier(16)

        def replace(number, present=present, barrier=barrier):
            barrier.wait()
            try:
                return store.write_bytes("a", f"{number:02}".encode(), if_match=present)
            except ConflictError:
                return None

        with ThreadPoolExecutor(16) as pool:
            (present,) = [info for info in pool.map(replace, range(16)) if info is not None]
        assert store.stat("a") == present


def refuse_links(source, target):
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("hard_links", [True, False])
def test_commit_creates_once(store, hard_links, monkeypatch):
    if not hard_links:
        monkeypatch.setattr(local_module.os, "link", refuse_links)
    info = store.commit_file(stage(store), "deep/a.parquet")
    assert info == store.stat("deep/a.parquet")
    again = stage(store, b"other")
    with pytest.raises(ConflictError, match=r"deep/a\.parquet: exists already"):
        store.commit_file(again, "deep/a.parquet")
    assert store.read_bytes("deep/a.parquet") == b"shard"
    assert again.read_bytes() == b"other"
    again.unlink()
    assert names(store) == ["deep/a.parquet"]


def test_commit_replaces_the_planned_version_only(store):
    first = store.commit_file(stage(store), "a.parquet")
    second = store.commit_file(stage(store, b"SHARD"), "a.parquet", replace=first)
    assert store.read_bytes("a.parquet") == b"SHARD"
    with pytest.raises(ConflictError, match="changed since"):
        store.commit_file(stage(store), "a.parquet", replace=first)
    store.delete("a.parquet")
    with pytest.raises(ConflictError, match="gone since"):
        store.commit_file(stage(store), "a.parquet", replace=second)
    assert store.stat("a.parquet") is None


def test_commit_from_another_file_system(store, tmp_path):
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    staged = elsewhere / f"sidecar-test-{os.getpid()}"
    staged.write_bytes(b"shard")
    try:
        store.commit_file(staged, "a.parquet")
        assert not staged.exists()
    finally:
        staged.unlink(missing_ok=True)
    assert store.read_bytes("a.parquet") == b"shard"
    assert names(store) == ["a.parquet"]


def run_child(code, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], **options)


COMMIT_FOR_EVER = """
    import sys
    from sidecar_core.storage import open_storage
    store = open_storage(sys.argv[1])
    print("ready", flush=True)
    present = None
    for number in range(10**9):
        staged = store.staging_dir("run") / "staged"
        staged.write_bytes(bytes([number % 256]) * 3_000_000)
        present = store.commit_file(staged, "x/a.parquet", replace=present)
        store.write_bytes("x/b", bytes([number % 256]) * 1_000_000)
"""


def test_a_killed_process_leaves_whole_files_and_its_leftovers_are_removed(tmp_path):
    for number in range(10):
        store = open_storage(str(tmp_path / str(number)))
        child = run_child(COMMIT_FOR_EVER, store.prefix, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        threading.Event().wait(0.013 * number)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        for name, size in (("x/a.parquet", 3_000_000), ("x/b", 1_000_000)):
            if store.stat(name) is not None:
                content = store.read_bytes(name)
                assert content == content[:1] * size
        store.clean_staging()
        assert set(names(store)) <= {"x/a.parquet", "x/b"}


WRITE_TOO_MUCH = """
    import resource, signal, sys
    from sidecar_core.errors import StorageError
    from sidecar_core.storage import open_storage
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    store = open_storage(sys.argv[1])
    try:
        store.write_bytes("a/b.json", b"x" * 2_000_000)
    except StorageError as error:
        print(error)
"""


def test_a_full_disk_leaves_no_file_and_says_so(store):
    child = run_child(WRITE_TOO_MUCH, store.prefix, stdout=subprocess.PIPE, text=True)
    said, _ = child.communicate()
    assert child.returncode == 0
    assert "a/b.json: cannot write it: File too large" in said
    assert "fix: " in said
    assert names(store) == []


def test_clean_staging_spares_the_living_and_other_hosts(store):
    mine = store.staging_dir("run-1")
    me = ProcessIdentity.current()
    tmp = mine.parent
    dead = run_child("pass")
    dead.wait()
    others = [
        f"otherhost-{dead.pid}-1-run",  # cannot be seen from here
        "notes",
    ]
    gone = [
        f"{me.host}-{dead.pid}-{me.birth}-run",
        f"{me.host}-{me.pid}-{me.birth}9-run",  # our number, given to another process before
        f"{me.host}-{2**31 - 1}-{me.birth}-run-2",
    ]
    for name in others + gone:
        (tmp / name / "x").mkdir(parents=True)
        (tmp / name / "x" / "shard.parquet").write_bytes(b"x")
    Path(store.prefix, "deep").mkdir()
    Path(store.prefix, "deep", f".sidecar-tmp-{me.host}-{dead.pid}-{me.birth}-0").touch()
    Path(store.prefix, "deep", f".sidecar-tmp-{me.token}-0").touch()
    assert store.clean_staging() == 4
    assert {path.name for path in tmp.iterdir()} == {mine.name, *others}
    assert [path.name for path in Path(store.prefix, "deep").iterdir()] == [f".sidecar-tmp-{me.token}-0"]
    assert store.clean_staging() == 0


def test_the_staging_folder_is_one_a_run_and_not_a_shard(store):
    folder = store.staging_dir("run")
    assert folder == store.staging_dir("run")
    assert folder != store.staging_dir("run2")
    assert str(folder).startswith(f"{store.prefix}_sidecar/tmp/")
    stage(store)
    assert store.list_shards() == []


def test_free_bytes_of_a_prefix_that_is_not_there_yet(tmp_path):
    free = open_storage(str(tmp_path / "a" / "b")).free_bytes()
    assert free is not None
    assert free > 0


def test_what_may_not_be_read_is_named(store, monkeypatch):
    store.write_bytes("x/a.parquet", b"x")

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(local_module.os, "scandir", refuse)
    with pytest.raises(StorageError, match="cannot list it: Permission denied") as caught:
        store.list_shards()
    assert caught.value.fix


def test_open_storage_knows_the_scheme(tmp_path):
    store = open_storage(f"file://{tmp_path}")
    assert isinstance(store, LocalStorage)
    assert store.prefix == f"{tmp_path}/"
    assert isinstance(store.write_bytes("a", b""), ObjectInfo)
    assert isinstance(store.open_input("a"), pa.NativeFile)
