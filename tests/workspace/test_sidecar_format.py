"""docs/sidecar-format.md: sidecar reads what is written by it, and writes nothing that it does not name."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import sys
from dataclasses import fields
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sidecar_core import open_aligned
from sidecar_core.align import key_digest
from sidecar_core.errors import AlignmentError, ShardError
from sidecar_core.footer import ReplacedTogether, read_footer
from sidecar_core.lease import LeaseRecord
from sidecar_core.storage import open_storage

PAGE = "docs/sidecar-format.md"
SHARDS = {"2024/part-0.parquet": ["a.jpg", "ü b.jpg", "c.jpg"], "part-1.parquet": ["d.jpg"], "part-2.parquet": []}
PIPELINE = """
dataset: dataset.yaml
plugins: [sidecar_core.testing.ops]
operations:
  - {type: merge_from_sidecar, source_prefix: photos_sizes, columns: [size]}
  - {type: join_from_parquet, source: ratings.parquet, columns: [rating]}
  - {type: measure_bytes}
"""
DATASET = "name: photos\nmain_prefix: photos\nsidecar_prefix: out\nkey_column: image_key\nimage_column: image\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, doc_page):
    """A main dataset, and the sidecar that the page's writer made of it."""
    folder = tmp_path_factory.mktemp("format")
    for rel_path, keys in SHARDS.items():
        (folder / "photos" / rel_path).parent.mkdir(parents=True, exist_ok=True)
        images = pa.array([b"x" * len(key) for key in keys], pa.binary())
        pq.write_table(
            pa.table({"image_key": pa.array(keys, pa.string()), "image": images}), folder / "photos" / rel_path
        )
    (folder / "photos/_notes").mkdir()
    shutil.copy(folder / "photos/part-1.parquet", folder / "photos/_notes/x.parquet")
    doc_page(PAGE).run(folder)
    return folder


@pytest.fixture(scope="module")
def made(folder, run_in):
    """What sidecar makes with that as a sibling; one shard of the main dataset is damaged."""
    shutil.copytree(folder, folder.parent / "made")
    made = folder.parent / "made"
    pq.write_table(pa.table({"image_key": ["a.jpg"], "rating": [5]}), made / "ratings.parquet")
    (made / "dataset.yaml").write_text(DATASET)
    (made / "pipeline.yaml").write_text(PIPELINE)
    command = [sys.executable, "-m", "sidecar_cli.main", "run", "pipeline.yaml", "--output-prefix", "out"]
    run_in(made, command)
    shutil.copytree(made / "out/_sidecar", made / "complete")  # before a run that fails
    (made / "photos/part-9.parquet").write_bytes(b"PAR1 no more")
    run_in(made, [*command, "--skip-existing"], status=1)
    verify = [sys.executable, "-m", "sidecar_cli.main", "verify", "photos_sizes", "--main-prefix", "photos"]
    run_in(made, verify, status=1)  # it lacks part-9
    return made


