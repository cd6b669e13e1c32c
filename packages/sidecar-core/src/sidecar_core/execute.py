"""What happens to one shard: read, compute batch by batch, write, check, commit, report.

Every runtime calls `run_shard`; a runtime only decides where and when.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core import __version__
from sidecar_core.align import KeyDigest, describe_key, first_misaligned
from sidecar_core.errors import ConflictError, OpError, ShardError, SidecarError
from sidecar_core.footer import FooterInfo
from sidecar_core.inputs import sibling_version, why_changed
from sidecar_core.lease import require_leases
from sidecar_core.op import OpContext
from sidecar_core.outcome import InvalidCounter, ShardReport
from sidecar_core.plugin_faults import ends_worker, words_of
from sidecar_core.problems import counted
from sidecar_core.shard_reader import MainShard, ShardBatch
from sidecar_core.shard_writer import ShardWriter, check_shard_file
from sidecar_core.storage import shared_storage

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sidecar_core.footer import InputVersion
    from sidecar_core.isolation import IsolationPool
    from sidecar_core.op import BaseOp
    from sidecar_core.plan import PlannedOutput, PlannedShard, RunPlan
    from sidecar_core.side_inputs import SiblingSpec
    from sidecar_core.storage import ObjectInfo, Storage

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_SHOWN_NAME = 100


class RunCancelledError(SidecarError):
    """The run was told to stop; the shard was given up and left no output."""


@dataclass(frozen=True)
class ShardResources:
    """What a process holds for all the shards that it works on.

    Attributes:
        main: the main dataset, read only.
        outputs: one storage per planned output, in the plan's order.
        isolation: child processes for the ops; they start when an op gives them work.
        staging: one local folder per output, in which shards are written before they are committed.
        side_inputs: what each op declared, by the op's position in the pipeline and the op's name for it.
        cancelled: set when the run must stop; looked at between batches.
        on_rows: called after each batch with its rows, and the invalid ones of the output that has most of them.
        logger: for messages to the person who runs this.
    """

    main: Storage
    outputs: tuple[Storage, ...]
    isolation: IsolationPool
    staging: tuple[Path, ...]
    side_inputs: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    cancelled: threading.Event | None = None
    on_rows: Callable[[int, int], None] | None = None
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("sidecar"))


def run_shard(plan: RunPlan, shard: PlannedShard, resources: ShardResources) -> ShardReport:
    """Makes one shard of each output, or raises and leaves none of them changed by half.

    Reading of the next batch and writing of the last overlap with computing, so that memory follows
    the batch and not the shard.

    Args:
        plan: the run's plan.
        shard: a main shard, and the output shards that were there when the run was planned.
        resources: storages, child processes and staging folders of this process.

    Returns:
        What was done: rows, invalid rows by reason, bytes, seconds.

    Raises:
        ShardError: the main shard is unreadable or does not fit the plan; trying again does not help.
        OpError: an op broke its contract.
        LeaseLostError: the plan is leased, and the run no longer holds the lease of every output.
        StorageError: reading or committing failed.
        RunCancelledError: `resources.cancelled` was set.
    """
    started = time.monotonic()
    with ExitStack() as scope:
        source = scope.enter_context(MainShard.open(resources.main, shard.main, plan))
        siblings = sibling_versions(plan, shard.rel_path)
        writers = [
            scope.enter_context(open_writer(output, folder, shard.rel_path))
            for output, folder in zip(plan.outputs, resources.staging, strict=True)
        ]
        invalid = [InvalidCounter(output.reason_columns) for output in plan.outputs]
        key_digest = _stream(plan, source, resources, writers, invalid)
        source.check_unchanged()
        check_siblings_unchanged(plan, shard.rel_path, siblings)
        files = [
            _finish(plan, output, writer, source, counter, key_digest, siblings)
            for output, writer, counter in zip(plan.outputs, writers, invalid, strict=True)
        ]
        committed = commit_files(plan, shard, resources, dict(enumerate(files)))
    return ShardReport(
        rel_path=shard.rel_path,
        status="done",
        rows=source.num_rows,
        invalid={output.name: dict(counter.counts) for output, counter in zip(plan.outputs, invalid, strict=True)},
        bytes_in=shard.main.size_bytes,
        bytes_out=sum(info.size_bytes for info in committed),
        elapsed_s=time.monotonic() - started,
    )


def _stream(
    plan: RunPlan,
    source: MainShard,
    resources: ShardResources,
    writers: list[ShardWriter],
    invalid: list[InvalidCounter],
) -> KeyDigest:
    """Moves every batch of the shard through the ops to the writers; returns the main key's digest."""
    digest = KeyDigest()
    with ExitStack() as shard_scope, ThreadPoolExecutor(2, thread_name_prefix="sidecar-io") as io:
        context = shard_context(plan, source, resources, shard_scope)
        batches = source.batches()
        upcoming: Future[ShardBatch | None] = io.submit(next, batches, None)
        writing: Future[None] | None = None
        while (batch := upcoming.result()) is not None:
            upcoming = io.submit(next, batches, None)
            raise_if_cancelled(resources)
            digest.update(batch.table.column(plan.key_column))
            table = apply_ops(plan, batch.table, replace(context, first_row=batch.first_row), resources.side_inputs)
            invalid_rows = max((counter.count(table) for counter in invalid), default=0)
            parts = [output_table(output, table) for output in plan.outputs]
            del table  # the main images are not kept until the next batch has been computed
            if writing is not None:
                writing.result()
            writing = io.submit(_write, writers, parts, end_row_group=batch.ends_row_group)
            del parts  # nor is what has been written
            if resources.on_rows is not None:
                resources.on_rows(batch.table.num_rows, invalid_rows)
        if writing is not None:
            writing.result()
    return digest


