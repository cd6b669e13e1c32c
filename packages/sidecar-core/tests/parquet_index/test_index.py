"""What an index answers is what a Python dict of the same rows answers."""

from __future__ import annotations

import datetime as dt
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_core.errors import AlignmentError, UsageError
from sidecar_core.parquet_index import IndexSpec
from sidecar_core.parquet_index.build import BuildOptions
from sidecar_core.parquet_index.cache import CacheOptions
from sidecar_core.parquet_index.cached import open_cached
from sidecar_core.parquet_index.key_hash import hash_keys

SMALL = BuildOptions(batch_bytes=200, sort_rows=4)


def few_hashes(keys):
    """A hash so weak that many keys share one."""
    return hash_keys(keys) & np.uint64(3 << 62 | 1)


def same_hash(keys):
    return np.full(len(keys), 17, np.uint64)


def index_of(*tables, build=SMALL, row_group_size=None, **spec):
    folder = Path(tempfile.mkdtemp())
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=row_group_size)
    spec = IndexSpec(**{"source": f"{folder}/", "key_column": "key", **spec})
    return open_cached(spec, cache=CacheOptions(folder / "_cache", 2**40), build=build)


def answers(index, keys, columns=None):
    return index.take(index.lookup(keys), columns).to_pylist()


def chunked(values, dtype, cuts):
    whole = pa.array(values, dtype)
    ends = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[begin:end] for begin, end in pairwise(ends)]
    return pa.chunked_array(pieces, type=dtype)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
INTEGERS = st.integers(-128, 127)
KEYS = st.sampled_from(
    [
        (pa.string(), TEXT),
        (pa.large_string(), TEXT),
        (pa.dictionary(pa.int32(), pa.string()), TEXT),
        (pa.binary(), st.binary(max_size=20)),
        (pa.binary(4), st.binary(min_size=4, max_size=4)),
        (pa.int8(), INTEGERS),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.bool_(), st.booleans()),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.date32(), st.dates(dt.date(1900, 1, 1))),
        (
            pa.timestamp("us"),
            st.dates(dt.date(1900, 1, 1)).map(lambda day: dt.datetime.combine(day, dt.time(1, 2, 3, 4))),
        ),
        (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
    ]
)
PAIR = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])
VALUES = {
    "text": (pa.string(), st.none() | TEXT),
    "pair": (
        PAIR,
        st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | INTEGERS, "b": st.none() | st.fixed_dictionaries({"c": st.none() | TEXT})}
        ),
    ),
    "tags": (pa.list_(pa.string()), st.none() | st.lists(st.none() | TEXT, max_size=3)),
    "word": (pa.dictionary(pa.int32(), pa.string()), st.none() | TEXT),
    "image": (pa.large_binary(), st.none() | st.binary(max_size=30)),
}


@st.composite
def sources(draw):
    """Draws rows, cut into files, and keys to look up, most of which are there."""
    key_type, key = draw(KEYS)
    row = st.tuples(st.none() | key, *(value for _, value in VALUES.values()))
    rows = draw(st.lists(row, max_size=30))
    there = [row[0] for row in rows]
    asked = draw(st.lists(st.one_of(st.none(), key, *([st.sampled_from(there)] if there else [])), max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, 30), max_size=3)))
    return key_type, rows, asked, cuts


@given(
    sources(),
    st.sampled_from(["first", "last"]),
    st.sampled_from([hash_keys, few_hashes, same_hash]),
    st.sampled_from([1, 3, None]),
    st.lists(st.integers(0, 40), max_size=4),
)
@settings(max_examples=80)
def test_an_index_is_a_dict(source, duplicates, weak, row_group_size, cuts):
    key_type, rows, asked, file_cuts = source
    names = ["key", *VALUES]
    types = [key_type, *(dtype for dtype, _ in VALUES.values())]
    columns = [pa.array([row[n] for row in rows], dtype) for n, dtype in enumerate(types)]
    whole = pa.table(columns, names=names)
    ends = [0, *(min(cut, len(rows)) for cut in file_cuts), len(rows)]
    tables = [whole[begin:end] for begin, end in pairwise(ends)]
    build = BuildOptions(weak, batch_bytes=200, sort_rows=4)
    index = index_of(*tables, build=build, row_group_size=row_group_size, duplicates=duplicates)
    expected = {}
    for row in rows:
        if row[0] is not None and (duplicates == "last" or row[0] not in expected):
            expected[row[0]] = dict(zip(VALUES, row[1:], strict=True))
    nothing = dict.fromkeys(VALUES)
    assert index.num_keys == len(expected)
    assert index.num_rows == len(rows)
    found = index.take(index.lookup(chunked(asked, key_type, cuts)))
    assert found.to_pylist() == [expected.get(key, nothing) if key is not None else nothing for key in asked]
    assert found.schema == pa.schema([(name, dtype) for name, (dtype, _) in VALUES.items()])
    found.validate(full=True)