def named(doc_page, headline: str, header: str = "field") -> set[str]:
    """Returns the names in the first column of the table with this header below a headline."""
    section = doc_page(PAGE).text.partition(f"## {headline}\n")[2]
    table = re.search(rf"^\| {header} \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert table, headline
    return {name for row in table[1].splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_sidecar_opens_what_the_pages_writer_wrote(folder):
    batches = list(open_aligned(folder / "photos", [folder / "photos_sizes"], columns=["image_key", "size"]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["image_key"] for row in rows] == [key for keys in SHARDS.values() for key in keys]
    assert rows[1]["size"] == {"width": None, "height": None}
    footer = read_footer(open_storage(str(folder / "photos_sizes")), "2024/part-0.parquet")
    assert footer is not None
    assert (footer.rows, footer.invalid) == (3, {"size": {"truncated": 1}})


def test_it_is_the_same_as_sidecars_own_of_the_same_keys(folder, made):
    for rel_path in SHARDS:
        theirs = read_footer(open_storage(str(folder / "photos_sizes")), rel_path)
        ours = read_footer(open_storage(str(made / "out")), rel_path)
        assert theirs is not None
        assert ours is not None
        assert theirs.key_digest == ours.key_digest
        assert theirs.inputs[0].parquet_footer_digest == ours.inputs[0].parquet_footer_digest


def test_a_writer_that_moves_a_row_is_found_out(folder, run_in, tmp_path):
    shutil.copytree(folder / "photos_sizes", tmp_path / "moved")
    path = tmp_path / "moved/2024/part-0.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take([1, 0, 2]), path)
    command = [sys.executable, "-m", "sidecar_cli.main", "verify", "moved", "--main-prefix", str(folder / "photos")]
    assert "misaligned" in run_in(tmp_path, command, status=1).stdout


def rewritten(folder, tmp_path, **changes):
    """Returns a copy of the sidecar in which every footer has these values; None takes a key away."""
    shutil.copytree(folder / "photos_sizes", tmp_path / "copy")
    for rel_path in SHARDS:
        table = pq.read_table(tmp_path / "copy" / rel_path)
        metadata = pq.read_metadata(tmp_path / "copy" / rel_path).metadata
        held = {key: value for key, value in metadata.items() if key.startswith(b"sidecar.")}
        held |= {f"sidecar.{name}".encode(): value for name, value in changes.items()}
        held = {key: value for key, value in held.items() if value is not None}
        pq.write_table(table.replace_schema_metadata(held), tmp_path / "copy" / rel_path)
    return tmp_path / "copy"


def test_readers_ignore_what_they_do_not_know_and_ask_for_every_key(folder, tmp_path):
    inputs = json.dumps([{"kind": "main", "uri": "x", "size_bytes": 1, "checksum": "from later"}])
    later = rewritten(folder, tmp_path, inputs=inputs, later="1")
    assert open_aligned(folder / "photos", [later], columns=["size"]).read_all().num_rows == 4
    for key in ("version", "invalid", "key_digest_row_groups"):
        lacking = rewritten(folder, tmp_path / key, **{key: None})
        with pytest.raises(ShardError, match=rf"no key 'sidecar.{key}'"):
            open_aligned(folder / "photos", [lacking], columns=["size"]).read_all()


def test_a_footer_about_other_keys_is_found_out_and_one_that_is_not_there_is_none(folder, tmp_path, run_in):
    other = rewritten(folder, tmp_path, key_digest="0" * 64)
    with pytest.raises(AlignmentError, match="not those that its footer tells"):
        open_aligned(folder / "photos", [other], columns=["size"]).read_all()
    names = ("fingerprint", "run_id", "version", "inputs", "rows", "key_digest", "key_digest_row_groups", "invalid")
    bare = rewritten(folder, tmp_path / "bare", **dict.fromkeys(names))
    read = open_aligned(folder / "photos", [bare], columns=["size"], key_column="image_key").read_all()
    assert read.num_rows == 4
    text = DATASET.replace("photos\nsidecar_prefix: out", f"{folder}/photos\nsidecar_prefix: {tmp_path}/out")
    (tmp_path / "dataset.yaml").write_text(text)
    (tmp_path / "p.yaml").write_text("dataset: dataset.yaml\noperations: [{type: extract_scaffold}]\n")
    command = [sys.executable, "-m", "sidecar_cli.main", "run", "p.yaml", "--output-prefix", str(bare), "--dry-run"]
    planned = json.loads(run_in(tmp_path, [*command, "--skip-existing", "--json"]).stdout)
    assert planned["states"]["stale"] == len(SHARDS)


def test_a_manifest_with_two_fields_is_enough_for_verify(folder, tmp_path, run_in):
    shutil.copytree(folder / "photos_sizes", tmp_path / "told", ignore=shutil.ignore_patterns("_sidecar"))
    (tmp_path / "told/_sidecar/runs").mkdir(parents=True)
    told = {"dataset": {"main_prefix": str(folder / "photos"), "key_column": "image_key"}}
    (tmp_path / "told/_sidecar/runs/20260101T000000Z-a.json").write_text(json.dumps(told))
    shown = run_in(tmp_path, [sys.executable, "-m", "sidecar_cli.main", "verify", "told", "--all"]).stdout
    assert "3 shards aligned" in shown


def test_footer_keys_are_those_of_the_page(doc_page, made):
    kinds = set()
    for rel_path in SHARDS:
        metadata = pq.read_metadata(made / "out" / rel_path).metadata
        assert {key.decode() for key in metadata} - {"ARROW:schema"} == named(doc_page, "Footer", "key")
        for version in json.loads(metadata[b"sidecar.inputs"]):
            assert set(version) == named(doc_page, "Footer")
            kinds.add(version["kind"])
        digests = json.loads(metadata[b"sidecar.key_digest_row_groups"])
        assert len(digests) == pq.read_metadata(made / "out" / rel_path).num_row_groups
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests)
        assert isinstance(json.loads(metadata[b"sidecar.invalid"]), dict)
        assert re.fullmatch(rb"\d+", metadata[b"sidecar.rows"])
    assert kinds == {"main", "sibling", "side_input"}
    assert all(f"`{kind}`" in doc_page(PAGE).text for kind in kinds)


def test_what_a_retry_adds_to_the_footer_is_what_the_page_says(doc_page):
    assert {field.name for field in fields(ReplacedTogether)} == named(doc_page, "sidecar.together")


def test_files_of_the_run_folder_are_those_of_the_page(doc_page, made):
    files = {
        path.relative_to(made / "complete").as_posix() for path in (made / "complete").rglob("*") if path.is_file()
    }
    files |= {path.relative_to(made / "out/_sidecar").as_posix() for path in (made / "out/_sidecar").iterdir()}
    files |= {path.name for path in (made / "photos_sizes/_sidecar").iterdir()}
    table = {re.escape(name).replace("<run_id>", "[^/]+") for name in named(doc_page, "`_sidecar/`", "file")}
    for name in files - {"runs", "tmp"}:
        assert any(re.fullmatch(known, f"_sidecar/{name}") for known in table), name


def test_files_of_the_run_folder_hold_what_the_page_says(doc_page, made):
    (manifest,) = (made / "complete/runs").glob("*.json")
    told = json.loads(manifest.read_text())
    assert set(told) == named(doc_page, "runs/&lt;run_id&gt;.json")
    assert set(told["shards"]) == {"total", "done", "skipped", "failed"}
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]+", told["run_id"])
    assert set(json.loads((made / "complete/SUCCESS").read_text())) == named(doc_page, "SUCCESS")
    assert not (made / "out/_sidecar/SUCCESS").exists()
    receipt = json.loads((made / "photos_sizes/_sidecar/verify.json").read_text())
    assert set(receipt) == named(doc_page, "verify.json, verify-resized.json")
    digest = hashlib.blake2b(digest_size=16)
    for rel_path in sorted(SHARDS):
        info = (made / "photos_sizes" / rel_path).stat()
        digest.update(json.dumps([rel_path, info.st_size, None, info.st_mtime_ns]).encode())
    assert receipt["listing_digest"] == digest.hexdigest()
    lease = LeaseRecord.of_this_process("run", stale_after_s=120, beat_every_s=10)
    assert set(json.loads(lease.to_bytes())) == named(doc_page, "lease.json")
    (failed,) = (made / "out/_sidecar/failed_shards.jsonl").read_text().splitlines()
    line = re.search(r"failed_shards.jsonl\n\nOne object a line: (.*)", doc_page(PAGE).text)
    assert line
    assert set(json.loads(failed)) == set(re.findall(r"`(\w+)`", line[1]))
    assert json.loads(failed)["shard"] == "part-9.parquet"


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (pa.array(["ü", None, ""]), ["ü".encode(), None, b""]),
        (pa.array([b"\xff", b"a"], pa.large_binary()), [b"\xff", b"a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"]),
        (pa.array([-1, None, 7], pa.int16()), [struct.pack("<q", -1), None, struct.pack("<q", 7)]),
        (pa.array([2**63 + 5], pa.uint64()), [struct.pack("<Q", 2**63 + 5)]),
        (pa.array([True, False]), [struct.pack("<q", 1), struct.pack("<q", 0)]),
        (pa.array([date(1970, 1, 3)], pa.date64()), [struct.pack("<q", 2)]),
        (pa.array([time(0, 0, 2)], pa.time32("s")), [struct.pack("<q", 2_000_000)]),
        (pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC")), [struct.pack("<q", 10**9)]),
        (pa.array([1.5], pa.float32()), [struct.pack("<d", 1.5)]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), [b"1.50"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_the_key_digest_is_the_one_that_the_page_describes(keys, values):
    lengths = b"".join(struct.pack("<q", -1 if value is None else len(value)) for value in values)
    joined = b"".join(value or b"" for value in values)
    parts = [hashlib.blake2b(part, digest_size=32).digest() for part in (lengths, joined)]
    whole = hashlib.blake2b(struct.pack("<q", len(keys)) + parts[0] + parts[1], digest_size=32)
    assert key_digest(keys) == whole.hexdigest()