def shard_context(plan: RunPlan, source: MainShard, resources: ShardResources, scope: ExitStack) -> OpContext:
    """Returns what ops are told of a shard; a batch gets it with its own first row, an op with its side inputs."""
    return OpContext(
        dataset=plan.dataset,
        rel_path=source.rel_path,
        first_row=0,
        isolation=resources.isolation,
        side_inputs={},
        shard_rows=source.num_rows,
        shard_scope=scope,
        shard_state={},
        logger=resources.logger,
    )


def sibling_versions(plan: RunPlan, rel_path: str) -> dict[SiblingSpec, InputVersion]:
    """Returns which version of each sibling's shard is there."""
    return {
        spec: sibling_version(shared_storage(spec.prefix, plan.dataset.storage), rel_path) for spec in plan.siblings
    }


def check_siblings_unchanged(plan: RunPlan, rel_path: str, before: Mapping[SiblingSpec, InputVersion]) -> None:
    """Raises ShardError when a sibling's shard was replaced while it was read."""
    for spec, version in before.items():
        storage = shared_storage(spec.prefix, plan.dataset.storage)
        if why_changed(version, storage, storage.stat(rel_path)):
            raise ShardError(f"{version.uri}: the sibling's shard changed during the run")


def apply_ops(
    plan: RunPlan, table: pa.Table, context: OpContext, side_inputs: Mapping[int, Mapping[str, object]]
) -> pa.Table:
    """Runs the ops over one batch and holds each to its contract."""
    key = table.column(plan.key_column)
    for index, op in enumerate(plan.operations):
        try:
            own = replace(context, side_inputs=side_inputs.get(index, {}), planned=plan.planned[index])
            result = op.apply(table, own)
        except (SidecarError, OSError):
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and ends_worker(error):
                raise
            words = words_of(error, of=type(op).__module__)
            raise OpError(f"{_rows_of(context, len(key))}: op {op.type_name!r} raised {words}") from error
        _check_op_kept_rows(op, key, result, plan.key_column, context)
        table = result
    for name, expected in zip(plan.table_schema.names, plan.table_schema.types, strict=True):
        found = table.schema.field(name).type if name in table.schema.names else None
        if found != expected:
            message = f"{context.rel_path}: column {name!r} is {found or 'missing'} where the plan has {expected}"
            raise OpError(f"{message}; made by {plan.producer(name) or 'the main dataset'}")
    return table


