from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sidecar_core.columns import check_columns
from sidecar_core.errors import ConfigError, ShardError, SidecarError
from sidecar_core.fingerprint import output_fingerprint
from sidecar_core.op import is_open
from sidecar_core.pipeline import build_pipeline, load_pipeline
from sidecar_core.plan import plan_run
from sidecar_core.side_inputs import load_side_inputs
from sidecar_core.storage import open_storage
from sidecar_core.testing.batches import check_as_planned, run_ops
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.datasets import write_main
from sidecar_core.testing.example_dataset import example_dataset, example_table

SIZE = pa.struct([("w", pa.int32()), ("inner", pa.struct([("tags", pa.list_(pa.string()))]))])
NULL_SIZE = {"w": None, "inner": {"tags": None}}
PLAIN = {"schema_extensions": [], "image_column": None}


@pytest.fixture
def source(tmp_path):
    """Returns a function that writes a source and returns where it is."""
    names = itertools.count()

    def write(table, **options):
        path = tmp_path / f"source-{next(names)}.parquet"
        pq.write_table(table, path, **options)
        return str(path)

    return write


def joined(main, where, columns, *, batch_rows=None, before=(), dataset=None, **params):
    operation = {"type": "join_from_parquet", "source": where, "columns": columns, **params}
    pipeline = build_pipeline(dataset or example_dataset(**PLAIN), [*before, operation])
    return run_ops(pipeline, main, batch_rows=batch_rows)


def carrying(*names, **changes):
    return example_dataset(**{**PLAIN, "carry_columns": list(names), **changes})


class TestJoinNewColumns(OpConformance):
    """Plain and nested columns that the table lacks; keys in another order, some missing, some surplus."""

    @pytest.fixture(autouse=True)
    def _source(self, source):
        rows = range(20, 1, -2)
        self.where = source(
            pa.table(
                {
                    "id": pa.array([f"key-{row}" for row in rows], pa.large_string()),
                    "score": pa.array([row / 2 for row in rows], pa.float32()),
                    "size": pa.array([{"w": row, "inner": {"tags": ["a", None]}} for row in rows], SIZE),
                }
            )
        )

    def dataset(self):
        return example_dataset(schema_extensions=[])

    def operation(self):
        return {
            "type": "join_from_parquet",
            "source": self.where,
            "columns": ["score", "size"],
            "source_key_column": "id",
        }

    def test_values(self):
        result = self._run(self.table())
        assert result.column("score").to_pylist() == [None, None, 1.0, None, 2.0, None, 3.0, None, 4.0, None]
        assert result.column("size").to_pylist()[:3] == [NULL_SIZE, NULL_SIZE, {"w": 2, "inner": {"tags": ["a", None]}}]
        assert result.column("size").null_count == 0


class TestJoinIntoScaffold(TestJoinNewColumns):
    """Declared types win."""

    def dataset(self):
        return example_dataset(schema_extensions=[{"name": "score", "type": "float64"}])

    def before(self):
        return [{"type": "extract_scaffold"}]

    def test_types(self):
        assert self._run(self.table()).schema.field("score").type == pa.float64()


class TestJoinUpdatesMainColumns(TestJoinNewColumns):
    """A column of the main dataset, under the name that the source has for another."""

    def operation(self):
        columns = {"width": "score", "extra_size": "size"}
        return {**super().operation(), "columns": columns, "mode": "update_if_null"}

    def table(self):
        table = example_table()
        widths = pa.array([None if row == 4 else row for row in range(10)], pa.float32())
        return table.set_column(table.schema.get_field_index("width"), "width", widths)

    def test_values(self):
        assert self._run(self.table()).column("width").to_pylist() == [0, 1, 2, 3, 2.0, 5, 6, 7, 8, 9]


# What the rows are, told once more as a plain loop


def loop(keys, old, source_keys, source_values, *, mode, duplicates, is_null):
    """Joins as the page of the design says, a row at a time."""
    found = {}
    for key, value in zip(source_keys, source_values, strict=True):
        if key is not None and not (duplicates == "first" and key in found):
            found[key] = value
    return [
        found[key] if key is not None and key in found and (mode == "overwrite_all" or is_null(before)) else before
        for key, before in zip(keys, old, strict=True)
    ]


def leaves_are_null(value):
    return all(map(leaves_are_null, value.values())) if isinstance(value, dict) else value is None


