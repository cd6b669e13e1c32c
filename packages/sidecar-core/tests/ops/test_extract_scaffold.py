from __future__ import annotations

from sidecar_core.nulls import null_rows
from sidecar_core.testing.conformance import OpConformance


class TestExtractScaffold(OpConformance):
    def operation(self):
        return {"type": "extract_scaffold"}

    def test_columns_are_null_structs_without_null_slots(self):
        result = self._run(self.table())
        assert result.column("score").null_count == 0
        assert null_rows(result.column("score")).to_pylist() == [True] * 10
        assert result.column("score")[0].as_py() == {"mean": None, "inner": {"labels": None}}
        assert result.column("caption").null_count == 10
