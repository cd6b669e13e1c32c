"""Gathers what a report says: reads an output's shards, its run folder, and pictures of the rows that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import SidecarError, StorageNotFoundError, UsageError
from sidecar_core.footer import FooterInfo, read_footer
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.proof import choose_shards
from sidecar_core.storage import RUN_FOLDER, Storage, normalise_prefix, open_storage
from sidecar_core.storage.uris import scheme_of
from sidecar_runtimes.status import OutputStatus, output_status

from sidecar_cli.report.failures import Failures
from sidecar_cli.report.figures import (
    ColumnFigures,
    FailureGroup,
    MeasureFigures,
    NotedRow,
    ReportData,
    ValueFigures,
)
from sidecar_cli.report.findings import find_what_stands_out
from sidecar_cli.report.history import LastRun, main_prefix_of, read_last_run, read_verdict
from sidecar_cli.report.leaf_docs import LeafDocs
from sidecar_cli.report.leaf_figures import measure_figures, value_figures
from sidecar_cli.report.leaves import describe_type, is_bytes
from sidecar_cli.report.overlays import collect_overlays, has_boxes
from sidecar_cli.report.pictures import PictureSource, ReadBudget, collect_pictures
from sidecar_cli.report.reasons import count_invalid, count_reasons_by_column
from sidecar_cli.report.shard_figures import (
    MAX_LEAVES,
    Keep,
    ShardFigures,
    footers_by_field,
    read_shard_figures,
)
from sidecar_cli.report.shown_text import shown

_PARALLEL_SHARDS = 4
_PARALLEL_LOCAL_SHARDS = 2  # a disk answers at once; each shard that is open costs memory
_PARALLEL_FOOTERS = 16
_RUNS_SHOWN = 200


@dataclass(frozen=True)
class ReportOptions:
    """What a report looks at, and how much of it.

    Attributes:
        main_prefix: the main dataset; None: what the output's footers name.
        key_column: the key column; None: what the last run's manifest says, else `image_key`.
        image_column: the column of pictures, in the main dataset and in the output; None: likewise, else `image`.
        sample_shards: shards whose rows are looked at, at most.
        seed: of that sample.
        thumbnails: rows shown at each end of a measure; twice as many are shown of each group of failures.
        overlays: rows whose boxes are drawn.
        picture_bytes: bytes of row groups that may be read to find pictures.
        workers: children that decode; None: the machine's cores.
    """

    main_prefix: str | None = None
    key_column: str | None = None
    image_column: str | None = None
    sample_shards: int = 2000
    seed: int = 0
    thumbnails: int = 4
    overlays: int = 4
    picture_bytes: int = 2 * 2**30
    workers: int | None = None


def gather_report(output: Storage, options: ReportOptions | None = None) -> ReportData:
    """Returns what a report of an output says. Changes nothing.

    Memory is bounded by the number of columns and of parallel readers, not by rows.

    Args:
        output: the output, or any dataset of Parquet shards.
        options: what to look at.

    Raises:
        UsageError: there is nothing at the prefix, or no shard and no run.
        StorageError: it cannot be listed.
    """
    return _Gatherer(output, options or ReportOptions()).gather()


class _Gatherer:
    def __init__(self, output: Storage, options: ReportOptions) -> None:
        self._output = output
        self._options = options
        self._status = _find_status(output)
        self._shards = output.list_shards(missing_ok=True)
        self._last = read_last_run(output)
        self._notes: list[str] = []
        dataset = self._last.dataset
        self._key_column = options.key_column or _text(dataset.get("key_column")) or "image_key"
        self._image_column = options.image_column or _text(dataset.get("image_column")) or "image"

    def gather(self) -> ReportData:
        paths = [info.rel_path for info in self._shards]
        chosen = choose_shards(paths, self._options.sample_shards, seed=self._options.seed)
        total, footers = self._read_shards(chosen)
        others = self._read_footers(sorted(set(paths) - set(chosen)), total)
        footers |= others
        rows = total.rows + sum(footer.rows for footer in others.values() if footer is not None)
        reasons, reasons_from = count_reasons_by_column(total, footers, complete=len(footers) == len(paths))
        invalid_rows, invalid_of = count_invalid(total, footers, rows, complete=len(footers) == len(paths))
        failures = total.failures.groups()
        measures, values = self._leaf_figures(total)
        main = self._main(footers)
        data = ReportData(
            title=_title(self._last, self._output.prefix),
            prefix=shown(self._output.prefix),
            main_prefix=shown(main.prefix) if main is not None else None,
            written=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=tuple(sorted(footers_by_field(list(footers.values()), "version"))),
            shards=len(paths),
            bytes=sum(info.size_bytes for info in self._shards),
            shards_read=len(total.footers),
            rows=rows,
            rows_read=total.rows,
            invalid_rows=invalid_rows,
            invalid_of=invalid_of,
            verdict=read_verdict(self._output, self._shards),
            status=self._status,
            pipeline=self._last.pipeline,
            command=self._last.command,
            packages=self._last.packages,
            fingerprints=footers_by_field(list(footers.values()), "fingerprint"),
            columns=tuple(
                ColumnFigures(
                    shown(name), shown(describe_type(each.type)), each.rows, each.null, each.nan, each.from_statistics
                )
                for name, each in total.columns.items()
            ),
            measures=measures,
            values=values,
            reasons=reasons,
            reasons_from=reasons_from,
            failed_filters=total.failures.by_filter(),
            failures=failures,
            unreadable=tuple((shown(path), why) for path, why in total.unreadable),
        )
        return self._with_pictures(data, total, main)

    def _read_shards(self, chosen: Sequence[str]) -> tuple[ShardFigures, dict[str, FooterInfo | None]]:
        """Reads shards in parallel and adds them up in order; as many are held as are read at once."""
        keep = Keep(self._key_column, self._options.thumbnails, 2 * self._options.thumbnails)
        total = ShardFigures(Failures(keep.examples))
        footers: dict[str, FooterInfo | None] = {}
        parallel = _PARALLEL_LOCAL_SHARDS if scheme_of(self._output.prefix) == "file" else _PARALLEL_SHARDS
        with ThreadPoolExecutor(parallel) as threads:
            for rel_path, figures in _in_order(threads, self._output, chosen, keep, parallel):
                total.merge(figures)
                if figures.footers:
                    footers[rel_path] = figures.footers[0]
        if total.left_out:
            self._notes.append(f"{total.left_out:,} leaves beyond the first {MAX_LEAVES:,} are not shown.")
        return total, footers

    def _read_footers(self, paths: Sequence[str], total: ShardFigures) -> dict[str, FooterInfo | None]:
        """Reads what the shards that are not sampled say about themselves."""
        if paths:
            self._notes.append(
                f"Columns are figures of {len(total.footers):,} shards, drawn at random with the seed "
                f"{self._options.seed}; --sample-shards {len(self._shards)} reads all."
            )
        found: dict[str, FooterInfo | None] = {}
        with ThreadPoolExecutor(_PARALLEL_FOOTERS) as threads:
            for rel_path, footer in zip(paths, threads.map(self._footer, paths), strict=True):
                if isinstance(footer, str):
                    total.unreadable.append((rel_path, footer))
                else:
                    found[rel_path] = footer
        return found

    def _footer(self, rel_path: str) -> FooterInfo | str | None:
        try:
            return read_footer(self._output, rel_path)
        except SidecarError as error:
            return shown(error, limit=600)

    def _main(self, footers: Mapping[str, FooterInfo | None]) -> Storage | None:
        prefix = self._options.main_prefix or main_prefix_of(footers)
        if prefix is None:
            return None
        storage = StorageOptions.model_validate(self._last.dataset.get("storage") or {})
        return open_storage(normalise_prefix(prefix), storage)

    def _leaf_figures(self, total: ShardFigures) -> tuple[tuple[MeasureFigures, ...], tuple[ValueFigures, ...]]:
        docs = LeafDocs({name: counts.type for name, counts in total.columns.items()})
        measures: list[MeasureFigures] = []
        values: list[ValueFigures] = []
        for figures in total.leaves.values():
            doc = docs.of(figures.leaf.path)
            if figures.leaf.kind in ("number", "items"):
                measures.append(measure_figures(figures, doc))
            else:
                values.append(value_figures(figures, doc))
        return tuple(measures), tuple(values)

    def _with_pictures(self, data: ReportData, total: ShardFigures, main: Storage | None) -> ReportData:
        rows = list(_by_need(data.failures, data.measures))
        sources: list[PictureSource] = []
        held = total.columns.get(self._image_column)
        if held is not None and is_bytes(held.type):
            sources.append(PictureSource(self._output, self._key_column, self._image_column))
        if main is not None and main.prefix != self._output.prefix:
            sources.append(PictureSource(main, self._key_column, self._image_column))
        if not sources:
            self._notes.append("There are no pictures: neither footers nor --main-prefix name a main dataset.")
        workers = self._options.workers
        pool = IsolationOptions() if workers is None else IsolationOptions(workers=workers)
        with IsolationPool(pool) as isolation:
            budget = ReadBudget(self._options.picture_bytes)
            pictures = collect_pictures(rows, sources, isolation=isolation, budget=budget)
            overlays = ()
            if main is not None and has_boxes(total.columns) and self._options.overlays:
                overlays, problem = collect_overlays(
                    self._output.prefix,
                    main_prefix=main.prefix,
                    key_column=self._key_column,
                    image_column=self._image_column,
                    rows=self._options.overlays,
                    isolation=isolation,
                )
                self._notes += [f"Boxes are not shown: {problem}"] if problem else []
        data = replace(data, pictures=pictures, overlays=overlays, notes=tuple(self._notes))
        return replace(data, findings=find_what_stands_out(data))


def _find_status(output: Storage) -> OutputStatus:
    try:
        status = output_status(output, runs_read=_RUNS_SHOWN)
    except StorageNotFoundError as error:
        raise UsageError(f"nothing is at {output.prefix}", "the prefix of an output") from error
    if not status.shards and not status.runs_in_all:
        raise UsageError(
            f"no shards at {output.prefix}", f"*.parquet files, or the runs of an output in {RUN_FOLDER}/runs/"
        )
    return status


def _in_order(
    threads: ThreadPoolExecutor, output: Storage, chosen: Sequence[str], keep: Keep, parallel: int
) -> Iterator[tuple[str, ShardFigures]]:
    waiting: list[tuple[str, Future[ShardFigures]]] = []
    for rel_path in chosen:
        waiting.append((rel_path, threads.submit(read_shard_figures, output, rel_path, keep)))
        if len(waiting) > parallel:
            path, future = waiting.pop(0)
            yield path, future.result()
    for path, future in waiting:
        yield path, future.result()


def _by_need(failures: Sequence[FailureGroup], measures: Sequence[MeasureFigures]) -> Iterator[NotedRow]:
    """Yields the rows to show, first one of each group and measure, then the second of each, and so on."""
    lists: list[Sequence[NotedRow]] = [group.examples for group in failures]
    lists += [end for measure in measures for end in (measure.lowest, measure.highest)]
    for rank in range(max((len(rows) for rows in lists), default=0)):
        yield from (rows[rank] for rows in lists if rank < len(rows))


def _title(last: LastRun, prefix: str) -> str:
    return shown(_text(last.dataset.get("name")) or prefix.rstrip("/").rsplit("/", 1)[-1])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