ROWS = pa.table({"key": ["a", "b", "c"], "score": [1.0, 2.0, 3.0], "label": ["x", None, "z"]})


@pytest.mark.parametrize(
    "dtype",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(1),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
    ids=str,
)
def test_text_is_found_by_text_of_any_kind(dtype):
    keys = pa.array(["c", "a", None, "c"]).cast(pa.binary() if dtype == pa.binary_view() else pa.string())
    keys = keys.cast(pa.binary()).cast(dtype) if dtype == pa.binary(1) else keys.cast(dtype)
    assert index_of(ROWS).lookup(keys).to_pylist() == [2, 0, None, 2]


def test_integers_match_by_value():
    index = index_of(pa.table({"key": pa.array([-1, 5, 2**62], pa.int64())}))
    assert index.lookup(pa.array([5, -1], pa.int8())).to_pylist() == [1, 0]
    assert index.lookup(pa.array([5, 2**64 - 1, 2**62], pa.uint64())).to_pylist() == [1, None, 2]
    index = index_of(pa.table({"key": pa.array([2**64 - 1, 7], pa.uint64())}))
    assert index.lookup(pa.array([-1, 7], pa.int64())).to_pylist() == [None, 1]
    assert index.lookup(pa.array([2**64 - 1], pa.uint64())).to_pylist() == [0]


def test_floats_match_as_numbers_do():
    index = index_of(pa.table({"key": [0.0, float("nan"), float("nan"), 1.5]}))
    assert index.num_keys == 4
    assert index.lookup(pa.array([-0.0, float("nan"), 1.5], pa.float32())).to_pylist() == [0, None, 3]


def test_keys_that_can_never_match_are_an_error():
    index = index_of(ROWS)
    with pytest.raises(
        AlignmentError, match="column 'key': keys of type int64 cannot be compared with keys of type str"
    ):
        index.lookup(pa.array([1]))
    assert index.lookup(pa.nulls(2)).to_pylist() == [None, None]


def test_nulls_match_nothing():
    index = index_of(pa.table({"key": ["a", None, None], "score": [1, 2, 3]}))
    assert index.num_keys == 1
    assert answers(index, pa.array([None, "a"])) == [{"score": None}, {"score": 1}]
    assert index_of(pa.table({"key": pa.nulls(3), "score": [1, 2, 3]})).lookup(pa.array(["a"])).to_pylist() == [None]


@pytest.mark.parametrize("tables", [[ROWS[:0]], [ROWS[:0], ROWS[:0]], [ROWS[:0], ROWS]], ids=["none", "two", "first"])
def test_files_without_rows(tables):
    index = index_of(*tables)
    expected = [2, None] if len(tables[-1]) else [None, None]
    assert index.lookup(pa.array(["c", "d"])).to_pylist() == expected
    assert index.take(pa.array([None], pa.int64())).to_pylist() == [{"score": None, "label": None}]
    assert index.lookup(pa.chunked_array([], pa.string())).to_pylist() == []
    assert index.take(pa.array([], pa.int64())).num_rows == 0


def test_columns_are_taken_in_the_order_asked_for():
    index = index_of(ROWS)
    assert answers(index, pa.array(["b"]), ["label", "score"]) == [{"label": None, "score": 2.0}]
    assert index.take(pa.array([1, None]), []).shape == (2, 0)
    with pytest.raises(UsageError, match=r"column 'lable' is not in the index; did you mean 'label'\?"):
        index.take(pa.array([1]), ["lable"])


def test_the_key_can_be_a_column_too():
    index = index_of(ROWS, columns=["key", "label"])
    assert answers(index, pa.array(["c", "d"])) == [{"key": "c", "label": "z"}, {"key": None, "label": None}]


@pytest.mark.parametrize("row", [-1, 3, 2**40])
def test_there_is_no_such_row(row):
    with pytest.raises(UsageError, match="a row number outside of 0 to 2"):
        index_of(ROWS).take(pa.array([0, row, None]))


def test_a_null_struct_and_one_of_nulls_stay_apart():
    pair = pa.struct([("w", pa.int32()), ("h", pa.int32())])
    values = [{"w": None, "h": None}, None, {"w": 1, "h": 2}]
    index = index_of(pa.table({"key": [1, 2, 3], "size": pa.array(values, pair)}))
    column = index.take(index.lookup(pa.array([3, 2, 1, 9]))).column("size")
    assert column.to_pylist() == [values[2], None, values[0], None]
    assert pa.compute.struct_field(column, "w").to_pylist() == [1, None, None, None]


@pytest.mark.parametrize("weak", [hash_keys, few_hashes, same_hash])
def test_a_key_that_is_there_twice_is_named_with_both_places(weak):
    first = pa.table({"key": ["a", "b", "c", None, None]})
    second = pa.table({"key": ["d", "e", "c", "a", "c"]})
    with pytest.raises(UsageError) as caught:
        index_of(first, second, build=BuildOptions(weak))
    assert "key 'c' is in column 'key' twice" in str(caught.value)
    assert "part-000.parquet row 2 and " in str(caught.value)
    assert "part-001.parquet row 2" in str(caught.value)
    assert caught.value.fix == "duplicates: first (or last)"


