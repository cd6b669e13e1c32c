"""Where a report may go."""

from __future__ import annotations

import pytest
from sidecar_cli.report.file import default_file, given_file, write_file
from sidecar_cli.report.page import MARK
from sidecar_core.errors import RefusedError, StorageError, UsageError


def test_by_default_it_lies_in_the_run_folder_of_a_local_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = f"{tmp_path}/out/"
    assert default_file(out, made_by_sidecar=True, protected=[]) == tmp_path / "out/_sidecar/report.html"
    assert default_file(out, made_by_sidecar=False, protected=[]) == tmp_path / "sidecar-report-out.html"
    there = default_file("s3://bucket/a/birds/", made_by_sidecar=True, protected=["s3://bucket/main/"])
    assert there == tmp_path / "sidecar-report-birds.html"


def test_never_in_the_main_dataset(tmp_path, monkeypatch):
    main = tmp_path / "main"
    (main / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(main)
    for given in (f"{main}/r.html", f"{main}/deep/r.html", f"{tmp_path}/link/r.html", f"{tmp_path}/x/../main/r.html"):
        with pytest.raises(RefusedError, match="lies in the dataset"):
            given_file(given, protected=[None, f"{main}/"])
    monkeypatch.chdir(main)
    with pytest.raises(RefusedError):
        default_file("s3://bucket/out/", made_by_sidecar=True, protected=[f"{main}/"])


def test_never_a_shard_s_name_a_folder_or_another_file(tmp_path):
    for given in ("report.parquet", "report", "s3://bucket/report.html", str(tmp_path)):
        with pytest.raises(UsageError):
            given_file(given, protected=[])
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    with pytest.raises(RefusedError, match="no report wrote it"):
        given_file(f"{tmp_path}/mine.html", protected=[])
    write_file(tmp_path / "new/r.html", ["<!DOCTYPE html>\n", MARK])
    assert given_file(f"{tmp_path}/new/r.html", protected=[]).exists()


def test_a_page_that_fails_halfway_leaves_what_was_there(tmp_path):
    file = tmp_path / "r.html"
    write_file(file, ["before"])

    def pieces():
        yield "half"
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        write_file(file, pieces())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("r.html", "before")]
