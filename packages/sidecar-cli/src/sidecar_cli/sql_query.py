"""SQL over a main dataset and its sidecars through DuckDB, which reads only the columns that a query uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as pads
from sidecar_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import duckdb
    from sidecar_core.reader import AlignedDatasets

TABLE = "data"
_INTERRUPT_AGAIN_S = 0.2
_Result = TypeVar("_Result")
_CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_CLOSED_WORDS = ("disabled by configuration", "disabled through configuration", "configuration has been locked")


@dataclass(frozen=True)
class SqlResult:
    """What a query found.

    Attributes:
        columns: names of the result's columns.
        rows: its first rows, as Python values.
        complete: whether these are all.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    complete: bool


def query_data(data: AlignedDatasets, query: str, *, max_rows: int) -> SqlResult:
    """Runs a query over the table `data`, and lets it read and write nothing else.

    Args:
        data: what the table holds.
        query: in DuckDB's SQL.
        max_rows: how many rows of the result to take.

    Raises:
        UsageError: DuckDB is not installed, or does not understand the query, or cannot run it, or it asks
            for a file or a setting.
        SidecarError: the datasets cannot be read side by side.
    """
    try:
        import duckdb
    except ImportError as error:
        message = "--sql needs the package 'duckdb', which is not installed"
        raise UsageError(message, None, "pip install 'sidecar-cli[sql]'") from error
    table = _Table(data)
    with (
        TemporaryDirectory(prefix="sidecar-sql-", ignore_cleanup_errors=True) as spill,
        duckdb.connect(config={**_CLOSED, "temp_directory": spill}) as connection,
    ):
        connection.execute("SET python_enable_replacements = false")  # a name is a table, never a variable here
        connection.execute("SET lock_configuration = true")  # so that no query opens what is closed
        try:
            columns, rows = _interruptibly(connection, lambda: _fetch(connection, table, query, max_rows + 1))
        except duckdb.Error as error:
            if table.failure is not None:
                raise table.failure from error
            said = str(error).strip()
            only = f"a query of the table `{TABLE}`: no files, no settings" if _is_closed(said) else None
            raise UsageError(f"--sql: {said}", only) from error
    return SqlResult(columns, tuple(rows[:max_rows]), complete=len(rows) <= max_rows)


def _fetch(
    connection: duckdb.DuckDBPyConnection, table: _Table, query: str, rows: int
) -> tuple[tuple[str, ...], list[Any]]:
    connection.register(TABLE, table)
    done = connection.execute(query)
    columns = tuple(str(each[0]) for each in (done and done.description) or ())
    return columns, done.fetchmany(rows) if columns else []


def _interruptibly(connection: duckdb.DuckDBPyConnection, work: Callable[[], _Result]) -> _Result:
    """Does work of DuckDB's in a thread of its own.

    In the main thread most of it cannot be interrupted, and what it calls in Python would be: DuckDB makes an
    error of its own out of the KeyboardInterrupt.
    """
    with ThreadPoolExecutor(1, "sql") as thread:
        done = thread.submit(work)
        try:
            return done.result()
        except BaseException:
            while not done.done():  # asked again, as the query may not have begun
                connection.interrupt()
                wait([done], timeout=_INTERRUPT_AGAIN_S)
            raise


def _is_closed(said: str) -> bool:
    """Returns whether DuckDB refused a query for what it may not touch."""
    return any(words in said for words in (*_CLOSED_WORDS, "Cannot enable external access"))


class _Table(pads.Dataset):
    """Aligned datasets as the kind of thing that DuckDB asks for some columns, and for rows that fit a filter."""

    def __init__(self, data: AlignedDatasets) -> None:  # no dataset of Arrow's own lies below
        self._data = data
        self.failure: Exception | None = None
        plain = set(data.plain_columns)
        key = data.key_column
        # count(*) reads the first column, which must be a small one
        names = sorted(data.schema.names, key=lambda name: (name != key, name not in plain))
        self._columns = pa.schema([data.schema.field(name) for name in names])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._columns

    def scanner(  # pyright: ignore[reportIncompatibleMethodOverride] - what DuckDB calls it with
        self,
        columns: Sequence[str] | None = None,
        filter: pads.Expression | None = None,  # noqa: A002
        **_: object,
    ) -> _Scan:
        """Returns the rows that fit the filter, with these columns."""
        names = self._columns.names if columns is None else list(columns)
        schema = pa.schema([self._columns.field(name) for name in names])
        return _Scan(schema, self._batches(schema, filter))

    def _batches(self, schema: pa.Schema, chosen: pads.Expression | None) -> Iterator[pa.RecordBatch]:
        wanted = schema.names
        needed = wanted if chosen is None else [*wanted, *self._columns_of(chosen, besides=wanted)]
        try:
            for batch in self._data.read(needed):
                if chosen is None:
                    yield batch
                else:
                    held = pads.dataset(pa.Table.from_batches([batch]))
                    yield from held.scanner(columns=wanted, filter=chosen, use_threads=False).to_batches()
        except Exception as error:
            self.failure = error  # DuckDB keeps only its text
            raise

    def _columns_of(self, expression: pads.Expression, *, besides: Sequence[str]) -> list[str]:
        """Returns the further columns without which Arrow cannot evaluate an expression."""
        found: list[str] = []
        for field in self._columns:
            if field.name in besides:
                continue
            others = pa.schema([each for each in self._columns if each.name != field.name])
            try:
                pads.dataset(others.empty_table()).scanner(filter=expression)
            except pa.ArrowInvalid:
                found.append(field.name)
        return found


class _Scan(pads.Scanner):
    """One reading of some columns."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._columns = schema
        self._rows = batches

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are read."""
        return self._columns

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the stream."""
        return pa.RecordBatchReader.from_batches(self._columns, self._rows)
