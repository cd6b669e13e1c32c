from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_core.errors import UsageError
from sidecar_core.storage import join, normalise_prefix, prefixes_overlap
from sidecar_core.storage.uris import split_bucket


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
