"""The contract of an operation: one Arrow table in, one Arrow table out, row for row."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from sidecar_core.config import StrictModel
from sidecar_core.errors import OpError
from sidecar_core.locations import WITHOUT_LOCATIONS
from sidecar_core.problems import counted
from sidecar_core.storage import shared_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import ExitStack

    from sidecar_core.dataset import Dataset
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.output_checks import OutputCheck
    from sidecar_core.side_inputs import SiblingSpec, SideInputSpec
    from sidecar_core.storage import Storage


class OpParams(StrictModel):
    """Base of an op's parameters: unknown keys are errors, numbers are finite and never `yes`, values do not change."""


@dataclass(frozen=True)
class PlanContext:
    """What an op may know while a plan is made, before any shard is read.

    Attributes:
        dataset: the dataset that the pipeline runs on.
        main_schema: schema of the main dataset's first readable shard, or None while planning offline.
        source_schema: returns the schema of the first readable shard below a prefix, or of a file; None
            while planning offline, when types that only storage knows stay open (`open_field`).
        open_names: whether earlier ops may have added columns whose names only storage knows.
    """

    dataset: Dataset
    main_schema: pa.Schema | None = None
    source_schema: Callable[[str], pa.Schema] | None = None
    open_names: bool = False


@dataclass(frozen=True)
class OpContext:
    """Where the batch given to `BaseOp.apply` comes from, and what the op may use.

    Attributes:
        dataset: the dataset that the pipeline runs on.
        rel_path: the shard's path below the main prefix.
        first_row: position in the shard of the batch's first row, from 0.
        isolation: child processes for work that may crash, hang or exhaust memory.
        side_inputs: what the op declared, by the name it gave.
        shard_rows: rows of the shard.
        shard_scope: closed after the shard's last batch; what lives as long as a shard goes here.
        shard_state: values that live as long as the shard, keyed by the op.
        planned: the columns that this op adds, fills or replaces, with the types that the plan fixed for the run.
        logger: for messages to the person who runs this.
    """

    dataset: Dataset
    rel_path: str
    first_row: int
    isolation: IsolationPool
    side_inputs: Mapping[str, object]
    shard_rows: int
    shard_scope: ExitStack
    shard_state: dict[object, object] = field(default_factory=dict)
    planned: pa.Schema = field(default_factory=lambda: pa.schema([]))
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("sidecar"))

    def open_storage(self, prefix: str) -> Storage:
        """Returns the storage of another dataset, reached as the pipeline's own is; one a process and prefix."""
        return shared_storage(prefix, self.dataset.storage)


