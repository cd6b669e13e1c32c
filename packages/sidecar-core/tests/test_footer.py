from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core.errors import ShardError, StorageNotFoundError
from sidecar_core.footer import FooterInfo, InputVersion, ReplacedTogether, parquet_footer_digest, read_footer
from sidecar_core.storage import open_storage

FOOTER = FooterInfo(
    fingerprint="f00d",
    run_id="20240229T120000Z-abcdef",
    version="0.1.0",
    inputs=(
        InputVersion("main", "s3://bucket/a é.parquet", 12, etag="abc-2", mtime_ns=5, parquet_footer_digest="cafe"),
        InputVersion("sibling", "/data/x.parquet", 7),
    ),
    rows=3,
    key_digest="1234",
    key_digest_row_groups=("12", "34"),
    invalid={"filter_luma": {"decode_failed": 2}, "caption é": {}},
)

TOGETHER = ReplacedTogether("id", {"a é": "run", "b": "other"}, {"a é": ((0, 2), (7, 1)), "b": ()})


@pytest.fixture
def store(tmp_path):
    return open_storage(str(tmp_path))


def write(store, name, metadata=None, *, columns=1):
    path = Path(store.prefix, name)
    table = pa.table({f"column_{number}": [1, 2, 3] for number in range(columns)})
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        if metadata:
            writer.add_key_value_metadata(metadata)
    return path


def test_what_is_written_is_read_back(store):
    write(store, "a.parquet", FOOTER.to_metadata())
    assert read_footer(store, "a.parquet") == FOOTER
    assert pickle.loads(pickle.dumps(FOOTER)) == FOOTER


def test_the_keys_are_those_that_people_look_for(store):
    assert sorted(FOOTER.to_metadata()) == [
        b"sidecar.fingerprint", b"sidecar.inputs", b"sidecar.invalid", b"sidecar.key_digest",
        b"sidecar.key_digest_row_groups", b"sidecar.rows", b"sidecar.run_id", b"sidecar.version",
    ]  # fmt: skip


def test_what_a_retry_replaced_together_is_read_back(store):
    footer = replace(FOOTER, together=TOGETHER)
    write(store, "a.parquet", footer.to_metadata())
    assert read_footer(store, "a.parquet") == footer
    assert (FOOTER.made_by, footer.made_by) == (FOOTER.run_id, "id")


def test_a_footer_that_is_longer_than_the_first_read(store):
    write(store, "wide.parquet", FOOTER.to_metadata(), columns=3000)
    assert read_footer(store, "wide.parquet") == FOOTER
    assert parquet_footer_digest(store, "wide.parquet")


def test_a_file_of_others_has_no_footer_of_ours(store):
    write(store, "a.parquet", {"pandas": "{}"})
    assert read_footer(store, "a.parquet") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({b"sidecar.rows": None}, "sidecar.rows"),
        ({b"sidecar.rows": b"many"}, "many"),
        ({b"sidecar.inputs": b"[1]"}, "unreadable"),
        ({b"sidecar.inputs": b"{"}, "unreadable"),
        ({b"sidecar.invalid": b"[]"}, "unreadable"),
        ({b"sidecar.run_id": b"\xff"}, "unreadable"),
        ({b"sidecar.together": b"{"}, "unreadable"),
        ({b"sidecar.together": b"{}"}, "unreadable"),
        ({b"sidecar.together": b'{"id": "x", "was": {}, "rows": {"a": [[1]]}}'}, "unreadable"),
    ],
)
def test_a_damaged_footer_of_ours_is_an_error(store, change, said):
    metadata = {key: value for key, value in (FOOTER.to_metadata() | change).items() if value is not None}
    with pytest.raises(ValueError, match=said):
        FooterInfo.from_metadata(metadata)
    if b"\xff" not in metadata[b"sidecar.run_id"]:
        write(store, "a.parquet", metadata)
        with pytest.raises(ShardError, match=rf"a\.parquet: not a readable Parquet file: .*{said}"):
            read_footer(store, "a.parquet")


def test_keys_of_a_later_version_do_no_harm():
    metadata = FOOTER.to_metadata() | {b"sidecar.more": b"x"}
    metadata[b"sidecar.inputs"] = metadata[b"sidecar.inputs"].replace(b'{"etag"', b'{"later":1,"etag"')
    assert FooterInfo.from_metadata(metadata) == FOOTER


@pytest.mark.parametrize("damage", ["empty", "short", "cut", "html", "length", "encrypted", "thrift"])
def test_a_file_that_is_no_parquet_file_is_named(store, damage):
    path = write(store, "a.parquet", FOOTER.to_metadata())
    whole = path.read_bytes()
    path.write_bytes({
        "empty": b"",
        "short": b"PAR1PAR1",
        "cut": whole[:-20],
        "html": b"<html><body>503 Slow Down</body></html>",
        "length": whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        "encrypted": whole[:-4] + b"PARE",
        "thrift": whole[:4] + b"\xff" * (len(whole) - 12) + whole[-8:],
    }[damage])  # fmt: skip
    with pytest.raises(ShardError, match=r"a\.parquet: not a readable Parquet file"):
        read_footer(store, "a.parquet")
    with pytest.raises(StorageNotFoundError):
        read_footer(store, "b.parquet")


def test_the_footer_digest_follows_the_content_not_the_file(store):
    path = write(store, "a.parquet")
    Path(store.prefix, "copy.parquet").write_bytes(path.read_bytes())
    write(store, "other.parquet", columns=2)
    digests = [parquet_footer_digest(store, name) for name in ("a.parquet", "copy.parquet", "other.parquet")]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 32
    path.write_bytes(b"")
    with pytest.raises(ShardError):
        parquet_footer_digest(store, "a.parquet")
