from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sidecar_core.columns import check_columns
from sidecar_core.errors import ConfigError, SidecarError
from sidecar_core.fingerprint import output_fingerprint
from sidecar_core.ops.recaption_merge import blank_rows
from sidecar_core.pipeline import build_pipeline
from sidecar_core.testing.batches import check_as_planned, run_ops
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.example_dataset import example_dataset, example_table

PLAIN = {"schema_extensions": [], "image_column": None}


@pytest.fixture
def source(tmp_path):
    """Returns a function that writes a source of captions and returns where it is."""
    names = itertools.count()

    def write(captions, *, key_type=None, text_type=None, **options):
        path = tmp_path / f"source-{next(names)}.parquet"
        pairs = captions.items() if isinstance(captions, dict) else captions
        keys, texts = [key for key, _ in pairs], [text for _, text in pairs]
        table = pa.table(
            {"id": pa.array(keys, key_type or pa.string()), "text": pa.array(texts, text_type or pa.string())}
        )
        pq.write_table(table, path, **options)
        return str(path)

    return write


def operation(*places, names=("first", "second", "third"), **params):
    sources = [
        {"name": name, "source": where, "text_column": "text", "key_column": "id", "duplicates": "last"}
        for name, where in zip(names, places, strict=False)
    ]
    return {"type": "recaption_merge", "sources": sources, **params}


def recaptioned(main, *places, batch_rows=None, before=(), dataset=None, **params):
    """Returns caption and provenance of each row."""
    operations = [*before, operation(*places, **params)]
    result = run_ops(build_pipeline(dataset or example_dataset(**PLAIN), operations), main, batch_rows=batch_rows)
    return list(zip(result.column("caption").to_pylist(), result.column("caption_source").to_pylist(), strict=True))


class TestRecaptionMerge(OpConformance):
    @pytest.fixture(autouse=True)
    def _sources(self, source):
        self.places = (
            source({"key-7": "seven", "key-1": "", "key-2": " \t\n", "other": "other"}, text_type=pa.large_string()),
            source({"key-1": "one", "key-7": "SEVEN", "key-3": None}, key_type=pa.large_string()),
        )

    def dataset(self):
        return example_dataset(schema_extensions=[])

    def operation(self):
        return operation(*self.places)

    def test_values(self):
        result = self._run(self.table())
        assert result.column("caption").to_pylist() == [None, "one", *[None] * 5, "seven", None, None]
        assert result.column("caption_source").to_pylist() == [None, "second", *[None] * 5, "first", None, None]


class TestRecaptionUpdates(TestRecaptionMerge):
    """Captions of the main dataset, kept where there are any, under names of one's own."""

    def operation(self):
        params = {"caption_column": "title", "provenance_column": "title_from", "mode": "update_if_null"}
        return operation(*self.places, **params, existing_name="main")

    def table(self):
        titles = pa.array([None, None, "mine", "", " ", "x", None, None, None, "z"], pa.string())
        return example_table().set_column(2, "title", titles)

    def test_values(self):
        result = self._run(self.table())
        titles = [None, "one", "mine", "", " ", "x", None, "seven", None, "z"]
        assert result.column("title").to_pylist() == titles
        assert result.column("title_from").to_pylist() == [
            *(None, "second", "main", None, None, "main", None, "first", None, "main")
        ]


class TestRecaptionScaffolded(TestRecaptionMerge):
    def dataset(self):
        columns = [{"name": "caption_source", "type": "large_string"}, {"name": "caption", "type": "large_string"}]
        return example_dataset(schema_extensions=columns)

    def before(self):
        return [{"type": "extract_scaffold"}]


# What the rows are, told once more as a plain loop


def loop(keys, captions, provenances, sources, *, mode):
    rows = []
    for key, caption, provenance in zip(keys, captions, provenances, strict=True):
        there = caption is not None and caption.strip() != ""
        if there and provenance is None:
            provenance = "existing"  # noqa: PLW2901
        if mode == "overwrite_all" or not there:
            for name, texts in sources:
                text = texts.get(key) if key is not None else None
                if text is not None and text.strip():
                    caption, provenance = text, name  # noqa: PLW2901
                    break
        rows.append((caption, provenance))
    return rows


KEYS = st.none() | st.sampled_from(["a", "b", "c", "d", ""])
TEXTS = st.none() | st.sampled_from(["", " ", "\t\n", "\u00a0\u3000", "x", " y ", "caption", "\u200b"])
TYPES = st.sampled_from([pa.string(), pa.large_string()])


def chunked(draw, values, dtype):
    cut = draw(st.integers(0, len(values)))
    return pa.chunked_array([pa.array(values[:cut], dtype), pa.array([], dtype), pa.array(values[cut:], dtype)])


@st.composite
def cases(draw):
    rows = draw(st.lists(st.tuples(KEYS, TEXTS, st.none() | st.sampled_from(["old", "first"])), max_size=10))
    keys, captions, provenances = ([row[n] for row in rows] for n in range(3))
    sources = draw(st.lists(st.lists(st.tuples(KEYS, TEXTS), max_size=8), min_size=1, max_size=3))
    main = {"image_key": chunked(draw, keys, draw(TYPES))}
    if draw(st.booleans()):
        main["caption"] = chunked(draw, captions, draw(TYPES))
    else:
        captions = [None] * len(rows)
    if draw(st.booleans()):
        main["caption_source"] = chunked(draw, provenances, draw(TYPES))
    else:
        provenances = [None] * len(rows)
    mode = draw(st.sampled_from(["overwrite_all", "update_if_null"]))
    named = [(name, dict(pairs)) for name, pairs in zip(("first", "second", "third"), sources, strict=False)]
    expected = loop(keys, captions, provenances, named, mode=mode)
    types = [draw(TYPES) for _ in sources]
    return pa.table(main), sources, types, mode, draw(st.none() | st.integers(1, 4)), expected


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_any_captions_are_what_a_loop_gives(source, case):
    main, sources, types, mode, batch_rows, expected = case
    places = [source(pairs, text_type=dtype) for pairs, dtype in zip(sources, types, strict=True)]
    assert recaptioned(main, *places, mode=mode, batch_rows=batch_rows) == expected


