"""Several files, or none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from sidecar_cli.whole_files import write_whole_files
from sidecar_core.errors import RefusedError, StorageError


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def failing():
    yield "half"
    raise OSError(28, "No space left on device")


def test_all_are_written_and_their_size_is_returned(tmp_path):
    files = {tmp_path / "a": ["1", "2"], tmp_path / "new/b": ["é"]}
    assert write_whole_files(files, replace=False) == 4
    assert (contents(tmp_path), contents(tmp_path / "new")) == ({"a": "12"}, {"b": "é"})


def test_when_the_last_cannot_be_written_none_is(tmp_path):
    (tmp_path / "a").write_text("before")
    with pytest.raises(StorageError, match=r"b' cannot be written: No space(.|\n)*fix: elsewhere"):
        write_whole_files({tmp_path / "a": ["1"], tmp_path / "b": failing()}, replace=True, fix="elsewhere")
    assert contents(tmp_path) == {"a": "before"}


def test_a_folder_in_the_way_of_the_last_is_found_before_the_first_is_replaced(tmp_path):
    (tmp_path / "a").write_text("before")
    (tmp_path / "b").mkdir()
    with pytest.raises(StorageError, match="b' cannot be written: Is a directory"):
        write_whole_files({tmp_path / "a": ["1"], tmp_path / "b": ["2"]}, replace=True)
    assert contents(tmp_path) == {"a": "before"}


def test_a_file_that_came_meanwhile_is_kept(tmp_path):
    def pieces():
        (tmp_path / "a").write_text("mine")
        yield "2"

    with pytest.raises(RefusedError, match="a' exists"):
        write_whole_files({tmp_path / "a": ["1"], tmp_path / "b": pieces()}, replace=False)
    assert contents(tmp_path) == {"a": "mine"}


def test_a_file_that_comes_at_the_last_moment_is_kept(tmp_path, monkeypatch):
    link = Path.hardlink_to

    def hardlink_to(path, partial):
        if path.name == "b":
            path.write_text("mine")
        link(path, partial)

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    with pytest.raises(RefusedError, match="b' exists"):
        write_whole_files({tmp_path / "a": ["1"], tmp_path / "b": ["2"]}, replace=False)
    assert contents(tmp_path) == {"b": "mine"}


def test_a_file_system_without_hard_links_will_do(tmp_path, monkeypatch):
    def hardlink_to(path, partial):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    write_whole_files({tmp_path / "a": ["1"], tmp_path / "b": ["2"]}, replace=False)
    assert contents(tmp_path) == {"a": "1", "b": "2"}


def test_a_link_stays_one_and_a_file_keeps_its_permissions(tmp_path):
    (tmp_path / "real").mkdir()
    file = tmp_path / "real/a"
    file.write_text("before")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to(file)
    write_whole_files({tmp_path / "link": ["after"]}, replace=True)
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "real") == {"a": "after"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_name_as_long_as_names_can_be(tmp_path):
    write_whole_files({tmp_path / ("n" * 255): ["1"]}, replace=False)
    assert contents(tmp_path) == {"n" * 255: "1"}
