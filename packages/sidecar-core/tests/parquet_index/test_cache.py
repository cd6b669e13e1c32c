from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from sidecar_core.errors import StorageError, UsageError
from sidecar_core.parquet_index.cache import Cache, CacheOptions

A, B, C = (letter * 16 + "-" + "0" * 16 for letter in "abc")
A_NEW = "a" * 16 + "-" + "1" * 16


class Things:
    """A cache of things of some bytes, and what was made in it."""

    def __init__(self, folder, max_bytes=2**40, size=100):
        self.cache = Cache(CacheOptions(folder, max_bytes), "things")
        self.folder = folder / "things"
        self.size = size
        self.made = []

    def get(self, name, *, make=None, need=0):
        def write(folder):
            self.made.append(name)
            (folder / "data").write_bytes(b"x" * self.size)

        def is_whole(folder):
            data = folder / "data"
            return data.exists() and data.stat().st_size == self.size

        return self.cache.get(name, make=make or write, is_whole=is_whole, size=lambda: need)

    def there(self):
        return sorted(path.name for path in self.folder.iterdir() if "-" in path.name and path.is_dir())


@pytest.fixture
def things(cache_folder):
    return Things(cache_folder)


def used_long_ago(things, name, seconds):
    moment = time.time() - seconds
    os.utime(things.folder / name / "in-use", (moment, moment))


def test_a_thing_is_made_once(things):
    for _ in range(3):
        folder, in_use = things.get(A)
        assert (folder / "data").read_bytes() == b"x" * 100
        in_use.close()
    assert things.made == [A]
    assert not list((things.folder / "tmp").iterdir())


def test_what_fails_leaves_nothing(things):
    def fail(folder):
        (folder / "data").write_bytes(b"x" * 100)
        raise KeyError("no")

    with pytest.raises(KeyError):
        things.get(A, make=fail)
    assert things.there() == []
    assert not list((things.folder / "tmp").iterdir())
    things.get(A)
    assert things.made == [A]


@pytest.mark.parametrize("damage", ["shorter", "gone", "no mark", "in use"])
def test_a_damaged_thing_is_made_again(things, damage):
    folder, in_use = things.get(A)
    if damage != "in use":
        in_use.close()
    if damage == "gone":
        (folder / "data").unlink()
    elif damage == "no mark":
        (folder / "in-use").unlink()
    else:
        (folder / "data").write_bytes(b"x" * 99)
    folder, _ = things.get(A)
    assert (folder / "data").stat().st_size == 100
    assert things.made == [A, A]


def test_a_thing_that_is_never_whole_is_an_error(things):
    with pytest.raises(StorageError, match="damaged as soon as it is made"):
        things.get(A, make=lambda folder: None)


def test_beyond_the_cap_the_ones_used_longest_ago_go(cache_folder):
    things = Things(cache_folder, max_bytes=250)
    for name in (A, B):
        things.get(name)[1].close()
    used_long_ago(things, A, 50)
    used_long_ago(things, B, 100)
    things.get(C)[1].close()
    assert things.there() == [A, C]
    assert not (things.folder / f"{B}.lock").exists()


def test_to_open_is_to_use(cache_folder):
    things = Things(cache_folder, max_bytes=250)
    for name in (A, B):
        things.get(name)[1].close()
        used_long_ago(things, name, 100)
    things.get(A)[1].close()
    things.get(C)[1].close()
    assert things.there() == [A, C]


def test_what_is_in_use_stays(cache_folder):
    things = Things(cache_folder, max_bytes=0)
    _, first = things.get(A)
    _, second = things.get(B)
    assert things.there() == [A, B]
    first.close()
    first.close()
    things.cache.remove_unused()
    assert things.there() == [B]
    del second
    things.cache.remove_unused()
    assert things.there() == []


def test_another_version_replaces_those_that_nobody_uses(things):
    things.get(A)[1].close()
    _, in_use = things.get(B)
    things.get(A_NEW)[1].close()
    assert things.there() == [A_NEW, B]
    in_use.close()


def test_other_files_in_the_folder_stay(things):
    things.get(A)[1].close()
    (things.folder / "notes-of-mine").mkdir()
    (things.folder / "file-1").write_text("")
    things.cache.remove_unused(need_bytes=2**62)
    assert things.there() == ["notes-of-mine"]
    assert (things.folder / "file-1").exists()


def test_no_room_is_an_error_once_all_unused_are_gone(things):
    things.get(A)[1].close()
    with pytest.raises(StorageError, match=r"(?s)about .* GiB are needed, and .* GiB are free.*set SIDECAR_CACHE_DIR"):
        things.get(B, need=2**62)
    assert things.there() == []
    assert things.made == [A]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"(?s)file/things: cannot make or open .*set SIDECAR_CACHE_DIR"):
        Things(tmp_path / "file").get(A)


def test_a_full_disk_is_an_error(things):
    def fail(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(
        StorageError, match=r"(?s)No space left on device.*free space on that disk, or set SIDECAR_CACHE"
    ):
        things.get(A, make=fail)


def test_where_the_cache_is():
    def folder(**environment):
        return CacheOptions.from_environment(environment).folder

    assert folder(SIDECAR_CACHE_DIR="/fast/disk") == Path("/fast/disk")
    assert folder(SIDECAR_CACHE_DIR="here") == Path.cwd() / "here"
    assert folder(SIDECAR_CACHE_DIR="").name == "sidecar"
    assert folder().is_relative_to(Path.home())


def test_how_large_it_may_get():
    assert CacheOptions.from_environment({}).max_bytes == 100 * 2**30
    assert CacheOptions.from_environment({"SIDECAR_CACHE_MAX_GIB": "0.5"}).max_bytes == 2**29
    for text in ("many", "-1", "inf", "nan"):
        with pytest.raises(UsageError, match=f"SIDECAR_CACHE_MAX_GIB is '{text}'"):
            CacheOptions.from_environment({"SIDECAR_CACHE_MAX_GIB": text})
