from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.errors import ConfigError, ShardError
from sidecar_core.pipeline import build_pipeline, check_columns
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.example_dataset import example_dataset


class TestCastColumns(OpConformance):
    def dataset(self):
        return example_dataset(schema_extensions=[])

    def operation(self):
        return {"type": "cast_columns", "columns": {"width": "float32", "title": "large_string"}}

    def test_types_and_values(self):
        result = self._run(self.table())
        assert result.schema.field("width").type == pa.float32()
        assert result.schema.field("title").type == pa.large_string()
        assert result.column("width").to_pylist()[:3] == [0.0, 100.0, None]

    def test_first_unfit_value_is_named_with_column_shard_and_row(self):
        table = self.table().set_column(3, "width", pa.array([1, 2, 3, 4, 300, 5, 301, 8, 9, 10]))
        pipeline = build_pipeline(self.dataset(), [{"type": "cast_columns", "columns": {"width": "int8"}}])
        for batch_rows in (None, 1, 2, 3):
            with pytest.raises(ShardError) as caught:
                self._run(table, pipeline=pipeline, batch_rows=batch_rows)
            assert str(caught.value).startswith("part-00000.parquet row 4: column 'width': 300 does not fit int8\n")
            assert "on_error: set_null" in str(caught.value)

    def test_fractions_are_not_cut_off(self):
        table = self.table().set_column(3, "width", pa.array([1.0] * 7 + [1.5] * 3))
        pipeline = build_pipeline(self.dataset(), [{"type": "cast_columns", "columns": {"width": "int32"}}])
        with pytest.raises(ShardError, match=r"row 7: column 'width': 1\.5 does not fit int32"):
            self._run(table, pipeline=pipeline)


class TestCastOrNull(OpConformance):
    def dataset(self):
        return example_dataset(schema_extensions=[])

    def operation(self):
        return {"type": "cast_columns", "columns": {"title": "int64", "width": "int8"}, "on_error": "set_null"}

    def test_only_unfit_values_become_null(self):
        result = self._run(self.table())
        assert result.column("width").to_pylist() == [0, 100, *[None] * 8]
        assert result.column("title").null_count == 10


class TestCastNested(OpConformance):
    def dataset(self):
        return example_dataset(schema_extensions=[])

    def before(self):
        return [{"type": "extract_scaffold"}]

    def operation(self):
        return {"type": "cast_columns", "columns": {"tags": "list<int32>"}, "on_error": "set_null"}

    def table(self):
        rows = [["1"], [], None, ["x"], ["2", None], ["3"], ["4"], ["5"]]
        keys = [f"k{row}" for row in range(len(rows))]
        return pa.table({"image_key": keys, "tags": pa.array(rows, pa.list_(pa.string()))})

    def test_values(self):
        found = self._run(self.table()).column("tags").to_pylist()
        assert found == [[1], [], None, None, [2, None], [3], [4], [5]]


def refused(columns, **changes):
    with pytest.raises(ConfigError) as caught:
        check_columns(
            build_pipeline(example_dataset(**changes), [{"type": "cast_columns", "columns": columns}]),
            pa.schema([("image_key", pa.string()), ("box", pa.struct([("x", pa.int32())])), ("tags", pa.string())]),
        )
    return str(caught.value)


def test_mistakes_are_found_before_any_row():
    plain = {"schema_extensions": []}
    assert "unknown type 'flot32'; did you mean 'float32'?" in refused({"tags": "flot32"}, **plain)
    assert "the key column 'image_key' cannot be cast" in refused({"image_key": "int64"}, **plain)
    assert "column 'tags': string cannot be cast to list" in refused({"tags": "list<string>"}, **plain)
    assert "has no field 'x'" in refused({"box": "score_v1"}, **plain)


def test_declared_type_must_be_kept():
    operations = [{"type": "extract_scaffold"}, {"type": "cast_columns", "columns": {"caption": "binary"}}]
    with pytest.raises(ConfigError, match="makes column 'caption' as binary, and it is declared string"):
        build_pipeline(example_dataset(), operations)
