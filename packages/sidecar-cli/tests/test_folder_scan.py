from __future__ import annotations

import os
import sys

import pytest
from sidecar_cli.folder_scan import scan_folder


def put(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"bytes")


def keys(folder):
    return [picture.key for picture in scan_folder(folder).pictures]


def test_pictures_are_found_at_any_depth_in_the_order_of_their_keys(tmp_path):
    put(tmp_path, "b.JPG", "a/z.png", "a/é=1 +%.webp", "a.tiff", "Z.heic", "q.jxl", "q.jp2", "q.avif")
    assert keys(tmp_path) == sorted(
        ["b.JPG", "a/z.png", "a/é=1 +%.webp", "a.tiff", "Z.heic", "q.jxl", "q.jp2", "q.avif"]
    )


def test_keys_are_spelled_as_the_file_system_spells_them(tmp_path):
    decomposed = "e\u0301.jpg"
    put(tmp_path, decomposed)
    assert keys(tmp_path) == [path.name for path in tmp_path.iterdir()]


def test_what_is_left_out_is_counted(tmp_path):
    put(tmp_path, "a.jpg", ".hidden.jpg", "._a.jpg", ".git/x.png", "notes.md", "a.txt", "lonely.txt")
    scan = scan_folder(tmp_path)
    assert [picture.key for picture in scan.pictures] == ["a.jpg"]
    assert scan.skipped == {"names that begin with a dot": 3, "files that are no pictures": 2}
    assert scan.problems == []


def test_captions_belong_to_the_picture_of_the_same_name_only(tmp_path):
    put(tmp_path, "a.jpg", "a.png", "a.txt", "b.jpg", "b.JSON", "c.v2.jpg", "c.txt", "c.v2.txt", "sub/a.jpg")
    found = {
        p.key: (p.caption and p.caption.name, p.description and p.description.name)
        for p in scan_folder(tmp_path).pictures
    }
    assert found == {
        "a.jpg": ("a.txt", None),
        "a.png": ("a.txt", None),
        "b.jpg": (None, "b.JSON"),
        "c.v2.jpg": ("c.v2.txt", None),
        "sub/a.jpg": (None, None),
    }


def test_links_to_folders_are_followed_and_loops_are_not(tmp_path):
    put(tmp_path, "in/a.jpg", "elsewhere/b.jpg")
    (tmp_path / "in/up").symlink_to("..")
    (tmp_path / "in/self").symlink_to(".")
    (tmp_path / "in/other").symlink_to("../elsewhere")
    scan = scan_folder(tmp_path / "in")
    assert [p.key for p in scan.pictures] == ["a.jpg", "other/b.jpg", "up/elsewhere/b.jpg"]
    assert scan.skipped["links into a folder above"] == 2


def test_everything_that_cannot_be_packed_is_named(tmp_path):
    put(tmp_path, "good.jpg", "latin.jpg")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "dangling.png").symlink_to("nowhere.png")
    os.mkfifo(tmp_path / "pipe.webp")
    (tmp_path / "dir.jpg").mkdir()
    scan = scan_folder(tmp_path)
    assert [p.key for p in scan.pictures] == ["good.jpg"]
    assert [problem.rpartition("/")[2] for problem in scan.problems] == [
        "dangling.png: No such file or directory",
        "latin.jpg: latin.txt is not UTF-8: byte 3 is 0xe9",
        "pipe.webp: it is no regular file",
    ]


@pytest.mark.skipif(sys.platform == "darwin", reason="this file system has no names that are not UTF-8")
def test_a_name_that_is_no_text_cannot_be_a_key(tmp_path):
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.jpg", os.O_CREAT))
    scan = scan_folder(tmp_path)
    assert scan.pictures == []
    assert "\\xff.jpg: its name is not UTF-8" in scan.problems[0]