small_text = st.sampled_from(["a", "b", "c", "d", "é", "", "a ", "\x00"])
small_ints = st.integers(-3, 3)
KEYS = {
    "string": (st.none() | small_text, [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]),
    "int": (st.none() | small_ints, [pa.int8(), pa.int64(), pa.int32()]),
}
texts = st.none() | st.text("xyz é", max_size=4)
inner = st.none() | st.fixed_dictionaries({"tags": st.none() | st.lists(texts, max_size=2)})
VALUES = {
    "text": (texts, pa.string(), None),
    "number": (st.none() | st.integers(-5, 5), pa.int16(), None),
    "list": (st.none() | st.lists(texts, max_size=2), pa.list_(pa.string()), None),
    "struct": (
        st.none() | st.fixed_dictionaries({"w": st.none() | st.integers(0, 9), "inner": inner}),
        SIZE,
        NULL_SIZE,
    ),
}


def chunked(draw, values, dtype):
    """Cuts a column into chunks, empty ones among them, each with an offset into something longer."""
    value_type = dtype.value_type if isinstance(dtype, pa.DictionaryType) else dtype
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=3)))
    chunks = []
    for start, end in itertools.pairwise([0, *cuts, len(values)]):
        around = pa.array([*values[:1], *values[start:end], *values[:1]], value_type).cast(dtype)
        chunks.append(around.slice(min(1, len(values)), end - start))
    return pa.chunked_array(chunks, type=dtype)


@st.composite
def cases(draw):
    key_values, key_types = KEYS[draw(st.sampled_from(sorted(KEYS)))]
    values, dtype, null = VALUES[draw(st.sampled_from(sorted(VALUES)))]
    rows = draw(st.lists(st.tuples(key_values, values), max_size=12))
    source_rows = draw(st.lists(st.tuples(key_values, values), max_size=12))
    keys, old = [key for key, _ in rows], [value for _, value in rows]
    source_keys, new = [key for key, _ in source_rows], [value for _, value in source_rows]
    exists = draw(st.booleans())
    main = {"image_key": chunked(draw, keys, draw(st.sampled_from(key_types)))}
    if exists:
        main["value"] = chunked(draw, old, dtype)
    else:
        old = [null] * len(rows)
    duplicates = draw(st.sampled_from(["first", "last"]))
    mode = draw(st.sampled_from(["overwrite_all", "update_if_null"]))
    source = pa.table(
        {"id": chunked(draw, source_keys, draw(st.sampled_from(key_types))), "value": chunked(draw, new, dtype)}
    )
    expected = loop(keys, old, source_keys, new, mode=mode, duplicates=duplicates, is_null=leaves_are_null)
    batch_rows = draw(st.none() | st.integers(1, 5))
    row_group = draw(st.integers(1, 5))
    return pa.table(main), source, {"mode": mode, "duplicates": duplicates}, batch_rows, row_group, expected


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_any_join_is_what_a_loop_gives(source, case):
    main, table, params, batch_rows, row_group, expected = case
    where = source(table, row_group_size=row_group)
    result = joined(main, where, ["value"], source_key_column="id", batch_rows=batch_rows, **params)
    result.validate(full=True)
    assert result.column("image_key").to_pylist() == main.column("image_key").to_pylist()
    assert result.column("value").to_pylist() == expected


# Bug kinds that other joins have


def test_order_and_number_of_rows_stay_and_no_column_is_there_twice(source):
    main = pa.table({"image_key": ["k1", "k2", "k3"], "caption": ["one", "two", "three"]})
    where = source(pa.table({"image_key": ["k3", "k1", "k3"], "caption": ["drei", "eins", "dritte"]}))
    result = joined(main, where, ["caption"], duplicates="first")
    assert result.to_pydict() == {"image_key": ["k1", "k2", "k3"], "caption": ["eins", "two", "drei"]}
    result = joined(main, where, ["caption"], duplicates="last")
    assert result.column("caption").to_pylist() == ["eins", "two", "dritte"]


def test_a_struct_row_with_only_null_leaves_counts_as_null(source):
    before = pa.array([NULL_SIZE, None, {"w": None, "inner": None}, {"w": None, "inner": {"tags": []}}], SIZE)
    main = pa.table({"image_key": list("abcd"), "size": before})
    new = {"w": 1, "inner": {"tags": ["t"]}}
    where = source(pa.table({"image_key": list("abcd"), "size": pa.array([new] * 4, SIZE)}))
    result = joined(main, where, ["size"], mode="update_if_null", dataset=carrying("size"))
    assert result.column("size").to_pylist() == [new, new, new, {"w": None, "inner": {"tags": []}}]


