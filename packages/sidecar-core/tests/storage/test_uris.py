from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import UsageError
from sidecar_core.storage import join, normalise_prefix, prefixes_overlap
from sidecar_core.storage.uris import check_subprefix, split_bucket


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b", "s3://b/"),
        ("s3://b/", "s3://b/"),
        ("S3://b/a//", "s3://b/a/"),
        ("s3://b/a//c", "s3://b/a//c/"),
        ("s3://b/a b=1+2%20é", "s3://b/a b=1+2%20é/"),
        ("gs://b/x", "gs://b/x/"),
        ("/data/x", "/data/x/"),
        ("/data//x///", "/data/x/"),
        ("/", "/"),
        ("//data", "/data/"),
        ("file:///data/a%20b", "/data/a b/"),
        ("file://localhost/data", "/data/"),
        ("file:/data", "/data/"),
        ("./out", "/base/out/"),
        ("out/x", "/base/out/x/"),
        ("../out", "/out/"),
        ("a:b", "/base/a:b/"),
    ],
)
def test_each_way_of_writing_a_prefix_has_one_form(text, expected):
    assert normalise_prefix(text, relative_to=Path("/base")) == expected
    assert normalise_prefix(expected) == expected


@pytest.mark.parametrize(
    "text",
    ["", "  ", "s3://", "s3:///key", "s3:/b/key", "http://h/x", "file://host/x", "a\0b", "s3://b/\udcff", "x\udcff"],
)
def test_what_is_no_prefix_is_refused(text):
    with pytest.raises(UsageError) as caught:
        normalise_prefix(text)
    assert caught.value.expected


def test_another_spelling_of_a_scheme_says_the_right_one():
    with pytest.raises(UsageError, match="s3://bucket/x") as caught:
        normalise_prefix("s3a://bucket/x")
    assert caught.value.fix == "s3://bucket/x"


def test_home_and_working_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.chdir(tmp_path)
    assert normalise_prefix("~/data") == "/home/someone/data/"
    assert normalise_prefix("data") == f"{tmp_path}/data/"


def test_dots_behind_a_symlink_lead_where_the_file_system_leads(tmp_path):
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    assert normalise_prefix(f"{tmp_path}/link/../x") == f"{tmp_path}/far/x/"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
def test_keys_are_taken_literally(key):
    prefix = normalise_prefix(f"s3://bucket/{key}")
    assert normalise_prefix(prefix) == prefix
    assert prefix.endswith("/")
    assert split_bucket(prefix) == ("bucket", f"{key.rstrip('/')}/" if key.rstrip("/") else "")
    assert join(prefix, "a.parquet") == prefix + "a.parquet"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("s3://b/x", "s3://b/x/", True),
        ("s3://b/x", "s3://b/x/y", True),
        ("s3://b/x", "s3://b/xy", False),
        ("s3://b", "s3://b/xy", True),
        ("s3://b/x", "s3://c/x", False),
        ("s3://b/x/../y", "s3://b/y/z", True),
        ("s3://b/x", "s3://b/x/../y", True),
        ("s3://b//x", "s3://b/x", True),
        ("s3://b/x", "gs://b/x", False),
        ("s3://b/x", "/b/x", False),
        ("/nowhere/x", "file:///nowhere/x/y", True),
        ("/nowhere/x", "/nowhere/xy", False),
        ("/", "/nowhere", True),
    ],
)
def test_overlap(first, second, expected):
    assert prefixes_overlap(first, second) is expected
    assert prefixes_overlap(second, first) is expected


def test_overlap_sees_through_symlinks(tmp_path):
    (tmp_path / "main").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "main")
    (tmp_path / "dangling").symlink_to(tmp_path / "later")
    assert prefixes_overlap(f"{tmp_path}/main", f"{tmp_path}/link/out")
    assert prefixes_overlap(f"{tmp_path}/link/not/there", f"{tmp_path}/main")
    assert prefixes_overlap(f"{tmp_path}/dangling", f"{tmp_path}/later/x")
    assert not prefixes_overlap(f"{tmp_path}/link/a", f"{tmp_path}/main/b")
    assert not prefixes_overlap(f"{tmp_path}/main", f"{tmp_path}/sidecar")


@pytest.mark.parametrize(
    ("prefix", "subprefix"),
    [
        ("/d/main/", ""),
        ("/d/main/", "fl"),
        ("/d/main/", "flickr/"),
        ("/d/main/", "a/b/part-00"),
        ("/d/main/", "..a/b.c"),
        ("/d/main/", "~/x"),
        ("/d/main/", "flickr:/p"),
        ("s3://b/main/", "/a//./../b"),  # keys are taken literally
        ("gs://b/main/", "flickr/"),
    ],
)
def test_the_beginning_of_paths_below_a_prefix(prefix, subprefix):
    check_subprefix(subprefix, prefix)


@pytest.mark.parametrize(
    ("prefix", "subprefix", "fix"),
    [
        ("/d/main/", "/d/main/flickr/", "--input-subprefix flickr/"),
        ("/d/main/", "/d/main/flickr/part-0", "--input-subprefix flickr/part-0"),
        ("/d/main/", "/d//main/./a b/", "--input-subprefix 'a b/'"),
        ("/d/main/", "file:///d/main/flickr/", "--input-subprefix flickr/"),
        ("/d/main/", "./flickr/", "--input-subprefix flickr/"),
        ("/d/main/", "flickr//x", "--input-subprefix flickr/x"),
        ("/d/main/", "/d/main", "leave --input-subprefix out: it is the whole dataset"),
        ("/d/main/", "./", "leave --input-subprefix out: it is the whole dataset"),
        ("/d/main/", "/flickr/", None),
        ("/d/main/", "../other/", None),
        ("/d/main/", "s3://b/main/flickr/", None),
        ("/d/main/", "http://host/x", None),
        ("/d/main/", "a\0b", None),
        ("s3://b/main/", "s3://b/main/flickr/", "--input-subprefix flickr/"),
        ("s3://b/main/", "s3://b/main/flickr/part", "--input-subprefix flickr/part"),
        ("s3://b/main/", "s3://b/main/", "leave --input-subprefix out: it is the whole dataset"),
        ("s3://b/main/", "s3://other/main/flickr/", None),
    ],
)
def test_what_no_path_below_a_prefix_begins_with(prefix, subprefix, fix):
    with pytest.raises(UsageError, match=f"no path below {prefix} begins with this") as caught:
        check_subprefix(subprefix, prefix)
    assert caught.value.expected == "the beginning of a path below it, such as 'flickr/'"
    assert caught.value.fix == fix


def test_a_folder_below_a_prefix_is_told_with_its_slash(tmp_path):
    (tmp_path / "main/flickr").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        check_subprefix(f"{tmp_path}/main/flickr", f"{tmp_path}/main/")
    assert caught.value.fix == "--input-subprefix flickr/"