def test_a_number_that_is_there_twice_is_named():
    with pytest.raises(UsageError, match="key 7 is in column 'key' twice"):
        index_of(pa.table({"key": pa.array([7, 7], pa.int16())}))


def test_a_text_that_is_no_utf8_and_there_twice_is_named_by_its_bytes():
    keys = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"\xff"]).buffers())
    with pytest.raises(UsageError, match=r"key b'\\xff' is in column 'key' twice"):
        index_of(pa.table({"key": keys}))


def test_one_key_in_every_row():
    table = pa.table({"key": ["same"] * 300, "row": range(300)})
    assert answers(index_of(table, duplicates="first"), pa.array(["same"])) == [{"row": 0}]
    assert answers(index_of(table, duplicates="last"), pa.array(["same"])) == [{"row": 299}]


def test_a_dictionary_that_is_too_small_for_a_batch_is_an_error():
    words = pa.dictionary(pa.int8(), pa.string())
    tables = [
        pa.table({"key": range(n, n + 100), "word": pa.array([f"{i}" for i in range(n, n + 100)]).cast(words)})
        for n in (0, 100)
    ]
    index = index_of(*tables)
    assert answers(index, pa.array([150])) == [{"word": "150"}]
    with pytest.raises(ValueError, match="column 'word'"):
        index.take(pa.array(range(200)))


def test_two_threads_ask_at_once():
    from concurrent.futures import ThreadPoolExecutor

    table = pa.table({"key": range(5000), "value": range(5000)})
    index = index_of(table, build=BuildOptions(batch_bytes=4000, sort_rows=500))

    def ask(seed):
        keys = np.random.default_rng(seed).integers(0, 6000, 300)
        found = index.take(index.lookup(pa.array(keys))).column("value").to_pylist()
        return found == [key if key < 5000 else None for key in keys.tolist()]

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, range(50)))


UTC = dt.UTC
WORDS = pa.dictionary(pa.int8(), pa.large_string())


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.bool_(), [True, False, None]),
        (pa.uint64(), [2**64 - 1, 0, None]),
        (pa.float16(), [1.5, -2.0, None]),
        (pa.string_view(), ["a", "more than twelve characters", None]),
        (pa.binary_view(), [b"a", b"more than twelve characters", None]),
        (pa.binary(3), [b"abc", b"def", None]),
        (pa.timestamp("ns", "UTC"), [dt.datetime(2026, 1, 2, tzinfo=UTC), dt.datetime(1969, 1, 2, tzinfo=UTC), None]),
        (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0), None]),
        (pa.duration("ms"), [dt.timedelta(1), dt.timedelta(0, 1), None]),
        (pa.decimal128(20, 4), [1, -5, None]),
        (pa.large_list(pa.int8()), [[1, None], [], None]),
        (pa.list_(pa.float32(), 2), [[1, 2], [3, None], None]),
        (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], None]),
        (WORDS, ["x", "y", None]),
        (pa.struct([("word", WORDS), ("view", pa.string_view())]), [{"word": "x", "view": None}, {"word": None}, None]),
        (pa.list_(pa.struct([("word", WORDS)])), [[{"word": "x"}, None], [], None]),
        (pa.null(), [None, None, None]),
        (pa.uuid(), [b"0123456789abcdef", b"fedcba9876543210", None]),
    ],
    ids=str,
)
def test_values_of_every_type_come_back_as_they_were(dtype, values):
    storage = dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype
    column = pa.array(values, storage)
    column = pa.ExtensionArray.from_storage(dtype, column) if storage != dtype else column
    table = pa.table({"key": [0, 1, 2], "value": column})
    index = index_of(table)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    read = pq.read_table(sink.getvalue()).column("value")  # Parquet keeps most types, not all
    assert index.schema.field("value").type == read.type
    found = index.take(index.lookup(pa.array([2, 0, 9, 1, 0]))).column("value")
    assert found.type == read.type
    given = read.to_pylist()
    assert found.to_pylist() == [None, given[0], None, given[1], given[0]]
    found.validate(full=True)


def test_a_child_that_may_not_be_null_is_none_where_its_row_is_absent():
    dtype = pa.struct([pa.field("w", pa.int32(), nullable=False)])
    index = index_of(pa.table({"key": [1], "size": pa.array([{"w": 3}], dtype)}))
    assert answers(index, pa.array([2, 1])) == [{"size": None}, {"size": {"w": 3}}]


def test_arrow_takes_memory_from_where_it_did_before():
    before = pa.default_memory_pool().backend_name
    index_of(ROWS)
    with pytest.raises(UsageError):
        index_of(ROWS, ROWS)
    assert pa.default_memory_pool().backend_name == before