def test_null_slots_of_the_source_stay_null_slots_and_rows_without_a_partner_have_null_children(source):
    main = pa.table({"image_key": list("abc")})
    where = source(pa.table({"image_key": ["a", "b"], "size": pa.array([None, NULL_SIZE], SIZE)}))
    result = joined(main, where, ["size"])
    assert result.column("size").to_pylist() == [None, NULL_SIZE, NULL_SIZE]


def test_overwrite_all_takes_nulls_too_and_a_key_that_the_source_lacks_keeps_the_row(source):
    main = pa.table({"image_key": ["a", "b", "c", None], "n": [1, 2, None, 4]})
    where = source(pa.table({"image_key": ["a", "c", None], "n": [None, 30, 40]}))
    assert joined(main, where, ["n"]).column("n").to_pylist() == [None, 2, 30, 4]
    assert joined(main, where, ["n"], mode="update_if_null").column("n").to_pylist() == [1, 2, 30, 4]


def test_a_key_that_the_source_has_twice_is_an_error_unless_said(source):
    where = source(pa.table({"image_key": ["a", "b", "b"], "n": [1, 2, 3]}))
    with pytest.raises(SidecarError, match="'b'"):
        joined(pa.table({"image_key": ["a"]}), where, ["n"])


@pytest.mark.slow
@pytest.mark.usefixtures("much_memory")
def test_more_than_2_gib_of_joined_bytes(source):
    """One value of 700 MB for four rows of one batch, of which two had 700 MB before."""
    large = b"x" * 700_000_000
    where = source(pa.table({"image_key": ["a"], "image": pa.array([large], pa.binary())}))
    chunk = pa.array([large], pa.binary())
    none = pa.nulls(1, pa.binary())
    main = pa.table(
        {"image_key": ["a", "b", "a", "a", "a"], "image": pa.chunked_array([none, chunk, none, none, none])}
    )
    result = joined(main, where, ["image"], mode="update_if_null", dataset=carrying("image"))
    lengths = [len(value) for chunk in result.column("image").chunks for value in chunk.to_numpy(zero_copy_only=False)]
    assert lengths == [700_000_000] * 5
    assert result.schema.field("image").type == pa.binary()


# Types


def test_a_value_that_does_not_fit_the_declared_type_is_named_with_its_row_and_key(source):
    main = pa.table({"image_key": ["a", "b", "c", "d"]})
    where = source(pa.table({"image_key": ["d", "c", "a"], "n": pa.array([1, 300, 2], pa.int64())}))
    dataset = example_dataset(**{**PLAIN, "schema_extensions": [{"name": "n", "type": "int8"}]})
    for batch_rows in (None, 1, 3):
        with pytest.raises(ShardError) as caught:
            joined(main, where, ["n"], dataset=dataset, batch_rows=batch_rows)
        expected = f"part-00000.parquet row 2, key 'c': column 'n' of {where} is int64, and 300 does not fit int8"
        assert str(caught.value) == expected


def test_only_values_that_are_taken_must_fit(source):
    main = pa.table({"image_key": ["a", "b"], "n": pa.array([1, None], pa.int8())})
    where = source(pa.table({"image_key": ["a", "b", "z"], "n": pa.array([300, 2, 400], pa.int64())}))
    result = joined(main, where, ["n"], mode="update_if_null")
    assert result.column("n").to_pylist() == [1, 2]
    assert result.schema.field("n").type == pa.int8()


def test_types_of_the_source_are_plain_in_the_output(source):
    inside = pa.struct([pa.field("x", pa.int8(), nullable=False)])
    table = pa.table(
        {
            "image_key": ["a"],
            "word": pa.array(["w"], pa.dictionary(pa.int8(), pa.string())),
            "strict": pa.array([{"x": 1}], inside),
        }
    )
    result = joined(pa.table({"image_key": ["a", "b"]}), source(table), ["word", "strict"])
    assert result.schema.field("word").type == pa.string()
    assert result.to_pydict() == {
        "image_key": ["a", "b"],
        "word": ["w", None],
        "strict": [{"x": 1}, {"x": None}],
    }


