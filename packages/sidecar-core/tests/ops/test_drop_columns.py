from __future__ import annotations

import pytest
from sidecar_core.errors import ConfigError
from sidecar_core.pipeline import build_pipeline, check_columns
from sidecar_core.testing.conformance import OpConformance
from sidecar_core.testing.example_dataset import example_dataset


class TestDropColumns(OpConformance):
    def dataset(self):
        return example_dataset(schema_extensions=[])

    def before(self):
        return [{"type": "rename_columns", "columns": {"title": "kept", "width": "gone"}}]

    def operation(self):
        return {"type": "drop_columns", "columns": ["gone"]}

    def test_only_the_named_columns_go(self):
        assert self._run(self.table()).column_names == ["image_key", "kept"]

    def test_unknown_column_is_an_error_with_the_nearest_name(self):
        with pytest.raises(ConfigError, match="there is no column 'gne' to drop; did you mean 'gone'"):
            build_pipeline(self.dataset(), [*self.before(), {"type": "drop_columns", "columns": ["gne"]}])

    def test_key_cannot_be_dropped(self):
        with pytest.raises(ConfigError, match="the key column 'image_key' cannot be dropped"):
            build_pipeline(self.dataset(), [{"type": "drop_columns", "columns": ["image_key"]}])

    def test_a_carried_column_must_stay(self):
        dataset = example_dataset(schema_extensions=[], carry_columns=["width"])
        with pytest.raises(ConfigError, match=r"carry_columns\[0\]: column 'width' is carried, and operations\[0\]"):
            build_pipeline(dataset, [{"type": "drop_columns", "columns": ["width"]}])

    def test_a_declared_column_must_stay(self):
        operations = [{"type": "extract_scaffold"}, {"type": "drop_columns", "columns": ["caption"]}]
        with pytest.raises(ConfigError, match=r"column 'caption' is declared, and operations\[1\] \(drop_columns\)"):
            build_pipeline(example_dataset(), operations)

    def test_an_op_behind_it_cannot_read_the_column(self):
        operations = [*self.before(), self.operation(), {"type": "cast_columns", "columns": {"gone": "string"}}]
        with pytest.raises(ConfigError, match=r"'cast_columns' reads column 'gone', which operations\[1\]"):
            check_columns(build_pipeline(self.dataset(), operations))