def _check_op_kept_rows(
    op: BaseOp, key: pa.ChunkedArray, result: pa.Table, key_column: str, context: OpContext
) -> None:
    where = _rows_of(context, len(key))
    if not isinstance(result, pa.Table):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin's op may return anything
        raise OpError(f"{where}: op {op.type_name!r} returned {type(result).__name__}", "a pyarrow.Table")
    if result.num_rows != len(key):
        raise OpError(f"{where}: op {op.type_name!r} returned {counted(result.num_rows, 'row')} for {len(key):,}")
    if key_column not in result.schema.names:
        raise OpError(f"{where}: op {op.type_name!r} dropped the key column {key_column!r}")
    found = result.column(key_column)
    if found.type == key.type and found.equals(key):  # most ops hand the column on as it was
        return
    moved = first_misaligned(key, found, null_matches_null=True)
    if moved is not None:
        before, after = describe_key(key[moved]), describe_key(found[moved])
        where = f"{context.rel_path} row {context.first_row + moved}"
        raise OpError(f"{where}: op {op.type_name!r} changed the key from {before} to {after}")


def _rows_of(context: OpContext, count: int) -> str:
    return f"{context.rel_path} rows {context.first_row}-{context.first_row + count - 1}"


def commit_files(
    plan: RunPlan, shard: PlannedShard, resources: ShardResources, files: Mapping[int, Path]
) -> list[ObjectInfo]:
    """Publishes finished files as the shard of their outputs, each in the place of what was planned to be there.

    Args:
        plan: the run's plan; when it is leased, every lease is asked before each commit.
        shard: the shard.
        resources: the outputs' storages.
        files: local files by the output's position in the plan.

    Raises:
        LeaseLostError: this run may not commit any more.
        RunCancelledError: `resources.cancelled` was set.
        ConflictError: an output shard is not as it was planned.
    """
    raise_if_cancelled(resources)
    committed: list[ObjectInfo] = []
    for index, path in files.items():
        if plan.leased:
            require_leases(resources.outputs, plan.run_id)
        committed.append(resources.outputs[index].commit_file(path, shard.rel_path, replace=shard.present[index]))
    return committed


def output_table(output: PlannedOutput, table: pa.Table) -> pa.Table:
    """Returns an output's columns of the table after the last op."""
    return pa.Table.from_arrays([table.column(column) for _, column in output.columns], schema=output.schema)


def _write(writers: list[ShardWriter], tables: list[pa.Table], *, end_row_group: bool) -> None:
    for writer, table in zip(writers, tables, strict=True):
        writer.write(table, end_row_group=end_row_group)


def open_writer(output: PlannedOutput, folder: Path, rel_path: str) -> ShardWriter:
    """Opens the writer of an output shard in a staging folder.

    A key of an object store is no path: it may begin with `/`, hold `..` or `//`, or be longer than a file's name may
    be. So the file is named by a hash of it, and by as much of its last part as any disk takes.
    """
    digest = hashlib.blake2b(rel_path.encode(errors="surrogateescape"), digest_size=16).hexdigest()
    readable = _UNSAFE.sub("_", rel_path.rpartition("/")[2])[-_SHOWN_NAME:]
    path = folder / output.name / f"{digest}-{readable}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return ShardWriter(path, output.schema, image_columns=output.image_columns)


def _finish(
    plan: RunPlan,
    output: PlannedOutput,
    writer: ShardWriter,
    source: MainShard,
    invalid: InvalidCounter,
    key_digest: KeyDigest,
    siblings: Mapping[SiblingSpec, InputVersion],
) -> Path:
    """Closes the staged file with its footer and proves it before it may be committed."""
    footer = FooterInfo(
        fingerprint=output.fingerprint,
        run_id=plan.run_id,
        version=__version__,
        inputs=(source.version, *(siblings[spec] for spec in output.siblings), *output.sources),
        rows=source.num_rows,
        key_digest="",
        key_digest_row_groups=(),
        invalid=dict(invalid.by_column),
    )
    report = writer.close(footer)
    if report.key_digest != key_digest.hexdigest():
        message = f"{source.rel_path}: output {output.name!r} holds other keys than the main shard"
        raise OpError(message)
    if report.rows != source.num_rows:
        raise OpError(
            f"{source.rel_path}: output {output.name!r} has {counted(report.rows, 'row')} for {source.num_rows:,}"
        )
    check_shard_file(writer.path, output.schema, source.num_rows)
    return writer.path


def raise_if_cancelled(resources: ShardResources) -> None:
    """Raises RunCancelledError when the run was told to stop."""
    if resources.cancelled is not None and resources.cancelled.is_set():
        raise RunCancelledError("the run was stopped")


def is_passing(error: BaseException) -> bool:
    """Returns whether trying the shard again may help: storage failed, and no shard is wrong, missing or taken."""
    return isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, ConflictError))