@pytest.mark.parametrize(
    "dtype", [pa.string_view(), pa.binary_view(), pa.uuid(), pa.dictionary(pa.int8(), pa.string())]
)
def test_columns_of_types_that_arrow_handles_in_part_are_updated(source, dtype):
    """Types in which Arrow takes or chooses no rows."""
    text = pa.types.is_string_view(dtype) or pa.types.is_dictionary(dtype)
    one, two = ("1" * 16, "2" * 16) if text else (b"1" * 16, b"2" * 16)
    before, new = (
        pa.array(values, pa.string() if text else pa.binary(16)) for values in ([one, None, one], [two, two])
    )
    if dtype == pa.uuid():
        before, new = (pa.ExtensionArray.from_storage(dtype, each) for each in (before, new))
    else:
        before, new = (each.cast(pa.string() if text else pa.binary()).cast(dtype) for each in (before, new))
    where = source(pa.table({"image_key": ["c", "b"], "value": new}))
    result = joined(pa.table({"image_key": list("abc"), "value": before}), where, {"value": "value", "new": "value"})
    result.validate(full=True)
    assert result.schema.field("value").type == dtype
    assert result.column("value").is_null().to_pylist() == [False, False, False]
    assert result.column("value")[0].as_py() == before[0].as_py()
    assert result.column("value").slice(1).to_pylist() == new.to_pylist()
    assert result.column("new").to_pylist() == [None, *new.to_pylist()]


def test_a_prefix_is_a_source_too(tmp_path):
    folder = tmp_path / "table/deep=1"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"image_key": ["a"], "n": pa.array([1], pa.int8())}), folder / "0.parquet")
    pq.write_table(pa.table({"image_key": ["b"], "n": pa.array([2], pa.int8())}), tmp_path / "table/1.parquet")
    (tmp_path / "table/_SUCCESS").touch()
    result = joined(pa.table({"image_key": ["b", "a", "c"]}), f"{tmp_path}/table/", ["n"])
    assert result.column("n").to_pylist() == [2, 1, None]


# Plans


def refused(main, where, columns, *, dataset=None, before=(), **params):
    operation = {"type": "join_from_parquet", "source": where, "columns": columns, **params}
    with pytest.raises(ConfigError) as caught:
        check_as_planned(build_pipeline(dataset or example_dataset(**PLAIN), [*before, operation]), main)
    return str(caught.value)


def test_mistakes_are_found_before_any_row(source):
    main = pa.table({"image_key": ["a"], "size": pa.array([None], SIZE), "title": ["t"]})
    where = source(pa.table({"image_key": ["a"], "score": [1.0], "box": pa.array([{"x": 1}])}))
    assert f"{where} has no column 'scor'; did you mean 'score'?" in refused(main, where, ["scor"])
    assert f"{where} has no key column 'id'" in refused(main, where, ["score"], source_key_column="id")
    said = refused(main, where, ["score"], source_key_column="score")
    assert "keys of type string cannot be compared with keys of type double" in said
    assert "the key column 'image_key' is always the main dataset's" in refused(main, where, ["image_key"])
    assert "column 'score' is named twice" in refused(main, where, ["score", "score"])
    assert "a column has no name" in refused(main, where, {"": "score"})
    assert f"column 'score' of {where}, for 'size': double cannot be cast to struct" in refused(
        main, where, {"size": "score"}
    )
    declared = {**PLAIN, "schema_extensions": [{"name": "score", "type_ref": "score_v1"}]}
    assert f"column 'box' of {where}, for 'score'" in refused(
        main, where, {"score": "box"}, dataset=example_dataset(**declared)
    )


@pytest.mark.parametrize("columns", ["score", None, 5, [1], [None], [["score"]], [{"a": "score"}]])
def test_columns_are_a_list_of_names_or_a_mapping(columns):
    said = refused(example_table(), "nowhere.parquet", columns)
    assert f"found {columns!r}, not a list of names, nor the source's names by new name" in said


def test_a_source_that_is_not_there_is_named_with_its_place(tmp_path):
    said = refused(example_table(), f"{tmp_path}/none.parquet", ["n"])
    assert said.startswith(f"operations[0]: source {tmp_path}/none.parquet is not there: ")
    assert "fix: check source" in said
    (tmp_path / "empty").mkdir()
    assert f"no shards at {tmp_path}/empty/" in refused(example_table(), f"{tmp_path}/empty/", ["n"])
    (tmp_path / "text.parquet").write_text("no Parquet")
    assert "text.parquet" in refused(example_table(), f"{tmp_path}/text.parquet", ["n"])


