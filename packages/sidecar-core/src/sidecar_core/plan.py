"""A run's plan: everything that is fixed before the first shard is read."""

from __future__ import annotations

import base64
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from sidecar_core.fingerprint import contributing_ops
from sidecar_core.first_shard import first_readable_schema
from sidecar_core.footer import InputVersion
from sidecar_core.foreign_types import plain_type
from sidecar_core.inputs import find_file, source_version
from sidecar_core.pipeline import Pipeline, check_columns, output_fingerprint
from sidecar_core.shard_reader import open_parquet
from sidecar_core.side_inputs import SiblingSpec
from sidecar_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sidecar_core.dataset import Dataset, StorageOptions
    from sidecar_core.op import BaseOp
    from sidecar_core.pipeline import CheckedColumns
    from sidecar_core.storage import ObjectInfo, Storage


@dataclass(frozen=True)
class PlannedShard:
    """A main shard, and per output the file that was there when the run was planned.

    Attributes:
        main: the main shard.
        present: in the plan's order of outputs, the output file to replace, or None where there is none.
    """

    main: ObjectInfo
    present: tuple[ObjectInfo | None, ...]

    @property
    def rel_path(self) -> str:
        """The shard's path below the main prefix and below each output prefix."""
        return self.main.rel_path


@dataclass(frozen=True)
class PlannedOutput:
    """One dataset that a run writes.

    Attributes:
        name: the output's name in the pipeline.
        prefix: where it is written, ending with one slash.
        schema: the schema of each of its shards, key column first.
        columns: pairs of the name in the output and the table's column, in the schema's order.
        fingerprint: of all that makes its columns.
        image_columns: its binary columns, stored uncompressed.
        reason_columns: per judged column, the table column (or `column.child`) with its reasons.
        siblings: the sidecars that are read by rel_path to make its columns, in the order in which the ops declare
            them, as often as they do: a footer's inputs are told apart by their place, for locations may change.
        sources: which versions of the side inputs' files and prefixes its columns are made from, likewise.
    """

    name: str
    prefix: str
    schema: pa.Schema
    columns: tuple[tuple[str, str], ...]
    fingerprint: str
    image_columns: tuple[str, ...]
    reason_columns: Mapping[str, str]
    siblings: tuple[SiblingSpec, ...] = ()
    sources: tuple[InputVersion, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Returns the output as JSON values; its schema as base64 of an Arrow IPC message."""
        return {
            "name": self.name,
            "prefix": self.prefix,
            "schema": _schema_to_text(self.schema),
            "columns": [list(pair) for pair in self.columns],
            "fingerprint": self.fingerprint,
            "image_columns": list(self.image_columns),
            "reason_columns": dict(self.reason_columns),
            "siblings": [asdict(sibling) for sibling in self.siblings],
            "sources": [asdict(source) for source in self.sources],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> PlannedOutput:
        """Makes the output that `to_json` described."""
        return cls(
            name=cast("str", values["name"]),
            prefix=cast("str", values["prefix"]),
            schema=_schema_from_text(cast("str", values["schema"])),
            columns=tuple((out_name, column) for out_name, column in cast("list[list[str]]", values["columns"])),
            fingerprint=cast("str", values["fingerprint"]),
            image_columns=tuple(cast("list[str]", values["image_columns"])),
            reason_columns=cast("dict[str, str]", values["reason_columns"]),
            siblings=tuple(SiblingSpec(**each) for each in cast("list[dict[str, Any]]", values["siblings"])),
            sources=tuple(InputVersion(**each) for each in cast("list[dict[str, Any]]", values["sources"])),
        )


@dataclass(frozen=True)
class RunPlan:
    """A pipeline bound to a dataset's real schema and to output prefixes.

    Attributes:
        run_id: `YYYYMMDDTHHMMSSZ-` and nine hex digits, of which the first three are milliseconds; sorts by start.
        pipeline: the validated pipeline.
        main_schema: the main columns that are read, in reading order, with the plan's types.
        table_schema: the columns after the last op.
        outputs: what is written.
        planned: per op, the columns that it adds, fills or replaces.
        leased: whether the run holds the lease of every output, and shards may be committed only while it does.
    """

    run_id: str
    pipeline: Pipeline
    main_schema: pa.Schema
    table_schema: pa.Schema
    outputs: tuple[PlannedOutput, ...]
    planned: tuple[pa.Schema, ...]
    leased: bool = False

    @property
    def dataset(self) -> Dataset:
        """The dataset that the pipeline runs on."""
        return self.pipeline.dataset

    @property
    def operations(self) -> tuple[BaseOp, ...]:
        """The ops, in order."""
        return self.pipeline.operations

    @property
    def key_column(self) -> str:
        """Name of the key column, first in every output."""
        return self.dataset.key_column

    @property
    def reads_image(self) -> bool:
        """Whether any op looks at pixels, so that batches must be small."""
        return self.dataset.image_column is not None and self.dataset.image_column in self.main_schema.names

    def to_json(self) -> dict[str, object]:
        """Returns the plan as JSON values, for workers that have neither its files nor its objects.

        Prefixes and the names of storage options are in it; credentials never are: each process finds its own.
        """
        return {
            "run_id": self.run_id,
            "pipeline": self.pipeline.to_json(),
            "main_schema": _schema_to_text(self.main_schema),
            "table_schema": _schema_to_text(self.table_schema),
            "outputs": [output.to_json() for output in self.outputs],
            "planned": [_schema_to_text(schema) for schema in self.planned],
            "leased": self.leased,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> RunPlan:
        """Makes the plan that `to_json` described, with the ops that are installed here.

        Raises:
            ConfigError: an op or a plugin of the plan is not installed here.
        """
        return cls(
            run_id=cast("str", values["run_id"]),
            pipeline=Pipeline.from_json(cast("Mapping[str, object]", values["pipeline"])),
            main_schema=_schema_from_text(cast("str", values["main_schema"])),
            table_schema=_schema_from_text(cast("str", values["table_schema"])),
            outputs=tuple(
                PlannedOutput.from_json(output) for output in cast("list[Mapping[str, object]]", values["outputs"])
            ),
            planned=tuple(_schema_from_text(text) for text in cast("list[str]", values["planned"])),
            leased=bool(values.get("leased", False)),
        )

    @property
    def siblings(self) -> tuple[SiblingSpec, ...]:
        """All sidecars that are read by rel_path, each once."""
        return tuple(dict.fromkeys(sibling for output in self.outputs for sibling in output.siblings))

    def dataset_document(self) -> dict[str, object]:
        """Returns what the manifest says of the dataset, as JSON values: its parameters and its YAML text."""
        return {key: value for key, value in self.dataset.to_json().items() if key != "struct_types"}

    def pipeline_document(self) -> dict[str, object]:
        """Returns what the manifest says of the pipeline, as JSON values: ops, outputs, plugins and YAML text."""
        return {key: value for key, value in self.pipeline.to_json().items() if key != "dataset"}

    def producer(self, column: str) -> str | None:
        """Returns the last op that makes a table column, or may; see `CheckedColumns.producer`."""
        return check_columns(self.pipeline, self.main_schema).producer(column)


def plan_run(
    pipeline: Pipeline,
    main: Storage,
    shards: Sequence[ObjectInfo],
    prefixes: Mapping[str, str],
    *,
    now: datetime | None = None,
) -> RunPlan:
    """Binds a pipeline to the types that only storage knows: those of the main dataset, siblings and sources.

    Of each, the footer of the first readable shard is read, and nothing else unless it leaves a type open; see
    `first_readable_schema`.

    Args:
        pipeline: a loaded pipeline.
        main: the main dataset.
        shards: its shards.
        prefixes: the effective prefix of each output, by the output's name.
        now: the time in the run id; default the present.

    Raises:
        UsageError: there are no shards, or none is readable.
        ConfigError: the columns of the main dataset, or of what an op reads besides, do not fit the pipeline.
        StorageError: what an op reads besides is not there, or cannot be read.
        ShardError: a side input's source is no Parquet file.
    """
    main_schema = first_readable_schema(main, shards)
    known_sources = cache(partial(source_schema, options=pipeline.dataset.storage))  # asked again for each main column
    checked = check_columns(pipeline, main_schema, source_schema=known_sources)
    versions = cache(partial(source_version, options=pipeline.dataset.storage))
    reads = pa.schema([main_schema.field(name).remove_metadata() for name in checked.main_columns])
    return RunPlan(
        run_id=new_run_id(now),
        pipeline=pipeline,
        main_schema=reads,
        table_schema=checked.table_schema,
        outputs=tuple(
            _planned_output(pipeline, checked, output.name, prefixes[output.name], versions)
            for output in pipeline.outputs
        ),
        planned=tuple(step.planned for step in checked.steps),
    )


def source_schema(source: str, *, options: StorageOptions | None = None) -> pa.Schema:
    """Returns the columns of a Parquet file, or of the first readable shard below a prefix, with `plain_type` types.

    Args:
        source: a prefix, or the path or URI of one file; relative to the working directory.
        options: how to reach an object store.

    Raises:
        UsageError: there are no shards below the prefix, or none is readable.
        ShardError: the file is no Parquet file.
        StorageError: there is no such file or folder, or it cannot be read.
    """
    found = find_file(source, options)
    if found is not None:
        with open_parquet(found[0], found[1].rel_path) as file:
            return pa.schema([field.with_type(plain_type(field.type)) for field in file.schema_arrow])
    storage = open_storage(source, options)
    return first_readable_schema(storage, storage.list_shards(), setting="the op's source")


def new_run_id(now: datetime | None = None) -> str:
    """Returns an id that sorts by the run's start, to the millisecond, and is unique among runs of the same one."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{moment.microsecond // 1000:03x}{secrets.token_hex(3)}"


def _planned_output(
    pipeline: Pipeline,
    checked: CheckedColumns,
    name: str,
    prefix: str,
    versions: Callable[[str], InputVersion],
) -> PlannedOutput:
    dataset = pipeline.dataset
    output = checked.output(name)
    ops = contributing_ops(checked, name, dataset)
    side_inputs = [spec for op in ops for spec in op.declare_side_inputs(dataset).values()]
    taken = {table_column: out_name for out_name, table_column in output.columns}
    reasons = {
        taken[judged]: path
        for op in pipeline.operations
        for judged, path in op.reason_columns().items()
        if judged in taken
    }
    return PlannedOutput(
        name=name,
        prefix=prefix,
        schema=output.schema,
        columns=output.columns,
        fingerprint=output_fingerprint(pipeline, name),
        image_columns=tuple(
            field.name
            for field in output.schema
            if field.name != dataset.key_column
            and (pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type))
        ),
        reason_columns=reasons,
        siblings=tuple(sibling for op in ops for sibling in op.declare_siblings(dataset)),
        sources=tuple(versions(each) for spec in side_inputs for each in spec.sources),
    )


def _schema_to_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode("ascii")


def _schema_from_text(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
