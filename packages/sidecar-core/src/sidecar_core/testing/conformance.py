"""The contract of an op as a pytest class that every op runs: subclass it in a test module.

class TestDropColumns(OpConformance):
    def operation(self):
        return {"type": "drop_columns", "columns": ["caption"]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.nulls import null_column
from sidecar_core.pipeline import build_pipeline
from sidecar_core.testing.batches import check_as_planned, run_ops
from sidecar_core.testing.example_dataset import example_dataset, example_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar_core.columns import CheckedColumns
    from sidecar_core.dataset import Dataset
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.pipeline import Pipeline

__all__ = ["OpConformance"]


class OpConformance:
    """Rows, order and key are kept, whatever the shard and however it is cut into batches.

    A subclass says which op, and maybe on what; every test then runs a whole pipeline of that op.

        class TestDropColumns(OpConformance):
            def operation(self):
                return {"type": "drop_columns", "columns": ["caption"]}

    Attributes:
        batch_rows: sizes of batches whose results must be alike, in rows.
    """

    batch_rows: tuple[int, ...] = (1, 3, 7)

    def operation(self) -> Mapping[str, object]:
        """Returns the op as in a pipeline's YAML."""
        raise NotImplementedError

    def before(self) -> Sequence[Mapping[str, object]]:
        """Returns ops that come before it, such as a scaffold to be filled."""
        return ()

    def dataset(self) -> Dataset:
        """Returns the dataset; default `example_dataset`."""
        return example_dataset()

    def table(self) -> pa.Table:
        """Returns rows of the main dataset, at least eight; default `example_table`."""
        return example_table()

    def isolation(self) -> IsolationPool | None:
        """Returns the child processes for an op that needs them; the subclass closes them."""
        return None

    def side_inputs(self) -> Mapping[str, object]:
        """Returns what the op gets for its side inputs; default what it declares, loaded as in a worker."""
        return {}

    def rel_path(self) -> str:
        """Returns the shard's path, for an op that reads a sibling shard."""
        return "part-00000.parquet"

    def write_siblings(self, table: pa.Table) -> None:
        """Writes the shard of the sidecars that the op reads, beside the rows of a main shard; called before each."""

    def test_rows_order_and_key_are_kept(self) -> None:
        """The op returns one row per row, in order, with the key untouched."""
        table = self.table()
        assert table.num_rows >= 8, "the table is too small to tell batches apart"
        result = self._run(table)
        key = self.dataset().key_column
        assert result.num_rows == table.num_rows
        assert result.column(key).to_pylist() == table.column(key).to_pylist()

    def test_null_keys_are_kept(self) -> None:
        """A row without a key is a row like any other."""
        table = self.table()
        key = self.dataset().key_column
        keys = table.column(key).to_pylist()
        keys[2] = None
        table = table.set_column(table.schema.get_field_index(key), key, pa.array(keys, table.schema.field(key).type))
        assert self._run(table).column(key).to_pylist() == keys

    def test_empty_shard(self) -> None:
        """No rows in, no rows out, with the planned schema."""
        result = self._run(self.table().slice(0, 0))
        assert result.num_rows == 0
        self._check_schema(result)

    def test_all_null_shard(self) -> None:
        """A shard in which everything but the key is null gives its rows."""
        table = self._all_null()
        result = self._run(table)
        key = self.dataset().key_column
        assert result.column(key).to_pylist() == table.column(key).to_pylist()
        self._check_schema(result)

    def test_input_is_not_mutated(self) -> None:
        """The op changes neither the table it is given nor the buffers below."""
        table = self._read(self.table())
        before = _ipc_bytes(table)
        self._run(table)
        assert _ipc_bytes(table) == before

    def test_batch_size_does_not_matter(self) -> None:
        """However the shard is cut, the values are the same."""
        table = self.table()
        whole = self._run(table)
        for rows in self.batch_rows:
            cut = self._run(table, batch_rows=rows)
            assert cut.equals(whole), f"in batches of {rows} rows the op gives other values"

    def test_chunks_do_not_matter(self) -> None:
        """A batch in several chunks, as Arrow reads large ones, gives the same values."""
        table = self.table()
        chunked = pa.concat_tables([table.slice(0, 2), table.slice(2, 0), table.slice(2)])
        assert self._run(chunked).equals(self._run(table))

    def test_output_schema_is_the_planned_one(self) -> None:
        """What `apply` returns is what the plan promised, whatever is in the rows."""
        self._check_schema(self._run(self.table()))

    def test_instances_keep_no_state(self) -> None:
        """Two shards after each other through one instance give what they give alone."""
        table = self.table()
        pipeline = self._pipeline()
        first = self._run(table, pipeline=pipeline)
        self._run(self._all_null(), pipeline=pipeline)
        assert self._run(table, pipeline=pipeline).equals(first)

    def _pipeline(self) -> Pipeline:
        return build_pipeline(self.dataset(), [*self.before(), self.operation()])

    def _checked(self, table: pa.Table, pipeline: Pipeline | None = None) -> CheckedColumns:
        """Plans the columns as a run does."""
        return check_as_planned(pipeline or self._pipeline(), table)

    def _read(self, table: pa.Table) -> pa.Table:
        """Returns the columns that the engine would read."""
        return table.select(self._checked(table).main_columns)

    def _all_null(self) -> pa.Table:
        table = self.table()
        for index, each in enumerate(table.schema):
            if each.name != self.dataset().key_column:
                table = table.set_column(index, each, null_column(each.type, table.num_rows))
        return table

    def _run(self, table: pa.Table, *, batch_rows: int | None = None, pipeline: Pipeline | None = None) -> pa.Table:
        """Runs the pipeline over a shard, batch by batch as the engine does."""
        pipeline = pipeline or self._pipeline()
        self.write_siblings(table.select(self._checked(table, pipeline).main_columns))
        return run_ops(
            pipeline,
            table,
            batch_rows=batch_rows,
            rel_path=self.rel_path(),
            isolation=self.isolation(),
            side_inputs=self.side_inputs(),
        )

    def _check_schema(self, result: pa.Table) -> None:
        planned = self._checked(self.table()).table_schema
        found = {each.name: each.type for each in result.schema}
        assert found == {each.name: each.type for each in planned}
        result.validate(full=True)


def _ipc_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
