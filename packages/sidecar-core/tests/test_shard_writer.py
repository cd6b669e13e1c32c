from __future__ import annotations

import gc
import mmap
import subprocess
import sys
import textwrap
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_core.align import key_digest
from sidecar_core.errors import ShardError, StorageError, UsageError
from sidecar_core.footer import FooterInfo, InputVersion
from sidecar_core.shard_writer import ShardWriter, check_shard_file

FOOTER = FooterInfo(
    fingerprint="f00d",
    run_id="run",
    version="0",
    inputs=(InputVersion("main", "/data/a.parquet", 5),),
    rows=0,
    key_digest="",
    key_digest_row_groups=(),
    invalid={},
)
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int32())])
IMAGE_SCHEMA = pa.schema([
    ("key", pa.string()),
    ("image", pa.binary()),
    ("picture", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    ("note", pa.binary()),
    ("a.b", pa.list_(pa.struct([("x", pa.float32()), ("s", pa.string())]))),
    ("when", pa.timestamp("us")),
])  # fmt: skip
EVERYTHING = pa.schema([
    ("key", pa.large_string()),
    pa.field("filled", pa.int8(), nullable=False),
    *[(str(dtype), dtype) for dtype in (
        pa.bool_(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(),
        pa.float64(), pa.string(), pa.binary(), pa.large_binary(), pa.date32(), pa.timestamp("us"),
        pa.list_(pa.string()), pa.list_(pa.list_(pa.int8())),
        pa.struct([("a", pa.struct([("b", pa.list_(pa.float32()))]))]),
    )],
])  # fmt: skip


def rows(first, last):
    keys = pa.array([f"key-{number}" for number in range(first, last)], pa.string())
    return pa.table([keys, pa.array(range(first, last), pa.int32())], schema=SCHEMA)


def images(count, size=100):
    picture = bytes(range(100)) * (size // 100)
    columns = [
        pa.array([f"k{number}" for number in range(count)]),
        pa.array([picture] * count, pa.binary()),
        pa.array([{"bytes": picture, "path": "p"}] * count, IMAGE_SCHEMA.field("picture").type),
        pa.array([b"note"] * count, pa.binary()),
        pa.array([[{"x": 1.0, "s": "t"}]] * count, IMAGE_SCHEMA.field("a.b").type),
        pa.nulls(count, pa.timestamp("us")),
    ]
    return pa.table(columns, schema=IMAGE_SCHEMA)


def group_rows(path):
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def test_a_file_has_its_rows_its_footer_and_its_report(tmp_path):
    path = tmp_path / "a.parquet"
    with ShardWriter(path, SCHEMA, max_row_group_rows=4) as writer:
        writer.write(rows(0, 3))
        writer.write(rows(3, 10))
        report = writer.close(replace(FOOTER, rows=999))
    assert pq.read_table(path).equals(rows(0, 10))
    assert group_rows(path) == [4, 4, 2]
    footer = FooterInfo.from_metadata(pq.read_metadata(path).metadata)
    assert footer is not None
    assert (report.rows, report.row_groups, report.size_bytes) == (10, 3, path.stat().st_size)
    assert report.key_digest == footer.key_digest == key_digest(rows(0, 10).column("key"))
    groups = tuple(key_digest(rows(*edges).column("key")) for edges in ((0, 4), (4, 8), (8, 10)))
    assert report.key_digest_row_groups == footer.key_digest_row_groups == groups
    assert replace(footer, rows=0, key_digest="", key_digest_row_groups=()) == FOOTER
    assert footer.rows == 10
    check_shard_file(path, SCHEMA, 10)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=8), st.integers(1, 12))
def test_row_groups_do_not_depend_on_the_batches(tmp_path_factory, sizes, most):
    path = tmp_path_factory.mktemp("shard") / "a.parquet"
    total = 0
    with ShardWriter(path, SCHEMA, max_row_group_rows=most) as writer:
        for size in sizes:
            writer.write(rows(total, total + size), end_row_group=True)  # not heeded without images
            total += size
        writer.close(FOOTER)
    assert group_rows(path) == [most] * (total // most) + [total % most] * bool(total % most)
    assert pq.read_table(path).equals(rows(0, total))
    check_shard_file(path, SCHEMA, total)


def test_row_groups_are_bounded_by_bytes(tmp_path):
    path = tmp_path / "a.parquet"
    table = rows(0, 10_000)
    with ShardWriter(path, SCHEMA, max_row_group_bytes=table.nbytes // 4) as writer:
        writer.write(table)
        writer.write(rows(10_000, 10_001))
        writer.close(FOOTER)
    assert max(group_rows(path)) <= 2_600
    assert len(group_rows(path)) <= 9
    assert pq.read_table(path).equals(rows(0, 10_001))


def test_files_with_images_follow_the_main_shards_row_groups(tmp_path):
    path = tmp_path / "a.parquet"
    with ShardWriter(path, IMAGE_SCHEMA, image_columns=["image", "picture"], max_row_group_bytes=1_500_000) as writer:
        for count, ends in (
            (3, False),
            (4, True),
            (0, True),
            (5, True),
            (2, False),
            (0, True),
            (40, False),
            (1, False),
        ):
            writer.write(images(count, 20_000), end_row_group=ends)
        writer.close(FOOTER)
    groups = group_rows(path)
    assert groups[:3] == [7, 5, 2]
    assert sum(groups[3:]) == 41
    assert max(groups) <= 37
    check_shard_file(path, IMAGE_SCHEMA, 55)


def test_one_row_may_be_larger_than_a_row_group(tmp_path):
    path = tmp_path / "a.parquet"
    with ShardWriter(path, IMAGE_SCHEMA, image_columns=["image"], max_row_group_bytes=1000) as writer:
        writer.write(images(3, 50_000))
        writer.close(FOOTER)
    assert group_rows(path) == [1, 1, 1]


def test_only_images_are_stored_as_they_are(tmp_path):
    path = tmp_path / "a.parquet"
    with ShardWriter(path, IMAGE_SCHEMA, image_columns=["image", "picture"]) as writer:
        writer.write(images(20, 5000))
        writer.close(FOOTER)
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    plain = {path for path, column in columns.items() if column.compression == "UNCOMPRESSED"}
    assert plain == {"image", "picture.bytes"}
    assert {path for path, column in columns.items() if column.compression == "ZSTD"} == set(columns) - plain
    assert {path for path, column in columns.items() if not column.has_dictionary_page} == plain | {"key"}
    assert all(column.statistics.null_count is not None for column in columns.values())
    assert not any(columns[path].statistics.has_min_max for path in plain)
    assert all(column.has_offset_index for column in columns.values())


def test_a_shard_without_rows_has_its_schema(tmp_path):
    for number, table in enumerate([None, EVERYTHING.empty_table()]):
        path = tmp_path / f"{number}.parquet"
        with ShardWriter(path, EVERYTHING) as writer:
            if table is not None:
                writer.write(table, end_row_group=True)
            report = writer.close(FOOTER)
        assert report.rows == pq.read_metadata(path).num_rows == 0
        assert report.key_digest == key_digest(pa.array([], pa.string()))
        assert pq.read_schema(path).equals(EVERYTHING)
        check_shard_file(path, EVERYTHING, 0)


def test_every_type_that_a_dataset_can_declare(tmp_path):
    path = tmp_path / "a.parquet"
    columns = [pa.array(["k1", "k2"], pa.large_string()), pa.array([1, 2], pa.int8())]
    columns += [pa.nulls(2, field.type) for field in list(EVERYTHING)[2:]]
    with ShardWriter(path, EVERYTHING) as writer:
        writer.write(pa.table(columns, schema=EVERYTHING))
        writer.close(FOOTER)
    check_shard_file(path, EVERYTHING, 2)
    assert pq.read_table(path).equals(pa.table(columns, schema=EVERYTHING))


def test_an_exception_leaves_no_file(tmp_path):
    path = tmp_path / "a.parquet"

    def fail_after_two_batches():
        with ShardWriter(path, SCHEMA, max_row_group_rows=2) as writer:
            writer.write(rows(0, 4))
            assert path.exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_two_batches()
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_an_exception_after_close_leaves_no_file(tmp_path):
    def fail_to_commit():
        with ShardWriter(tmp_path / "a.parquet", SCHEMA) as writer:
            writer.close(FOOTER)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_to_commit()
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_ends_without_close_leaves_no_file(tmp_path):
    with ShardWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        writer.write(rows(0, 5))
    del writer
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_abort_may_be_repeated_and_nothing_can_follow(tmp_path):
    writer = ShardWriter(tmp_path / "a.parquet", SCHEMA)
    writer.write(rows(0, 5))
    writer.abort()
    writer.abort()
    with pytest.raises(UsageError, match="closed"):
        writer.close(FOOTER)
    with pytest.raises(UsageError, match="closed"):
        writer.write(rows(0, 70_000))
    assert list(tmp_path.iterdir()) == []


def test_other_columns_are_refused(tmp_path):
    with ShardWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        with pytest.raises(UsageError, match="other columns"):
            writer.write(rows(0, 1).cast(pa.schema([("key", pa.string()), ("value", pa.int64())])))
        with pytest.raises(UsageError, match="other columns"):
            writer.write(rows(0, 1).select(["value", "key"]))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere/a\.parquet: cannot write it"):
        ShardWriter(tmp_path / "nowhere" / "a.parquet", SCHEMA)


FILL_THE_DISK = """
    import os, resource, signal, sys
    from pathlib import Path
    import pyarrow as pa
    from sidecar_core.errors import StorageError
    from sidecar_core.footer import FooterInfo
    from sidecar_core.shard_writer import ShardWriter
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    schema = pa.schema([("key", pa.string()), ("image", pa.binary())])
    try:
        with ShardWriter(Path(sys.argv[1]), schema, image_columns=["image"]) as writer:
            for number in range(20):
                table = pa.table([pa.array([str(number)]), pa.array([os.urandom(100_000)])], schema=schema)
                writer.write(table, end_row_group=True)
            writer.close(FooterInfo("f", "r", "v", (), 0, "", (), {}))
    except StorageError as error:
        print(error)
"""


@pytest.mark.parametrize("limit_bytes", [2, 1_000_000, 2_001_000])
def test_a_full_disk_leaves_no_file_and_says_so(tmp_path, limit_bytes):
    code = textwrap.dedent(FILL_THE_DISK)
    arguments = [sys.executable, "-c", code, str(tmp_path / "a.parquet"), str(limit_bytes)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "a.parquet: cannot write it: " in done.stdout
    assert "File too large" in done.stdout
    assert "fix: free space" in done.stdout
    assert list(tmp_path.iterdir()) == []


def write_checked(path, *, footer=True):
    with ShardWriter(path, IMAGE_SCHEMA, image_columns=["image"], max_row_group_rows=20) as writer:
        writer.write(images(50, 5_000))
        writer.close(FOOTER)
    check_shard_file(path, IMAGE_SCHEMA, 50)


@pytest.mark.parametrize("place", [100, 60_000, -200_000, -300, -5, -3])
def test_a_flipped_byte_is_found(tmp_path, place):
    path = tmp_path / "a.parquet"
    write_checked(path)
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)
    with pytest.raises((StorageError, ShardError), match=r"a\.parquet"):
        check_shard_file(path, IMAGE_SCHEMA, 50)


@pytest.mark.parametrize("kept", [0, 3, 1000, -1, -9])
def test_a_cut_file_is_found(tmp_path, kept):
    path = tmp_path / "a.parquet"
    write_checked(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(StorageError, match=r"a\.parquet: damaged"):
        check_shard_file(path, IMAGE_SCHEMA, 50)


def test_a_whole_file_that_is_not_the_right_one_is_found(tmp_path):
    path = tmp_path / "a.parquet"
    write_checked(path)
    with pytest.raises(ShardError, match="50 rows"):
        check_shard_file(path, IMAGE_SCHEMA, 49)
    with pytest.raises(ShardError, match="schema"):
        check_shard_file(path, SCHEMA, 50)
    pq.write_table(rows(0, 3), path)
    with pytest.raises(ShardError, match=r"no sidecar\.\* keys"):
        check_shard_file(path, SCHEMA, 3)
    with pq.ParquetWriter(path, SCHEMA) as writer:
        writer.write_table(rows(0, 3))
        wrong = replace(FOOTER, rows=3, key_digest=key_digest(rows(0, 3).column("key")), key_digest_row_groups=("x",))
        writer.add_key_value_metadata(wrong.to_metadata())
    with pytest.raises(ShardError, match="keys are not those"):
        check_shard_file(path, SCHEMA, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("much_memory")
def test_more_than_two_gib_in_a_binary_column(tmp_path):
    size = 1_200_000_000
    zeros = pa.py_buffer(mmap.mmap(-1, size))  # pages of zeros that take no memory until they are written
    offsets = pa.py_buffer(size.to_bytes(8, "little"))
    value = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(bytes(4) + offsets.to_pybytes()[:4]), zeros])
    schema = pa.schema([("key", pa.string()), ("image", pa.binary())])
    table = pa.table([pa.array(["a", "b"]), pa.chunked_array([value, value])], schema=schema)
    path = tmp_path / "a.parquet"
    with ShardWriter(path, schema, image_columns=["image"]) as writer:
        writer.write(table)
        writer.close(FOOTER)
    check_shard_file(path, schema, 2)
    path.unlink()