def test_blank_is_what_python_strips_to_nothing():
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert len(spaces) > 20
    assert blank_rows(pa.chunked_array([[*spaces, "".join(spaces), "", None]])).to_pylist() == [True] * (
        len(spaces) + 3
    )
    texts = ["a", " a ", "\u200b", "0", "\x00", "\ufeff"]
    assert blank_rows(pa.chunked_array([texts])).to_pylist() == [False] * len(texts)
    assert blank_rows(pa.chunked_array([texts]).dictionary_encode()).to_pylist() == [False] * len(texts)


def test_text_that_is_no_utf8_is_not_blank_and_changes_nothing_for_others():
    held = pa.array([b"\xff", b" ", b"", b"a", None])
    texts = pa.Array.from_buffers(pa.string(), 5, held.buffers())
    assert blank_rows(pa.chunked_array([texts, texts.slice(1)])).to_pylist() == [
        *[False, True, True, False, True],
        *[True, True, False, True],
    ]


def test_one_file_may_hold_several_sources(tmp_path):
    where = str(tmp_path / "both.parquet")
    pq.write_table(pa.table({"image_key": ["a", "b"], "long": ["long a", None], "short": ["a", "b"]}), where)
    sources = [{"name": name, "source": where, "text_column": name} for name in ("long", "short")]
    pipeline = build_pipeline(example_dataset(**PLAIN), [{"type": "recaption_merge", "sources": sources}])
    result = run_ops(pipeline, pa.table({"image_key": ["b", "a"]}))
    assert result.to_pydict() == {
        "image_key": ["b", "a"],
        "caption": ["b", "long a"],
        "caption_source": ["short", "long"],
    }


def test_a_second_merge_keeps_what_the_first_one_said(source):
    main = pa.table({"image_key": ["a", "b", "c"]})
    before = [operation(source({"a": "one"}), names=["early"])]
    found = recaptioned(main, source({"a": "two", "b": "zwei"}), before=before, names=["late"], mode="update_if_null")
    assert found == [("one", "early"), ("zwei", "late"), (None, None)]


def test_a_key_that_a_source_has_twice_is_an_error_unless_said(source):
    where = source([("a", "one"), ("a", "two")])
    sources = [{"name": "s", "source": where, "key_column": "id", "text_column": "text"}]
    pipeline = build_pipeline(example_dataset(**PLAIN), [{"type": "recaption_merge", "sources": sources}])
    with pytest.raises(SidecarError, match="'a'"):
        run_ops(pipeline, pa.table({"image_key": ["b"]}))


# Plans


def refused(main, *places, before=(), dataset=None, **params):
    def plan():
        pipeline = build_pipeline(dataset or example_dataset(**PLAIN), [*before, operation(*places, **params)])
        check_as_planned(pipeline, main)

    with pytest.raises(ConfigError) as caught:
        plan()
    return str(caught.value)


def test_mistakes_are_found_before_any_row(source, tmp_path):
    main = pa.table({"image_key": ["a"], "width": [1]})
    where = source({"a": "x"})
    assert "two sources are named 'one'" in refused(main, where, where, names=["one", "one"])
    assert "caption_column and provenance_column are both 'x'" in refused(
        main, where, caption_column="x", provenance_column="x"
    )
    assert "column 'image_key' is the main dataset's key column" in refused(main, where, caption_column="image_key")
    assert "a source has the name 'first', which existing_name says" in refused(main, where, existing_name="first")
    assert "column 'width' is int64, where captions are text" in refused(main, where, caption_column="width")
    numbers = str(tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"id": ["a"], "text": [1]}), numbers)
    assert f"column 'text' of {numbers} is int64, where captions are text" in refused(main, numbers)
    pq.write_table(pa.table({"id": [1], "texts": ["a"]}), numbers)
    assert f"{numbers} has no column 'text'; did you mean 'texts'?" in refused(main, numbers)


def test_offline_all_types_are_known():
    checked = check_columns(build_pipeline(example_dataset(**PLAIN), [operation("/none.parquet")]))
    assert checked.output("sidecar").schema.field("caption").type == pa.string()
    assert checked.open_columns == ("image_key",)


def test_the_fingerprint_knows_what_decides_values_and_not_where_the_sources_are():
    def fingerprint(*places, **params):
        pipeline = build_pipeline(example_dataset(**PLAIN), [operation(*places, **params)])
        return output_fingerprint(pipeline, "sidecar")

    assert fingerprint("/a.parquet", "/b.parquet") == fingerprint("/c.parquet", "/d/")
    others = [
        fingerprint("/a.parquet"),
        fingerprint("/a.parquet", "/b.parquet", names=["second", "first"]),
        fingerprint("/a.parquet", "/b.parquet", mode="update_if_null"),
    ]
    assert len({fingerprint("/a.parquet", "/b.parquet"), *others}) == 4
