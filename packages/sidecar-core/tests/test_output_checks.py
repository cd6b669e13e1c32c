from __future__ import annotations

import pyarrow as pa
from sidecar_core.op import BaseOp, OpParams
from sidecar_core.output_checks import OutputCheck
from sidecar_core.storage import open_storage
from sidecar_core.testing.example_dataset import example_dataset

BOTH = OutputCheck("names", ("a", "b"), lambda table: [(0, ", ".join(table.schema.names))])


def test_a_check_is_given_its_own_names_in_an_output_that_has_others():
    stored = BOTH.stored_as({"a": "x", "b": "b", "c": "c"})
    assert stored.columns == ("x", "b")
    assert list(stored.check(pa.table({"x": [1], "b": [2]}))) == [(0, "a, b")]


def test_a_check_is_given_what_the_output_has():
    stored = BOTH.stored_as({"b": "renamed"})
    assert stored.columns == ("renamed",)
    assert list(stored.check(pa.table({"renamed": [2]}))) == [(0, "b")]
    assert BOTH.stored_as({"c": "a"}) is None


def test_an_op_that_says_nothing_has_no_checks_and_lets_runs_start():
    op = BaseOp(OpParams())
    assert list(op.output_checks(example_dataset())) == []
    assert list(BaseOp.recognise_output(pa.schema([]))) == []
    assert list(op.check_start(example_dataset(), open_storage)) == []