def test_offline_a_type_that_only_the_source_knows_is_open(tmp_path):
    dataset = example_dataset(schema_extensions=[{"name": "score", "type": "float32"}])
    operation = {"type": "join_from_parquet", "source": f"{tmp_path}/none.parquet", "columns": ["score", "other"]}
    checked = check_columns(build_pipeline(dataset, [operation]))
    assert checked.table_schema.field("score").type == pa.float32()
    assert is_open(checked.table_schema.field("other"))
    assert checked.open_columns == ("image_key", "other")
    assert checked.output("sidecar").schema.names == ["image_key", "score", "other"]


def test_a_main_column_is_read_updated_and_written(source):
    main = pa.table({"image_key": ["a", "b"], "title": ["A", "B"]})
    where = source(pa.table({"image_key": ["b"], "title": pa.array(["new"], pa.large_string())}))
    operation = {"type": "join_from_parquet", "source": where, "columns": ["title"]}
    pipeline = build_pipeline(example_dataset(**PLAIN), [operation])
    checked = check_as_planned(pipeline, main)
    assert checked.main_columns == ("image_key", "title")
    assert checked.output("sidecar").schema == pa.schema([("image_key", pa.string()), ("title", pa.string())])
    assert run_ops(pipeline, main).column("title").to_pylist() == ["A", "new"]


def test_a_main_column_under_a_scaffold_is_not_read(source):
    main = pa.table({"image_key": ["a", "b"], "title": ["A", "B"]})
    where = source(pa.table({"image_key": ["b"], "title": ["new"]}))
    dataset = example_dataset(**{**PLAIN, "schema_extensions": [{"name": "title", "type": "string"}]})
    result = joined(main, where, ["title"], before=[{"type": "extract_scaffold"}], dataset=dataset)
    assert result.column("title").to_pylist() == [None, "new"]


def test_a_main_column_that_an_op_took_away_is_new(source):
    main = pa.table({"image_key": ["a", "b"], "title": ["A", "B"]})
    where = source(pa.table({"image_key": ["b"], "title": ["new"]}))
    dropped = [{"type": "rename_columns", "columns": {"title": "before"}}]
    result = joined(main, where, ["title"], before=dropped)
    assert result.to_pydict() == {"image_key": ["a", "b"], "before": ["A", "B"], "title": [None, "new"]}


def test_two_joins_after_each_other_fill_by_priority(source):
    main = pa.table({"image_key": list("abc")})
    first = source(pa.table({"image_key": ["b"], "n": pa.array([1], pa.int32())}))
    second = source(pa.table({"image_key": ["a", "b"], "n": pa.array([10, 20], pa.int64())}))
    before = [{"type": "join_from_parquet", "source": first, "columns": ["n"]}]
    result = joined(main, second, ["n"], before=before, mode="update_if_null")
    assert result.column("n").to_pylist() == [10, 1, None]
    assert result.schema.field("n").type == pa.int32()


def test_the_fingerprint_knows_what_decides_values_and_not_where_the_source_is():
    def fingerprint(columns=("n", "m"), dataset=None, **params):
        operation = {"type": "join_from_parquet", "source": "/a/b.parquet", "columns": list(columns), **params}
        return output_fingerprint(build_pipeline(dataset or example_dataset(**PLAIN), [operation]), "sidecar")

    assert fingerprint() == fingerprint(source="/c/")
    others = [
        fingerprint(mode="update_if_null"),
        fingerprint(duplicates="first"),
        fingerprint(source_key_column="id"),
        fingerprint(columns=["n"]),
    ]
    assert len({fingerprint(), *others}) == 5


def test_source_is_relative_to_the_pipeline_file_and_part_of_the_plan(tmp_path):
    write_main(tmp_path / "main", {"a.parquet": [b"x"]})
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/d.yaml").write_text(
        "name: d\nmain_prefix: ../main\nsidecar_prefix: ../out\nkey_column: image_key\n"
    )
    (tmp_path / "pipelines").mkdir()
    path = tmp_path / "pipelines/p.yaml"
    path.write_text("dataset: d\noperations:\n  - {type: join_from_parquet, source: ../n.parquet, columns: {m: n}}\n")
    pq.write_table(pa.table({"image_key": ["a.parquet#0"], "n": [7]}), tmp_path / "n.parquet")
    pipeline = load_pipeline(path)
    main = open_storage(f"{tmp_path}/main/")
    plan = plan_run(pipeline, main, main.list_shards(), {"sidecar": f"{tmp_path}/out/"})
    assert [source.uri for source in plan.outputs[0].sources] == [f"{tmp_path}/n.parquet"]
    assert type(plan).from_json(plan.to_json()).planned == (pa.schema([("m", pa.int64())]),)
    assert load_side_inputs(plan)[0]["index"].num_keys == 1
