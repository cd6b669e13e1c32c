from __future__ import annotations

import pytest
from sidecar_core.errors import ConfigError
from sidecar_core.pipeline import build_pipeline, check_columns
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.example_dataset import example_dataset


def refused(columns, dataset=None, before=()):
    operations = [*before, {"type": "rename_columns", "columns": columns}]
    with pytest.raises(ConfigError) as caught:
        build_pipeline(dataset or example_dataset(schema_extensions=[]), operations)
    return str(caught.value)


class TestRenameColumns(OpConformance):
    def dataset(self):
        return example_dataset(schema_extensions=[])

    def operation(self):
        return {"type": "rename_columns", "columns": {"title": "width", "width": "title", "extra": "more"}}

    def test_two_columns_swap_names(self):
        table = self.table()
        result = self._run(table)
        assert result.column("width").to_pylist() == table.column("title").to_pylist()
        assert result.column("title").to_pylist() == table.column("width").to_pylist()
        assert result.column("more").equals(table.column("extra"))

    def test_renamed_main_columns_are_in_the_output(self):
        checked = check_columns(build_pipeline(self.dataset(), [self.operation()]), self.table().schema)
        assert checked.output("sidecar").schema.names == ["image_key", "width", "title", "more"]


class TestRenameScaffolded(OpConformance):
    def dataset(self):
        return example_dataset(schema_extensions=[{"name": "caption", "type": "string"}])

    def before(self):
        return [{"type": "extract_scaffold"}]

    def operation(self):
        return {"type": "rename_columns", "columns": {"title": "title_original"}}


def test_key_cannot_be_renamed_nor_its_name_taken():
    assert "the key column 'image_key' cannot be renamed" in refused({"image_key": "id"})
    assert "cannot take the name of the key column" in refused({"title": "image_key"})


def test_new_names_are_distinct_and_free():
    assert "two columns would be named 'x'" in refused({"title": "x", "width": "x"})
    assert "there is a column 'caption' already" in refused(
        {"title": "caption"}, example_dataset(), [{"type": "extract_scaffold"}]
    )


def test_a_declared_column_cannot_lose_its_name():
    message = refused({"caption": "text"}, example_dataset(), [{"type": "extract_scaffold"}])
    assert "column 'caption' is declared, and operations[1] (rename_columns) takes it away" in message