class BaseOp:
    """One step of a pipeline.

    An instance is shared by threads and keeps no state between calls. A row's result depends only on
    that row, its position in the shard, and the side inputs: never on its neighbours or on how the
    shard was cut into batches.

    Subclasses set `Params` and `version`, and implement `output_fields` (or `output_schema`, when they
    drop or rename) and `apply`.

    Attributes:
        Params: the parameters that a pipeline may give it.
        type_name: the name under which pipelines know it; set by `register_op`.
        version: raised when its values change for the same rows and parameters: existing outputs are stale then.
        adds_placeholders: its columns are there for any later op to fill, as those of `extract_scaffold`.
        params: those of this instance.
    """

    Params: ClassVar[type[OpParams]] = OpParams
    type_name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    adds_placeholders: ClassVar[bool] = False

    def __init__(self, params: OpParams) -> None:
        self.params = params

    def validate(self, dataset: Dataset) -> None:
        """Checks what needs the dataset. Raises ConfigError or ValueError; touches no storage."""

    def input_columns(self, dataset: Dataset) -> list[str]:
        """Returns the columns it reads: of the main dataset or of earlier ops."""
        return []

    def optional_input_columns(self, dataset: Dataset) -> list[str]:
        """Returns the columns it reads where there are such: in the table before it, or in the main dataset.

        For an op that keeps values of a column that may be there already. Offline, when nobody knows what the
        main dataset has, such a column is taken to be absent.
        """
        del dataset
        return []

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        """Returns the columns it adds or fills, in the order in which the output has them."""
        return []

    def updates(self) -> Collection[str]:
        """Returns the existing, not scaffolded columns whose values it replaces on purpose."""
        return ()

    def replaced_columns(self, schema: pa.Schema, ctx: PlanContext) -> Collection[str]:
        """Returns what `updates` says, for an op that knows it only from the schema before it.

        An op that overrides `output_schema` names here, or in `updates`, each existing column whose values
        it replaces, scaffolded ones included.
        """
        del schema, ctx
        return self.updates()

    def source_columns(self, column: str, dataset: Dataset) -> Collection[str]:
        """Returns the columns before this op from which it makes `column`; used for fingerprints only."""
        del column
        return self.input_columns(dataset)

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        """Returns the schema after this op, given the one before; override to drop, rename or cast.

        Args:
            schema: the columns before this op, in order. A scaffolded column that no op has filled yet is
                marked (`is_placeholder`), and so is one whose type is not known yet (`is_open`).
            ctx: the dataset, and the main dataset's schema when it is known.

        Raises:
            ConfigError: the columns before do not fit this op.
        """
        for new in self.output_fields(ctx.dataset):
            schema = with_column(schema, new)
        return schema

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        """Returns the parameters that decide the values of `columns`, as JSON values.

        Where data is (`sidecar_core.locations`) is left out: which version of it was read is in the footers.
        An op whose columns do not all depend on all parameters overrides this, so that a column keeps
        its fingerprint when only its neighbours change.
        """
        del columns
        return self.params.model_dump(mode="json", context=WITHOUT_LOCATIONS)

    def reason_columns(self) -> dict[str, str]:
        """Returns the column (or `column.child`) that holds each output column's reasons for invalid rows.

        Keys are the columns whose rows are judged, values the string column with null or `ok` for
        valid rows and a `Reason` otherwise.
        """
        return {}

    def declare_side_inputs(self, dataset: Dataset) -> dict[str, SideInputSpec]:
        """Returns the objects that it needs in every worker, by names of its choice: those of `ctx.side_inputs`."""
        del dataset
        return {}

    def declare_siblings(self, dataset: Dataset) -> Sequence[SiblingSpec]:
        """Returns the sidecars whose shard at the same rel_path it reads beside the main shard.

        Their order, like that of side inputs and their sources, follows from parameters that are no locations: by
        it, footers tell which of them has changed.
        """
        del dataset
        return ()

    def check_start(self, dataset: Dataset, open_storage: Callable[[str], Storage]) -> Sequence[str]:
        """Looks, once and before anything is planned, at whether a run or a dry run may start.

        Args:
            dataset: the dataset that the pipeline runs on.
            open_storage: returns the storage of another dataset, reached as the pipeline's own is.

        Returns:
            What the run's manifest must say besides, one sentence each.

        Raises:
            RefusedError: it may not; says what to run first.
        """
        del dataset, open_storage
        return ()

    def output_checks(self, dataset: Dataset) -> Sequence[OutputCheck]:
        """Returns what `verify` can hold the columns to that it makes, beyond nulls and types."""
        del dataset
        return ()

    @classmethod
    def recognise_output(cls, schema: pa.Schema) -> Sequence[OutputCheck]:
        """Returns the checks for columns that an op of this type seems to have made, in an output without its pipeline.

        Args:
            schema: the output's. A column that a check names and that is not there is a fault of the output.
        """
        del schema
        return ()

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Returns a new table for a batch of consecutive rows of one shard.

        Args:
            table: the batch, maybe in several chunks; scaffolded columns that no op has filled yet are marked
                (`is_placeholder`). Rows, order and key column must come back unchanged.
            ctx: where the batch is from, and what may be used.

        Returns:
            A table with the same rows in the same order and the columns that the plan promised.

        Raises:
            OSError: the shard is tried again, as when storage failed; not after FileNotFoundError.
            SidecarError: the shard fails, with this message.
            Exception: the shard fails; the message names the op and the batch's rows.
        """
        raise NotImplementedError


_PLACEHOLDER: dict[bytes | str, bytes | str] = {b"sidecar.placeholder": b"1"}
_OPEN: dict[bytes | str, bytes | str] = {b"sidecar.open": b"1"}
_OPEN_NAMES: dict[bytes | str, bytes | str] = {b"sidecar.open_names": b"1"}


def placeholder_field(field: pa.Field) -> pa.Field:
    """Returns the field, marked as a scaffolded column that any later op may fill."""
    return field.with_metadata(_PLACEHOLDER)


def is_placeholder(field: pa.Field) -> bool:
    """Returns whether the column is scaffolded and no op has filled it yet, in a plan or in a batch."""
    return bool(field.metadata) and b"sidecar.placeholder" in field.metadata


def open_field(name: str, likely: pa.DataType | None = None) -> pa.Field:
    """Returns a field whose type only storage knows; `output_schema` uses it while planning offline.

    Args:
        name: the column.
        likely: what the type may be; default null.
    """
    return pa.field(name, likely or pa.null(), metadata=_OPEN)


def is_open(field: pa.Field) -> bool:
    """Returns whether the type of the field is not known yet."""
    return bool(field.metadata) and b"sidecar.open" in field.metadata


def with_open_names(schema: pa.Schema) -> pa.Schema:
    """Returns the schema, marked: the op that returns it may add columns whose names only storage knows."""
    return schema.with_metadata(_OPEN_NAMES)


def has_open_names(schema: pa.Schema) -> bool:
    """Returns whether the op that made the schema may add columns whose names only storage knows."""
    return bool(schema.metadata) and b"sidecar.open_names" in schema.metadata


def with_column(schema: pa.Schema, field: pa.Field) -> pa.Schema:
    """Returns the schema with a column appended, or in the place of that of its name."""
    index = schema.get_field_index(field.name)
    return schema.append(field) if index < 0 else schema.set(index, field)


def set_columns(table: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """Returns `table` with each of `columns` appended, or replaced in place when it has that name.

    Args:
        table: any table.
        columns: new values, one per row of `table`.
        schema: fields for the new columns, by name.

    Raises:
        OpError: a column has another number of rows than `table`.
    """
    for name, values in columns.items():
        if len(values) != table.num_rows:
            raise OpError(f"column {name!r} has {counted(len(values), 'value')} for {counted(table.num_rows, 'row')}")
        index = table.schema.get_field_index(name)
        new = schema.field(name)
        table = table.append_column(new, values) if index < 0 else table.set_column(index, new, values)
    return table
